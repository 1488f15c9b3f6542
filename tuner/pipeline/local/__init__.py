"""Ingest what one machine holds, in this process: Arrow tables and numpy in place of Spark, the same rows."""
