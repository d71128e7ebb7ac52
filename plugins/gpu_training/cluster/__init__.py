"""IO with Kubernetes: connections, Jobs, watches, logs. Documents go in and out as the API's own JSON."""
