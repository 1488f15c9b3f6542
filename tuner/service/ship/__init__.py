"""What other programs read to watch over the service: a dashboard of Grafana's, rules of Prometheus'."""
