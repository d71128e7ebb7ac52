"""Benchmarks: figures as ratios and percentiles of one run, never timed tests."""
