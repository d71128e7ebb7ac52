"""Laying what differs in the next Job over its document, which was built from the spec as it was declared.

So a base document that repeats what the spec declares contradicts nothing, whatever the next Job needs.
"""

from __future__ import annotations

from gpu_training.core.manifest import tolerations_of
from gpu_training.core.naming import TRAINING_CONTAINER
from gpu_training.core.overlay import Document
from gpu_training.core.spec import TrainingSpec


def lay_differences_over(job: Document, declared: TrainingSpec, actual: TrainingSpec) -> None:
    """Put the memory, the node selector and the tolerations of one spec in place of another's.

    :param job: a document of :func:`gpu_training.core.manifest.build_job`; changed in place.
    :param declared: the spec that it was built from.
    :param actual: the same but for these.
    """
    pod: Document = job["spec"]["template"]["spec"]
    for container in pod["containers"]:
        if container["name"] == TRAINING_CONTAINER and actual.resources != declared.resources:
            resources = {"requests": dict(actual.resources.requests), "limits": dict(actual.resources.limits)}
            container["resources"] = {**container["resources"], **resources}
    if actual.node_selector != declared.node_selector:
        kept = {key: value for key, value in pod.get("nodeSelector", {}).items() if key not in declared.node_selector}
        pod["nodeSelector"] = {**kept, **actual.node_selector}
    if actual.tolerations != declared.tolerations:
        before, after = tolerations_of(declared), tolerations_of(actual)
        kept_tolerations = [each for each in pod["tolerations"] if each not in before]
        pod["tolerations"] = [*after, *(each for each in kept_tolerations if each not in after)]
