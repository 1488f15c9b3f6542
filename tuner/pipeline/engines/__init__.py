"""The engines of ingestion, and which of them reads what: Spark, or this process."""
