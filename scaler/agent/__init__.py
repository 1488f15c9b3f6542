"""One operator's agent in a driver: slot loop, decisions under orders, pending replicas, checkpoints."""
