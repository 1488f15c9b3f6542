"""Scalers that live in a driver: their parts alone, and on a real standalone cluster."""
