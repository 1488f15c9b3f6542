"""What Prometheus is told of the service, made from the database when it asks."""
