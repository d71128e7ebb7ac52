"""The MLflow run of a training, and the one model version that it becomes."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu_training.core.errors import RegistryError
from gpu_training.core.registration import (
    TAG_FINGERPRINT,
    TAG_GENERATION,
    KnownModelVersion,
    RegistrationPlan,
    TrainedModel,
    plan_registration,
)
from gpu_training.registry.search_filter import quoted, tag_is
from gpu_training.registry.tracking_server import TrackingServer, registry_error, tracking_server

_CREATION_TRIES: Final = 5
_READY_DEADLINE_S: Final = 60.0
_LOGGED_MODEL: Final = "models:/m-"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredVersion:
    """A model version that holds a training.

    :param reused: whether it was there before.
    :param alias_version: version that the alias names now; a later one than this when a newer training has it already.
    :param url: page of the version in MLflow.
    """

    registered_model: str
    version: str
    reused: bool
    alias: str
    alias_version: str
    mlflow_run_id: str
    url: str

    def to_document(self) -> dict[str, object]:
        """Give what the register task hands on: small, plain values."""
        return {
            "registered_model": self.registered_model,
            "model_version": self.version,
            "reused": self.reused,
            "alias": self.alias,
            "alias_version": self.alias_version,
            "mlflow_run_id": self.mlflow_run_id,
            "url": self.url,
        }


class ModelRegistry:
    """Runs and model versions on one MLflow server. Every method may be repeated: what is there already is found.

    Every method that needs an answer raises RegistryError, which names the connection and what to check, within seconds
    when the server can not be reached.
    """

    def __init__(self, server: TrackingServer) -> None:
        self._server = server

    @classmethod
    def from_connection(cls, conn_id: str) -> ModelRegistry:
        """Give the registry of an Airflow connection; nothing is asked of the server.

        :raises ConfigurationError: there is no such connection, or it is malformed.
        """
        return cls(tracking_server(conn_id))

    @property
    def conn_id(self) -> str:
        """Airflow connection that this came from."""
        return self._server.conn_id

    @property
    def tracking_uri(self) -> str:
        """Tracking URI without credentials."""
        return self._server.uri

    def run_url(self, run_id: str) -> str:
        """Give the run's page. A page is no reason to fail, so it is the server's own where that can not be asked."""
        try:
            with self._server.client() as client:
                experiment_id = client.get_run(run_id).info.experiment_id
        except RegistryError as exc:
            _log.warning("no link to MLflow run %s: %s", run_id, exc)
            return self.tracking_uri
        return f"{self.tracking_uri}/#/experiments/{experiment_id}/runs/{run_id}"

    def find_or_create_run(
        self, *, experiment: str, run_name: str, fingerprint: str, generation: int, tags: Mapping[str, str]
    ) -> str:
        """Give the id of the run of this fingerprint and generation, RUNNING and with these tags.

        The oldest is taken where there are several; whoever created one at the same moment takes its own back.

        :param experiment: name; created when missing.
        """
        wanted = {**tags, TAG_FINGERPRINT: fingerprint, TAG_GENERATION: str(generation)}
        with self._server.client() as client:
            experiment_id = self._experiment(client, experiment)
            found = self._runs(client, experiment_id, fingerprint, generation)
            if not found:
                own = client.create_run(experiment_id, run_name=run_name, tags=wanted).info.run_id
                found = self._runs(client, experiment_id, fingerprint, generation)
                if found and found[0].info.run_id != own:
                    client.delete_run(own)
            run_id = str(found[0].info.run_id if found else own)
            for run in found[:1]:
                for name, value in wanted.items():
                    if run.data.tags.get(name) != value:
                        client.set_tag(run_id, name, value)
            # A run that ended stays ended for MLflow, whoever writes to it again: it has to be said.
            client.update_run(run_id, status="RUNNING")
        return run_id

    def close_run(self, run_id: str, *, killed: bool = False) -> None:
        """Mark the run FAILED, or KILLED, whatever the training program said of it: the Job's verdict counts.

        A run that a model version came of stays FINISHED: the same work was trained again, and that failed.
        """
        with self._server.client() as client:
            if client.search_model_versions(filter_string=f"run_id = {quoted(run_id)}", max_results=1):
                status = "FINISHED"
            else:
                status = "KILLED" if killed else "FAILED"
            client.set_terminated(run_id, status=status)

    def register(self, trained: TrainedModel, *, alias: str) -> RegisteredVersion:
        """Leave exactly one READY version for the training's fingerprint and generation, tagged, under the alias, and
        its run FINISHED.

        The alias is given to a new version. A version that was there before gets it only from an older one, so that
        repeating an old run's task does not take it from a newer training.

        :raises RegistryError: besides the server's errors, when the training has left no model that is complete.
        """
        with self._server.client() as client:
            self._check_model(client, trained)
            self._ensure_registered_model(client, trained.registered_model)
            version, reused = self._version(client, trained, alias)
            self._await_ready(client, trained.registered_model, version)
            alias_version = self._move_alias(client, trained.registered_model, alias, version, reused=reused)
            if client.get_run(trained.mlflow_run_id).info.status != "FINISHED":
                client.set_terminated(trained.mlflow_run_id, status="FINISHED")
        return RegisteredVersion(
            registered_model=trained.registered_model,
            version=version,
            reused=reused,
            alias=alias,
            alias_version=alias_version,
            mlflow_run_id=trained.mlflow_run_id,
            url=f"{self.tracking_uri}/#/models/{trained.registered_model}/versions/{version}",
        )

    def _experiment(self, client: Any, name: str) -> str:
        for _ in range(2):
            experiment = client.get_experiment_by_name(name)
            if experiment is not None:
                break
            try:
                return str(client.create_experiment(name))
            except Exception as exc:
                if not _exists_already(exc):
                    raise
        else:
            raise self._refusal(
                f"experiment {name!r} is neither there nor can it be created; try again", transient=True
            )
        if experiment.lifecycle_stage == "deleted":
            raise self._refusal(f"experiment {name!r} is deleted: restore it, or name another in the model's YAML")
        return str(experiment.experiment_id)

    def _runs(self, client: Any, experiment_id: str, fingerprint: str, generation: int) -> list[Any]:
        found = client.search_runs(
            [experiment_id],
            filter_string=f"{tag_is(TAG_FINGERPRINT, fingerprint)} AND {tag_is(TAG_GENERATION, str(generation))}",
            order_by=["attributes.start_time ASC"],
            max_results=100,
        )
        return sorted(found, key=lambda run: (run.info.start_time, run.info.run_id))

    def _check_model(self, client: Any, trained: TrainedModel) -> None:
        model_id = _logged_model_id(trained.model_uri)
        if model_id is None:
            return
        model = client.get_logged_model(model_id)
        if str(model.status) != "READY" or model.source_run_id != trained.mlflow_run_id:
            raise self._refusal(
                f"model_uri={trained.model_uri!r}: a READY model of run {trained.mlflow_run_id} is expected; it is "
                f"{model.status} and of run {model.source_run_id}"
            )

    def _ensure_registered_model(self, client: Any, name: str) -> None:
        try:
            client.create_registered_model(name)
        except Exception as exc:
            if not _exists_already(exc):
                raise

    def _version(self, client: Any, trained: TrainedModel, alias: str) -> tuple[str, bool]:
        """Give the version and whether it was there before, creating it when there is none."""
        for left in reversed(range(_CREATION_TRIES)):
            plan = plan_registration(trained, self._known(client, trained), alias=alias)
            if plan.reuse is not None:
                self._tag(client, plan, plan.reuse)
                return plan.reuse, True
            try:
                own = client.create_model_version(
                    trained.registered_model,
                    source=plan.model_uri,
                    run_id=plan.mlflow_run_id,
                    tags=dict(plan.tags),
                    await_creation_for=0,
                    model_id=_logged_model_id(plan.model_uri),
                ).version
            except Exception as exc:
                if not registry_error(self._server, exc).transient or not left:
                    raise
                time.sleep(random.uniform(0.2, 1.0))  # noqa: S311 - only to be out of step with whoever was in the way
                continue
            return self._settle(client, trained, alias, str(own))
        raise AssertionError("unreachable")  # pragma: no cover

    def _settle(self, client: Any, trained: TrainedModel, alias: str, own: str) -> tuple[str, bool]:
        """Take back a version that we just made where an older one for the same training came in between."""
        plan = plan_registration(trained, self._known(client, trained), alias=alias)
        if plan.reuse is None or plan.reuse == own:
            return own, False
        _log.info(
            "version %s of %s was made at the same time: version %s goes", plan.reuse, trained.registered_model, own
        )
        client.delete_model_version(trained.registered_model, own)
        return plan.reuse, True

    def _known(self, client: Any, trained: TrainedModel) -> list[KnownModelVersion]:
        name, fingerprint = quoted(trained.registered_model), tag_is(TAG_FINGERPRINT, trained.fingerprint)
        found = client.search_model_versions(filter_string=f"name = {name} AND {fingerprint}", max_results=1000)
        return [
            KnownModelVersion(
                version=str(version.version), tags=version.tags, usable=version.status != "FAILED_REGISTRATION"
            )
            for version in found
        ]

    def _tag(self, client: Any, plan: RegistrationPlan, version: str) -> None:
        """Give a version the tags that it lacks; those that it has tell of the training that made it, and stay."""
        present = client.get_model_version(plan.registered_model, version).tags
        for name, value in plan.tags.items():
            if name not in present:
                client.set_model_version_tag(plan.registered_model, version, name, value)

    def _await_ready(self, client: Any, name: str, version: str) -> None:
        deadline = time.monotonic() + _READY_DEADLINE_S
        while (status := client.get_model_version(name, version).status) != "READY":
            if status == "FAILED_REGISTRATION":
                raise self._refusal(f"version {version} of {name} failed to register: see the server's log")
            if time.monotonic() > deadline:
                raise self._refusal(
                    f"version {version} of {name} is {status} after {_READY_DEADLINE_S:.0f} s; try again",
                    transient=True,
                )
            time.sleep(0.5)

    def _move_alias(self, client: Any, name: str, alias: str, version: str, *, reused: bool) -> str:
        for left in reversed(range(_CREATION_TRIES)):
            current = client.get_registered_model(name).aliases.get(alias)
            if current is not None and (str(current) == version or (reused and int(current) > int(version))):
                return str(current)
            try:
                client.set_registered_model_alias(name, alias, version)
            except Exception as exc:
                # Two who give a new alias at once: the server's database refuses the second row, in its own words.
                if "IntegrityError" not in str(exc) or not left:
                    raise
            else:
                return version
        raise AssertionError("unreachable")  # pragma: no cover

    def _refusal(self, message: str, *, transient: bool = False) -> RegistryError:
        server = f"MLflow at {self._server.uri} (connection {self._server.conn_id!r})"
        return RegistryError(f"{server}: {message}", transient=transient)


def _logged_model_id(model_uri: str) -> str | None:
    """Give the id in the URI of a logged model, `models:/m-…`; None for a model that is an artifact of its run."""
    return model_uri.removeprefix("models:/") if model_uri.startswith(_LOGGED_MODEL) else None


def _exists_already(exc: Exception) -> bool:
    return getattr(exc, "error_code", None) == "RESOURCE_ALREADY_EXISTS"
