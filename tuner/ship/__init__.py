"""What runs and watches the service: a systemd unit, a container file, a dashboard of Grafana, rules of Prometheus."""
