"""The Application Manager: pipeline, search, store, service and the command line."""
