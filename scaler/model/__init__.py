"""The shared nouns of the product, one codec each."""
