"""Reports and decisions of agents; their orders."""
