"""What Kubernetes and images accept as names and values, as regular expressions for whole texts.

https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
"""

from __future__ import annotations

from typing import Final

DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"

# A part of a subdomain may be longer than a DNS label: only the whole is limited.
_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
DNS_SUBDOMAIN: Final = rf"(?=.{{1,253}}\Z){_SUBDOMAIN}"
A_NAME: Final = "a Kubernetes name (lower-case letters, digits, `-` and `.`, at most 253 characters)"
"""DNS_SUBDOMAIN in words."""

_QUALIFIED: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LABEL_KEY: Final = rf"((?=[^/]{{1,253}}/){_SUBDOMAIN}/)?{_QUALIFIED}"
LABEL_VALUE: Final = rf"({_QUALIFIED})?"
RESOURCE_KEY: Final = rf"(?=[^/]{{1,253}}/){_SUBDOMAIN}/{_QUALIFIED}"
"""An extended resource, such as `nvidia.com/gpu`."""

DATA_KEY: Final = r"[-._a-zA-Z0-9]{1,253}"
"""A key of a Secret or ConfigMap."""
VARIABLE_NAME: Final = r"[A-Za-z_][A-Za-z0-9_.-]{0,252}"

# A first part counts as a registry only with a dot, a port or upper-case letters in it, or as `localhost`; the pattern
# is a little wider. https://github.com/distribution/reference/blob/main/reference.go
_HOST: Final = r"([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])"
_PATH: Final = r"[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*"
_TAG: Final = r":[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST: Final = r"@sha256:[0-9a-f]{64}"
IMAGE: Final = rf"(?=.{{1,400}}\Z)({_HOST}(:[0-9]{{1,5}})?/)?{_PATH}(/{_PATH})*({_TAG}({_DIGEST})?|{_DIGEST})"
"""An image by tag, by digest, or both. Without either it would be whatever `latest` is on that day."""

MOUNT_PATH: Final = r"(/(?!\.{1,2}(/|\Z))[^/:\x00-\x1f\x7f]+)+"
"""An absolute path without `.`, `..` and empty parts; Kubernetes refuses `:`."""

URI: Final = r"[a-z][a-z0-9+.-]*://[^\s\x00-\x1f\x7f]+"

EXPANSION: Final = "$("
"""Begins `$(NAME)`, for which Kubernetes puts that variable's value in arguments and variables, a Secret's value too.

https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
"""
NO_EXPANSION: Final = (
    f"a text without `{EXPANSION}` is expected: whoever fills in the form may not read the pod's secrets"
)
