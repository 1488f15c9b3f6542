"""The planner: holds a replica while what it averts is worth more than it costs."""
