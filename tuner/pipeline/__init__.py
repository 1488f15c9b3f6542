"""Pipeline: monitoring files of streams become samples by window, moments and arrival traces."""
