"""What runs the service and watches over it: a systemd unit, a container file, a Grafana dashboard, Prometheus rules."""
