"""A lookout on a real control plane, with the operator's own rights: what it sees, and what it is told."""

from __future__ import annotations

import secrets

import pytest
from tests.cluster.looking import DEPLOYMENT, play, told, waiting
from tests.cluster.pod_documents import gpu_pod, job_of

from gpu_training.cluster.connection import ClusterAddress
from gpu_training.cluster.watch import SharedWatch
from gpu_training.core.events import JobReference
from gpu_training.core.naming import LABEL_DEPLOYMENT
from gpu_training.core.surroundings import Autoscaler
from sandbox.api import Document
from sandbox.cluster import Sandbox
from sandbox.proxy import FaultyProxy
from sandbox.proxy_script import Action, Rule, Stream

pytestmark = pytest.mark.cluster

PROMPT_S = 3.0


def create_job(sandbox: Sandbox, namespace: str, *, gpus: int = 1) -> JobReference:
    """Create a Job of ours whose pod finds no node: it asks for a label that none has."""
    spec = gpu_pod("true", gpus=gpus, nodeSelector={"no": "such-node"})
    metadata = {"name": f"job-{secrets.token_hex(3)}", "labels": {LABEL_DEPLOYMENT: DEPLOYMENT}}
    job = job_of(spec)
    job["template"]["metadata"] = {"labels": metadata["labels"]}
    made = sandbox.api.request(
        "POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", {"metadata": metadata, "spec": job}
    )["metadata"]
    return JobReference(namespace=namespace, name=made["name"], uid=made["uid"])


def test_the_operator_sees_nodes_events_quotas_and_its_own_namespace_s_pods(sandbox: Sandbox, namespace: str) -> None:
    quota = {"metadata": {"name": "gpus"}, "spec": {"hard": {"requests.nvidia.com/gpu": "9"}}}
    sandbox.api.request("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
    limits = {"metadata": {"name": "sizes"}, "spec": {"limits": [{"type": "Pod", "max": {"cpu": "64"}}]}}
    sandbox.api.request("POST", f"/api/v1/namespaces/{namespace}/limitranges", limits)
    job = create_job(sandbox, namespace)

    async def scene() -> None:
        async with waiting(sandbox.operator_kubeconfig, job) as subscription:
            await told(
                subscription,
                lambda: [each.reason for each in subscription.around().events or () if each.kind == "Pod"],
                "the scheduler's event",
            )
            seen = subscription.around()
            assert "gpu-1" in [node.name for node in seen.nodes or ()]
            assert [quota.hard for quota in seen.quotas or ()] == [{"requests.nvidia.com/gpu": "9"}]
            assert [limit.maximum for limit in seen.limits or ()] == [{"cpu": "64"}]
            assert (seen.tenants, seen.autoscaler) == ((), Autoscaler.NONE)
            assert seen.hidden == ("pods of other namespaces: the account may not list them",)
            assert {each.reason for each in seen.events or ()} == {"SuccessfulCreate", "FailedScheduling"}

    play(scene())


def test_a_cause_is_told_within_seconds_of_its_beginning(sandbox: Sandbox, namespace: str) -> None:
    job = create_job(sandbox, namespace)

    def patch(node: Document) -> None:
        path = "/api/v1/nodes/gpu-1"
        sandbox.api.request("PATCH", path, node, content_type="application/merge-patch+json")

    async def scene() -> None:
        async with waiting(sandbox.operator_kubeconfig, job) as subscription:

            def cordoned() -> bool:
                return any(node.cordoned for node in subscription.around().nodes or () if node.name == "gpu-1")

            assert not cordoned()
            patch({"spec": {"unschedulable": True}})
            try:
                await told(subscription, cordoned, "a node that is cordoned", PROMPT_S)
            finally:
                patch({"spec": {"unschedulable": None}})
            await told(subscription, lambda: not cordoned(), "a node that is whole again", PROMPT_S)
            event = {
                "metadata": {"name": f"event-{secrets.token_hex(3)}"},
                "involvedObject": {"kind": "Job", "namespace": namespace, "name": job.name, "uid": job.uid},
                "reason": "FailedCreate",
                "type": "Warning",
                "message": "exceeded quota",
            }
            sandbox.api.request("POST", f"/api/v1/namespaces/{namespace}/events", event)
            await told(
                subscription,
                lambda: "FailedCreate" in [each.reason for each in subscription.around().events or ()],
                "an event",
                PROMPT_S,
            )

    play(scene())


def test_pods_of_every_namespace_are_seen_where_that_is_granted(sandbox: Sandbox, namespace: str) -> None:
    job = create_job(sandbox, namespace)

    async def scene() -> None:
        async with waiting(sandbox.kubeconfig, job) as subscription:
            assert subscription.around().hidden == ()
            assert subscription.around().tenants is not None

    play(scene())


def test_watches_that_break_all_the_time_lose_nothing_of_what_is_around(
    sandbox: Sandbox, namespace: str, proxy: FaultyProxy
) -> None:
    job = create_job(sandbox, namespace)
    proxy.follow(Rule(action=Action.CUT, stream=Stream.WATCH, after_s=1))

    async def scene() -> None:
        async with waiting(proxy.kubeconfig, job) as subscription:
            await told(subscription, lambda: subscription.around().events, "the events")
            assert subscription.around().nodes

    play(scene())


def test_a_training_waits_though_nothing_around_it_answers(
    sandbox: Sandbox, namespace: str, proxy: FaultyProxy
) -> None:
    job = create_job(sandbox, namespace)
    proxy.follow(
        Rule(action=Action.ANSWER, status=500, path="/events"),
        Rule(action=Action.ANSWER, status=403, path="/nodes"),
        Rule(action=Action.RESET, path="/resourcequotas"),
    )

    async def scene() -> None:
        address = ClusterAddress(conn_id=None, config_file=str(proxy.kubeconfig))
        async with SharedWatch.subscribe(address, job=job, deployment=DEPLOYMENT) as (subscription, _):
            subscription.look_around(waits=True)
            await told(
                subscription,
                lambda: (
                    {each.partition(":")[0] for each in subscription.around().hidden}
                    >= {"nodes", "events", "resource quotas"}
                    and "not looked at yet" not in " ".join(subscription.around().hidden)
                ),
                "what is hidden",
            )
            await told(subscription, lambda: subscription.observe().pods, "the pod")
            assert subscription.trouble is None

    play(scene())
