"""The HTTP interface under /v1, one file a topic."""
