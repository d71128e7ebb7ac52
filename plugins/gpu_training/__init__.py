"""Retrain models on Kubernetes GPUs from Apache Airflow.

Nothing is re-exported here: importing a module of the package must cost only that module, because the scheduler, the
training image and the pure core each import a different part of it.
"""
