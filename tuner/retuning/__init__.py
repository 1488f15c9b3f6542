"""Retuning in the background: applications that are due in; objectives, rolled out as far as evidence goes, out."""
