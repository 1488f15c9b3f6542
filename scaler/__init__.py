"""The scaler: what a Spark driver embeds. Standard library and numpy; everything else is handed in."""
