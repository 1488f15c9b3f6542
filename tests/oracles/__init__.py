"""Slow, plain twins of the compiled kernels, written from the equations and sharing no code with them."""
