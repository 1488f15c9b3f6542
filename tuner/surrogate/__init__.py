"""Fit a surrogate of an application to its samples, estimate its error and check it."""
