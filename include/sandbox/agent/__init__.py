"""The node agent of kind `process`: a node whose containers are local processes; no root, no container runtime."""
