"""The HTTP interface under /v1: one file a room; requests in, records and acknowledgements out."""
