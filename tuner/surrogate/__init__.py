"""Samples of an application in; a surrogate of it that states its error, and whether to trust it, out."""
