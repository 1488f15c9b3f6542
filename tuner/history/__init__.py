"""History of decisions and QoS, and explanations of them as data."""
