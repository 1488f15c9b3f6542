"""Scalers that live in a Spark driver: what its streams tell in, executors added and removed out."""
