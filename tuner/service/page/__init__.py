"""The service's pages for people, rendered on the server, readable without a network or scripts."""
