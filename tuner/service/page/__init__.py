"""The database in; pages for people out, made on the server, that need neither a network nor scripts to be read."""
