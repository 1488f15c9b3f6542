"""Actuators: replica targets by node type to executors, to a program of the user's, or to a URL."""
