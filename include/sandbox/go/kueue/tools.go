//go:build tools

// Package kueue pins the Kueue controller that the sandbox builds.
package kueue

import _ "sigs.k8s.io/kueue/cmd/kueue"
