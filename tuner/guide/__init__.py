"""The guide: pages in Markdown that the command line and the service show."""
