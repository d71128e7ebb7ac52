"""What runs on the worker."""
