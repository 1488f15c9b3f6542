"""State migration side by side: one change of replicas, four strategies, three sizes of state."""
