"""Research: published tables, benchmarks of policies and of search engines."""
