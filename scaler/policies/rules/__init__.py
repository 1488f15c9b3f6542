"""Threshold rules, and the rules of other systems."""
