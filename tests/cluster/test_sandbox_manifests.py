"""What the manifests give: least rights for the operator, none for trainings, and no pod that is not restricted."""

from __future__ import annotations

import pytest

from sandbox import manifests
from sandbox.api import Api, ApiError
from sandbox.cluster import Sandbox

pytestmark = pytest.mark.cluster

ALLOWED = [
    *((verb, "batch", "jobs", "") for verb in ("create", "get", "list", "watch", "patch", "delete")),
    *((verb, "", "pods", "") for verb in ("get", "list", "watch", "create")),
    *((verb, "", "configmaps", "") for verb in ("get", "create", "update", "list", "delete")),
    ("get", "", "pods", "log"),
    *(
        (verb, "", resource, "")
        for verb in ("list", "watch")
        for resource in ("events", "resourcequotas", "limitranges")
    ),
    *((verb, "kueue.x-k8s.io", "workloads", "") for verb in ("list", "watch")),
    ("get", "visibility.kueue.x-k8s.io", "localqueues", "pendingworkloads"),
]
EVERYWHERE = [(verb, "", "nodes", "") for verb in ("list", "watch")]
FORBIDDEN = [
    ("deletecollection", "batch", "jobs", ""),
    ("delete", "", "pods", ""),
    ("create", "", "pods", "exec"),
    ("get", "", "secrets", ""),
    ("list", "", "secrets", ""),
    ("get", "", "nodes", ""),
    ("patch", "", "nodes", ""),
    ("create", "", "events", ""),
    ("get", "kueue.x-k8s.io", "clusterqueues", ""),
    ("update", "kueue.x-k8s.io", "workloads", ""),
    ("watch", "", "configmaps", ""),
    ("deletecollection", "", "configmaps", ""),
    ("create", "", "serviceaccounts", "token"),
    ("create", "rbac.authorization.k8s.io", "rolebindings", ""),
]


def may(
    api: Api, account: str, namespace: str, verb: str, group: str, resource: str, subresource: str, name: str = ""
) -> bool:
    attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": resource, "name": name}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:gpu-training:{account}",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:gpu-training", "system:authenticated"],
            "resourceAttributes": attributes | {"subresource": subresource},
        },
    }
    answer = api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def test_the_operator_may_do_what_it_needs_and_no_more(sandbox: Sandbox) -> None:
    def check(attributes: tuple[str, str, str, str]) -> bool:
        return may(sandbox.api, "airflow", "gpu-training", *attributes)

    assert [each for each in ALLOWED if not check(each)] == []
    assert [each for each in EVERYWHERE if not check(each)] == []
    assert [each for each in FORBIDDEN if check(each)] == []


def test_the_operator_may_do_nothing_elsewhere(sandbox: Sandbox) -> None:
    every = [*ALLOWED, *FORBIDDEN]
    assert [each for each in every if may(sandbox.api, "airflow", "default", *each)] == []
    assert [each for each in every if may(sandbox.api, "airflow", "kube-system", *each)] == []


def test_the_operator_may_read_of_other_namespaces_the_autoscaler_s_status_alone(sandbox: Sandbox) -> None:
    def may_read(name: str) -> bool:
        return may(sandbox.api, "airflow", "kube-system", "get", "", "configmaps", "", name=name)

    assert may_read("cluster-autoscaler-status")
    assert not may_read("extension-apiserver-authentication")


def test_a_training_may_do_nothing_at_all(sandbox: Sandbox) -> None:
    every = [*ALLOWED, *EVERYWHERE, *FORBIDDEN]
    assert [each for each in every if may(sandbox.api, "training", "gpu-training", *each)] == []


def test_a_fresh_namespace_gives_the_same_operator_the_same_rights(sandbox: Sandbox, namespace: str) -> None:
    assert may(sandbox.api, "airflow", namespace, "create", "batch", "jobs", "")
    assert sandbox.api.exists(f"/api/v1/namespaces/{namespace}/serviceaccounts/training")


def test_a_pod_that_is_not_restricted_is_refused(sandbox: Sandbox, namespace: str) -> None:
    container = {"name": "c", "image": "whatever:1", "securityContext": {"privileged": True}}
    pod = {"metadata": {"name": "root"}, "spec": {"containers": [container]}}
    with pytest.raises(ApiError, match='violates PodSecurity "restricted:latest": privileged') as refusal:
        sandbox.api.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
    assert refusal.value.status == 403


def test_applying_the_manifests_again_changes_nothing(sandbox: Sandbox) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/gpu-training/roles/gpu-training-operator"
    before = sandbox.api.request("GET", path)["metadata"]["resourceVersion"]
    manifests.apply(sandbox.api)
    assert sandbox.api.request("GET", path)["metadata"]["resourceVersion"] == before
