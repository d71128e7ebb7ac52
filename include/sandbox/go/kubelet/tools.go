//go:build tools

// Package kubelet pins the kubelet that nodes of kind containerd run.
package kubelet

import (
	_ "k8s.io/kubernetes/cmd/kubelet"
)
