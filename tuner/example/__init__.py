"""What `tuner demo` replays: no flow in, a scenario to copy out."""
