"""The published results: their figures, settings that reproduce them, and the comparison."""
