"""The thesis on Spark Streaming (Azimi Gehraz 2018): its plant, its nine experiments, its claims."""
