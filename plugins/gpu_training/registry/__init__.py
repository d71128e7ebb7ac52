"""MLflow: the run of a training, and the model version that it becomes."""
