"""The published results: what they say, how to run the same here, and how the two compare."""
