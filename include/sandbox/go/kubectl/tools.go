//go:build tools

// Package kubectl pins the kubectl that log benchmarks compare with.
package kubectl

import (
	_ "k8s.io/kubernetes/cmd/kubectl"
)
