"""Looks at a cluster, its stores and an Airflow before the first training; what it finds is judged in the core."""
