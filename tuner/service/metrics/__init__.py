"""Prometheus metrics of the service, made from the database at each scrape."""
