"""What kubelet and runtime say of a container that they do not start, and what it means.

https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/kubelet_pods.go and .../kuberuntime
"""

from __future__ import annotations

from typing import Final

from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.sayings import says

MISSING_OBJECTS: Final = (
    says(
        r"[Ss]ecret \"(?P<name>[^\"]{1,253})\" not found",
        Cause.SECRET_MISSING,
        Cure.NEVER,
        "Secret {name} does not exist in the namespace.",
        "Create Secret {name}, or correct its name in the training.",
    ),
    says(
        r"[Cc]onfig[Mm]ap \"(?P<name>[^\"]{1,253})\" not found",
        Cause.CONFIG_MAP_MISSING,
        Cure.NEVER,
        "ConfigMap {name} does not exist in the namespace.",
        "Create ConfigMap {name}, or correct its name in the training.",
    ),
    says(
        r"couldn't find key (?P<key>\S{1,253}) in Secret (?:[^\s/]{1,63}/)?(?P<name>\S{1,253})",
        Cause.SECRET_MISSING,
        Cure.NEVER,
        "Secret {name} has no key {key}.",
        "Add key {key} to Secret {name}, or correct the key in the training.",
    ),
    says(
        r"couldn't find key (?P<key>\S{1,253}) in ConfigMap (?:[^\s/]{1,63}/)?(?P<name>\S{1,253})",
        Cause.CONFIG_MAP_MISSING,
        Cure.NEVER,
        "ConfigMap {name} has no key {key}.",
        "Add key {key} to ConfigMap {name}, or correct the key in the training.",
    ),
    says(
        r"references non-existent secret key: (?P<key>[^\s,\]]{1,253})",
        Cause.SECRET_MISSING,
        Cure.NEVER,
        "A Secret that is mounted has no key {key}.",
        "Add key {key} to the Secret, or correct the key in the training.",
    ),
    says(
        r"references non-existent config key: (?P<key>[^\s,\]]{1,253})",
        Cause.CONFIG_MAP_MISSING,
        Cure.NEVER,
        "A ConfigMap that is mounted has no key {key}.",
        "Add key {key} to the ConfigMap, or correct the key in the training.",
    ),
    # The kubelet's cache of them is young, or the API server is away.
    says(
        r"failed to sync (?:secret|configmap) cache|object \"[^\"]{0,63}\"/\"[^\"]{1,253}\" not registered"
        r"|services have not yet been read at least once|no relationship found between node",
        Cause.CONTAINER_NOT_CREATED,
        Cure.TRANSIENT,
        "The node has not yet read a Secret, ConfigMap or service that the pod needs.",
        "Wait; it is tried again within a minute or two.",
    ),
)

# Programs that the node has to bring: the runtime, what it calls before a container begins, and nvidia-smi, which the
# toolkit puts into the container. https://github.com/NVIDIA/nvidia-container-toolkit/tree/main/cmd
_OF_NODE: Final = (
    r"(?:[^\"\s]{0,200}/)?(?:nvidia(?:-container-[\w.-]{1,60}|-ctk|-cdi-hook|-smi)?|(?:docker-)?runc|crun|youki|runsc"
    r"|kata-runtime|conmon(?:rs)?|containerd-shim[\w-]{0,60}|(?:amd|rocm|habana|habanalabs)-container-[\w-]{1,60})"
)
_NODES_TOOLKIT: Final = says(
    rf"exec: \"{_OF_NODE}\": |executable file [`'\"]{_OF_NODE}[`'\"] not found|fork/exec {_OF_NODE}: "
    r"|unable to retrieve OCI runtime error|nvidia-container-(?:cli|runtime|toolkit)|nvidia-c(?:tk|di-hook)"
    r"|error (?:running|executing) (?:\w{1,30} )?hook"
    r"|CDI devices?\b|nvml error|could not select device driver|failed to (?:start|find) shim"
    r"|unknown or invalid runtime",
    Cause.CONTAINER_NOT_CREATED,
    Cure.WAITING,
    "The node can not give its GPU to the container, or run it: {words}",
    "Have the node's GPU driver and container toolkit looked after by whoever runs the cluster; the training can run on"
    " another node.",
)

CONTAINER_SAYINGS: Final = (
    *MISSING_OBJECTS,
    _NODES_TOOLKIT,
    says(
        r"runAsNonRoot and image (?:will run as root|has non-numeric user)",
        Cause.CONTAINER_NOT_CREATED,
        Cure.NEVER,
        "The pod may not run as root, and the image does not say that it runs as another user.",
        "Set `USER` to a number in the image, or `runAsUser` in the template.",
    ),
    says(
        r"exec: \"[^\"]{1,300}\": (?:executable file not found|permission denied|is a directory"
        r"|(?:stat \S{1,300}: )?(?:no such file or directory|permission denied))"
        r"|executable file [`'\"][^`'\"]{1,300}[`'\"] not found",
        Cause.CONTAINER_NOT_CREATED,
        Cure.NEVER,
        "The image does not have the program that the training names: {words}",
        "Correct `entrypoint` of the training, or the image.",
    ),
    says(
        r"exec format error",
        Cause.IMAGE_ARCHITECTURE,
        Cure.NEVER,
        "The image is not built for the processor of the node.",
        "Build the image for the node's processor, or select nodes that it is built for.",
    ),
    says(
        r"context deadline exceeded|failed to reserve container name|name .{1,200} is reserved for|connection refused",
        Cause.CONTAINER_NOT_CREATED,
        Cure.TRANSIENT,
        "The node's container runtime does not keep up: {words}",
        "Wait; if it stays so, have the node looked after.",
    ),
)

SANDBOX_SAYINGS: Final = (
    says(
        r"no runtime for \"(?P<handler>[^\"]{1,253})\" is configured"
        r"|failed to find runtime handler (?P<other>\S{1,253}) from runtime list",
        Cause.CONTAINER_NOT_CREATED,
        Cure.WAITING,
        "The node's container runtime does not know the handler of the pod's RuntimeClass.",
        "Have the GPU vendor's container toolkit set up on the node, or take `runtime_class` out of the training.",
    ),
    _NODES_TOOLKIT,
    says(
        r"network is not ready|cni plugin not initialized|failed to set ?up (?:sandbox|network)|plugin type=",
        Cause.CONTAINER_NOT_CREATED,
        Cure.TRANSIENT,
        "The node's network is not ready for the pod: {words}",
        "Wait; if it stays so, have the node's network plugin looked after.",
    ),
)
