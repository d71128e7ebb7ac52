"""A training that is reclaimed while it runs: the scene of both kinds of nodes.

A reclaim comes when the object store shows a checkpoint and the pod's own words a step beyond it.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from tests.light_airflow import LightAirflow, Run
from tests.object_store_service import ObjectStoreServer
from tests.published_flights import publish_in, secret_of
from tests.witness import Document, Voice, Witness

from sandbox.cluster import Sandbox
from sandbox.faults.nodes import reclaim_node, restart_node
from sandbox.processes import snapshot
from sandbox.waiting import wait_for

BUCKET = "reclaimed-trainings"
MODEL = "flight-delay"
STEPS, EVERY = 200, 50
ROUND_S = 0.06
"""A checkpoint each three seconds, so that one is far away when progress past the last one is seen."""
NOTICE_S = 6.0
"""As a spot node's two minutes: longer than a training needs for a last checkpoint."""
_START_DEADLINE_S = 120.0
_END_DEADLINE_S = 60.0
_MARKER = re.compile(r"(?P<folder>.+/(?P<writer>[^/]+)/step-(?P<step>[0-9]+))/COMPLETE")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Checkpoint:
    """A complete checkpoint in the store.

    :param writer: UID of the pod below whose name it is.
    :param folder: its key up to the files.
    """

    step: int
    writer: str
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaim:
    """To be done as soon as a pod is past a checkpoint of at least this step.

    :param how: gets the pod.
    :param notice: whether the training hears of it, and can take a last checkpoint.
    """

    after: int
    how: Callable[[Sandbox, Document], None]
    notice: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """An attempt that was reclaimed.

    :param checkpoint: the newest complete one of all when it had died.
    """

    voice: Voice
    checkpoint: Checkpoint

    @property
    def lost(self) -> range:
        """The steps that nothing has kept."""
        return range(self.checkpoint.step + 1, self.voice.last_step + 1)


def evict(sandbox: Sandbox, pod: Document) -> None:
    """Reclaim a pod with notice, as any drain does: it has its grace period for a last checkpoint."""
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace")}
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/eviction"
    sandbox.api.request("POST", path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})


def take_node(sandbox: Sandbox, pod: Document) -> None:
    """Reclaim the pod's spot node: notice, eviction, and then machine and Node are gone."""
    reclaim_node(sandbox, pod["spec"]["nodeName"], notice_s=NOTICE_S)


def fail_machine(sandbox: Sandbox, pod: Document) -> None:
    """Have the machine below the pod's node fail and start anew: what ran on it is gone without a word."""
    restart_node(sandbox, pod["spec"]["nodeName"], machine=True)


def kill_training(sandbox: Sandbox, pod: Document) -> None:
    """Kill the pod's programs: SIGKILL, and no notice."""
    mark = f"GPU_TRAINING_POD_UID={pod['metadata']['uid']}".encode()
    killed = 0
    for pid in snapshot():
        with suppress(OSError):
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)
                killed += 1
    assert killed, f"no program of pod {pod['metadata']['name']} runs"


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One model of the project, with its trainings in a namespace of the test's own.

    :param image: of the trainer, as the nodes of the selector know it.
    :param deaths: what the reclaims of :meth:`train` did.
    """

    sandbox: Sandbox
    namespace: str
    airflow: LightAirflow
    store: ObjectStoreServer
    models: Path
    image: str
    node_selector: Mapping[str, str]
    deaths: list[Death] = field(default_factory=list)

    def train(self, name: str, *reclaims: Reclaim, **arguments: object) -> tuple[Run, list[Voice]]:
        """Run the model's nightly DAG to its end, reclaiming its pods meanwhile.

        :param name: of the registered model and of the experiment.
        :param arguments: of the trainer, in place of the usual ones.
        """
        self._describe(name, arguments)
        self.deaths.clear()
        with Witness(self.sandbox, self.namespace) as witness, ThreadPoolExecutor(1) as other:
            reclaiming = other.submit(self._reclaim, name, reclaims, witness)
            run = self.airflow.run(f"nightly_retraining__{MODEL}")
            reclaiming.result()
            voices = list(witness.voices.values())
            wait_for(lambda: all(voice.is_over for voice in voices), _END_DEADLINE_S, "the end of all pods")
        return run, voices

    def _describe(self, name: str, arguments: Mapping[str, object]) -> None:
        file = self.models / "flight_delay.yaml"
        document = yaml.safe_load(file.read_text())
        document["retry_delay_seconds"] = 0
        document["data"]["uri"] = f"s3://{BUCKET}/versions"
        document["registry"] |= {"registered_model": name, "experiment": name}
        document["parameters"] = {}
        document["training"] |= {
            "image": self.image,
            "arguments": {
                "rounds": STEPS,
                "checkpoint-every": EVERY,
                "round-seconds": ROUND_S,
                "max-depth": 2,
                **{argument.replace("_", "-"): value for argument, value in arguments.items()},
            },
            "namespace": self.namespace,
            "code_version": self.namespace,
            "node_selector": dict(self.node_selector),
            "checkpoint_uri": f"s3://{BUCKET}/{name}",
            "shared_memory": "16Mi",
            # One that dies without notice ends its Job, and Airflow's retry makes the next one.
            "backoff_limit": 0,
            "resources": {
                "requests": {"cpu": "100m", "memory": "600Mi"},
                "limits": {"nvidia.com/gpu": 1, "memory": "600Mi"},
            },
        }
        file.write_text(yaml.safe_dump(document))

    def checkpoints(self, name: str) -> list[Checkpoint]:
        """Give the complete checkpoints of a registered model's trainings, by step."""
        found = self.store.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{name}/").get("Contents", [])
        matches = [match for entry in found if (match := _MARKER.fullmatch(entry["Key"]))]
        return sorted(
            Checkpoint(step=int(match["step"]), writer=match["writer"], folder=match["folder"]) for match in matches
        )

    def tear(self, like: Checkpoint, *, step: int, writer: str) -> None:
        """Put what another pod left of a checkpoint when it died: all of its files but the marker."""
        folder = f"{like.folder.rsplit('/', 2)[0]}/{writer}/step-{step:08}"
        for entry in self.store.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{like.folder}/")["Contents"]:
            file = entry["Key"].removeprefix(f"{like.folder}/")
            if file != "COMPLETE":
                source = {"Bucket": BUCKET, "Key": entry["Key"]}
                self.store.client.copy_object(Bucket=BUCKET, Key=f"{folder}/{file}", CopySource=source)

    def _reclaim(self, name: str, reclaims: Sequence[Reclaim], witness: Witness) -> None:
        for reclaim in reclaims:

            def past_it(after: int = reclaim.after) -> Voice | None:
                last = next(reversed(witness.voices.values()), None)
                newest = next(reversed(self.checkpoints(name)), None)
                if last is None or last.is_over or newest is None or newest.step < after:
                    return None
                return last if last.last_step > newest.step else None

            voice = wait_for(past_it, _START_DEADLINE_S, f"steps after a checkpoint of step {reclaim.after}")
            path = f"/api/v1/namespaces/{self.namespace}/pods/{voice.pod}"
            with ThreadPoolExecutor(1) as other:
                doing = other.submit(reclaim.how, self.sandbox, self.sandbox.api.request("GET", path))
                wait_for(lambda over=voice: over.is_over, _END_DEADLINE_S, f"the end of {voice.pod}")  # type: ignore[misc]
                self.deaths.append(Death(voice=voice, checkpoint=self.checkpoints(name)[-1]))
                doing.result()


@pytest.fixture(scope="session")
def flights(object_store_server: ObjectStoreServer) -> dict[str, str]:
    """Publish a data version of the flights, and give the variables with which a pod reads it."""
    return publish_in(object_store_server, BUCKET)


def set_scene(
    sandbox: Sandbox,
    namespace: str,
    airflow: LightAirflow,
    store: ObjectStoreServer,
    flights: Mapping[str, str],
    *,
    tracking_uri: str,
    image: str,
    node_selector: Mapping[str, str],
) -> Scene:
    """Give the scene, with everything that the model's DAG connects to."""
    sandbox.api.request("POST", f"/api/v1/namespaces/{namespace}/secrets", secret_of(flights))
    airflow.connect_mlflow(tracking_uri)
    airflow.patch.setenv("AIRFLOW_CONN_FLIGHTS_DATA", store.connection)
    return Scene(
        sandbox=sandbox,
        namespace=namespace,
        airflow=airflow,
        store=store,
        models=airflow.take_project(),
        image=image,
        node_selector=node_selector,
    )
