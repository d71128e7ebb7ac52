"""A real Kubernetes cluster on one machine, without containers and without root."""
