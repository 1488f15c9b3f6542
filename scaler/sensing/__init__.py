"""Sensing: what Spark reports of its streaming queries becomes readings of operators over slots."""
