"""A real cluster on this machine and a stream on it, for people to watch scalers at work: `tuner live`."""
