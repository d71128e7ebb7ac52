"""What runtimes and registries say of an image that they do not bring, and what it means.

`{image}` stands for the image, `{Image}` for it where a sentence begins. In the order of what is surest: a registry
that says no because it is asked too often, or is away, says so in words that a refusal of the image may also have.

containerd: https://github.com/containerd/containerd/tree/main/core/remotes/docker,
CRI-O: https://github.com/containers/image/tree/main/docker,
error codes of registries: https://github.com/opencontainers/distribution-spec/blob/main/spec.md#error-codes
"""

from __future__ import annotations

from typing import Final

from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.sayings import says

IMAGE_SAYINGS: Final = (
    says(
        r"[Ii]nvalid reference format|couldn't parse image|Failed to apply default image tag|InvalidImageName",
        Cause.IMAGE_NAME_INVALID,
        Cure.NEVER,
        "{Image} has no valid name.",
        "Correct `image` of the training.",
    ),
    says(
        r"not present with pull policy of Never|ErrImageNeverPull",
        Cause.IMAGE_NOT_PRESENT,
        Cure.NEVER,
        "The node does not have {image}, and its pull policy is Never.",
        "Load the image onto the nodes, or set another pull policy in the template.",
    ),
    says(
        r"pull QPS exceeded",
        Cause.IMAGE_RATE_LIMITED,
        Cure.TRANSIENT,
        "The node pulls as many images as its kubelet may at once.",
        "Wait; it is tried again within seconds.",
    ),
    says(
        r"(?i)toomanyrequests|too many requests|rate limit"
        r"|(?:status(?: code)?:? ?|StatusCode: )429\b",
        Cause.IMAGE_RATE_LIMITED,
        Cure.TRANSIENT,
        "The registry lets no more pulls of {image} through for now.",
        "Wait; a pull secret with an account, or a mirror of the registry, raises the limit.",
    ),
    says(
        r"no match for platform|no matching manifest for"
        r"|no image found in (?:manifest list|image index) for architecture"
        r"|cannot be used on this platform|does not match the specified platform",
        Cause.IMAGE_ARCHITECTURE,
        Cure.NEVER,
        "{Image} is not built for the processor of the node.",
        "Build the image for the node's processor, or select nodes that it is built for.",
    ),
    says(
        r"connection refused|i/o timeout|no such host|TLS handshake timeout|x509: |tls: |connection reset"
        r"|server misbehaving|network is unreachable|no route to host|context deadline exceeded"
        r"|Client\.Timeout exceeded"
        r"|server gave HTTP response to HTTPS client|proxyconnect|unexpected EOF|: EOF|broken pipe"
        r"|registry is unavailable|RegistryUnavailable",
        Cause.REGISTRY_UNREACHABLE,
        Cure.TRANSIENT,
        "The registry of {image} can not be reached from the node: {words}",
        "Wait; if it stays so, check the registry, and name, network and certificates on the way to it.",
    ),
    says(
        r"\b(?:500 Internal Server Error|502 Bad Gateway|503 Service Unavailable|504 Gateway Time-?out)|"
        r"(?:status(?: code)?:? ?|StatusCode: )5\d\d\b",
        Cause.REGISTRY_UNREACHABLE,
        Cure.TRANSIENT,
        "The registry of {image} is in trouble: {words}",
        "Wait; if it stays so, ask whoever runs the registry.",
    ),
    says(
        r"no space left on device",
        Cause.IMAGE_PULL_FAILED,
        Cure.TRANSIENT,
        "The node has no room on its disk for {image}.",
        "Wait until the node has cleaned up, or give it a larger disk.",
    ),
    says(
        r"authorization token has expired",
        Cause.IMAGE_UNAUTHORISED,
        Cure.TRANSIENT,
        "The node's login to the registry of {image} has run out.",
        "Wait; if it stays so, have the node's credential provider, or the pull secret, renewed.",
    ),
    says(
        r"(?i)pull access denied|insufficient_scope|unauthorized|is denied|authentication required"
        r"|no basic auth credentials|denied: |403 Forbidden|403 \(Forbidden\)|StatusCode: 40[13]\b|access forbidden"
        r"|authorization failed|failed to authorize|invalid username/password|(?:status(?: code)?:? ?)40[13]\b",
        Cause.IMAGE_UNAUTHORISED,
        Cure.NEVER,
        "The registry refuses {image}: it does not exist there, or the node may not pull it.",
        "Check the image's name, and the pull secret of the service account (`imagePullSecrets`) or the node's access.",
    ),
    says(
        r"(?i)manifest[ _]unknown|name[ _]unknown|not found|StatusCode: 404\b|does not exist|no such image",
        Cause.IMAGE_NOT_FOUND,
        Cure.NEVER,
        "{Image} is not in its registry.",
        "Push the image, or correct `image` of the training.",
    ),
    says(
        r"(?i)signature validation failed|SignatureValidationFailed|signature was required|rejected by policy",
        Cause.IMAGE_PULL_FAILED,
        Cure.NEVER,
        "The node's policy rejects {image}, as its signature can not be verified: {words}",
        "Sign the image as the cluster demands, or ask whoever runs the cluster.",
    ),
    says(
        r"^Back-off pulling image \"[^\"]{1,400}\"\.?$",
        Cause.IMAGE_PULL_FAILED,
        Cure.TRANSIENT,
        "{Image} could not be pulled; the kubelet waits before it tries again.",
        "Look at the pod's event `Failed` for the reason.",
    ),
)
