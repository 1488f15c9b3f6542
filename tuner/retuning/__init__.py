"""The retuning daemon: typed phases of one application, under a lease."""
