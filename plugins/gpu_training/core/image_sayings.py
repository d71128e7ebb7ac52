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
        r"|server misbehaving|network is unreachable|no route to host|host is down|deadline exceeded|timed out"
        r"|context canceled|request canceled|operation was canceled|Client\.Timeout exceeded"
        r"|timeout awaiting response|http2: |stream error: |closed network connection|408 Request Time"
        r"|code = (?:DeadlineExceeded|Canceled|Aborted)"
        r"|server gave HTTP response to HTTPS client|proxyconnect|unexpected EOF|: EOF|broken pipe"
        r"|registry is unavailable|RegistryUnavailable",
        Cause.REGISTRY_UNREACHABLE,
        Cure.TRANSIENT,
        "The registry of {image} can not be reached from the node: {words}",
        "Wait; if it stays so, check the registry, and name, network and certificates on the way to it.",
    ),
    says(
        r"\b(?:500 Internal Server Error|502 Bad Gateway|503 Service Unavailable|504 Gateway Time-?out)|"
        r"(?:status(?: code)?(?: from registry)?:? ?|StatusCode: )5\d\d\b|: 5\d\d(?: |$)"
        r"|unexpected media type text/",
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
    # Of what the image consists: layers and configuration lie behind addresses that are signed for minutes, and in a
    # store that the node itself tidies up.
    says(
        r"failed to copy: |httpReadSeeker|could not fetch content descriptor|(?:reading|fetching|writing|storing) blob"
        r"|error pulling image configuration|download failed after|failed commit on ref|copying system image",
        Cause.IMAGE_PULL_FAILED,
        Cure.TRANSIENT,
        "A part of {image} could not be fetched: {words}",
        "Wait; it is fetched anew. If it stays so, push the image again, or ask whoever runs the registry.",
    ),
    says(
        r"failed to (?:extract|unpack|prepare extraction)|snapshot \S{1,400} does not exist"
        r"|missing parent .{0,200}bucket"
        r"|(?:^|[ :])lease \S{1,200} ?(?:: )?(?:not found|does not exist)|content digest \S{1,200} not found"
        r"|layer not known|failed to register layer",
        Cause.IMAGE_PULL_FAILED,
        Cure.TRANSIENT,
        "The node could not unpack {image}: {words}",
        "Wait; it is tried again. If it stays so, have the node's container runtime looked after.",
    ),
    says(
        r"(?i)authorization token has expired|token (?:has |is )?expired|request has expired|ExpiredToken"
        r"|RequestTimeTooSkewed",
        Cause.IMAGE_UNAUTHORISED,
        Cure.TRANSIENT,
        "The node's login to the registry of {image} has run out.",
        "Wait; if it stays so, have the node's credential provider, or the pull secret, renewed.",
    ),
    says(
        r"(?i)pull access denied|insufficient_scope|unauthorized: |access to the resource is denied"
        r"|authentication required|no basic auth credentials|(?:^|: )denied: |access forbidden|basic: access denied"
        r"|authorization failed|invalid username/password"
        r"|40(?:1 \(?unauthorized|3 \(?forbidden)|(?:status(?: code)?:? ?|StatusCode: )40[13]\b",
        Cause.IMAGE_UNAUTHORISED,
        Cure.NEVER,
        "The registry refuses {image}: it does not exist there, or the node may not pull it.",
        "Check the image's name, and the pull secret of the service account (`imagePullSecrets`) or the node's access.",
    ),
    # Of the login and not of the image: a token's address that is not found, say.
    says(
        r"failed to authorize: |failed to fetch (?:anonymous|oauth) token|[Rr]equesting bearer token",
        Cause.IMAGE_PULL_FAILED,
        Cure.WAITING,
        "The node can not log in to the registry of {image}: {words}",
        "Check the pull secret of the service account (`imagePullSecrets`), or ask whoever runs the registry.",
    ),
    says(
        r"(?i)manifest[ _]unknown|name[ _]unknown|repository does not exist|manifest for \S{1,400} not found"
        r"|(?:artifact|repository) \S{1,400} not found|repository name not known to registry"
        r"|failed to resolve (?:reference|image) \"[^\"]{1,400}\": (?:\S{1,400}: not found|.{0,400}404 Not Found)"
        r"|(?:reading manifest|/manifests/)\S?.{0,400}(?:404 \(?Not Found|StatusCode: 404\b)",
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
