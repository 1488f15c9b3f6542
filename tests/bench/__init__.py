"""Benchmarks: run by hand, printing ratios measured within one run; none is asserted by the test suite."""
