"""What a search may choose, and what came of each choice."""
