"""Nodes of kind `containerd`: the upstream kubelet with Debian's containerd and crun, on a machine of its own."""
