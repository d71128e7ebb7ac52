"""The node agent of kind `process`: a node whose containers are local processes; no root, no container runtime.

To the API server it is a kubelet: pod status, exit codes, termination messages, grace periods, deadlines, back-off,
events and logs are alike. A container has its own process, mount and host name namespaces and sees the machine's files,
with its volumes where its pod wants them. What a container runtime does beyond that is not there: the user stays the
agent's (`runAsUser`, `runAsNonRoot`, capabilities and a read-only root file system have no effect), CPU and memory
limits are counted and not enforced, the network is the machine's (service IPs lead nowhere), GPUs are a number. What
would silently be missing is refused with CreateContainerConfigError: probes, hooks, sidecar init containers, volumes
other than emptyDir, configMap, secret, downwardAPI and projected ones of these and tokens.
"""
