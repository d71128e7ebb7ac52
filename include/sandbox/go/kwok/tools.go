//go:build tools

// Package kwok pins the kwok controller that the sandbox builds.
package kwok

import _ "sigs.k8s.io/kwok/cmd/kwok"
