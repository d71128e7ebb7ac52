"""Whether a model that was trained before is still there, and which registered version it became."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

from gpu_training.core.recovery import KnownTraining
from gpu_training.core.registration import TAG_FINGERPRINT, TAG_GENERATION, TAG_IMAGE, TAG_JOB_UID
from gpu_training.registry.search_filter import quoted, tag_is
from gpu_training.registry.tracking_server import TrackingServer, tracking_server

_LOGGED_MODEL: Final = "models:/m-"
_RUN: Final = "runs:/"
_DIGITS: Final = 10

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundModel:
    """A model whose artifacts are there.

    :param version: of the registered model; None where it is not registered yet.
    """

    model_uri: str
    version: str | None


class ModelLookup:
    """Looks models up on one MLflow server."""

    def __init__(self, server: TrackingServer) -> None:
        self._server = server

    @classmethod
    def from_connection(cls, conn_id: str) -> ModelLookup:
        """Give the look-up of an Airflow connection; nothing is asked of the server.

        :raises ConfigurationError: there is no such connection, or it is malformed.
        """
        return cls(tracking_server(conn_id))

    def find(
        self, *, model_uri: str | None, registered_model: str | None, fingerprint: str, generation: int
    ) -> FoundModel | None:
        """Give the model of a training if its artifacts verify; None when it is gone, or never was.

        :raises RegistryError: the server can not be asked.
        """
        if not model_uri:
            return None
        with self._server.client() as client:
            if not self._is_there(client, model_uri):
                return None
            return FoundModel(
                model_uri=model_uri, version=self._version(client, registered_model, fingerprint, generation)
            )

    def known(self, *, registered_model: str | None, fingerprint: str) -> KnownTraining | None:
        """Give the newest generation of a work that is registered and whole; None when there is none.

        :raises RegistryError: the server can not be asked.
        """
        if not registered_model:
            return None
        wanted = f"name = {quoted(registered_model)} AND {tag_is(TAG_FINGERPRINT, fingerprint)}"
        with self._server.client() as client:
            found = client.search_model_versions(filter_string=wanted, max_results=1000)
            trainings = [training for version in found if (training := _training_of(version)) is not None]
            for training in sorted(trainings, key=lambda each: each.generation, reverse=True):
                if self._is_there(client, training.model_uri):
                    return training
        return None

    def _is_there(self, client: Any, model_uri: str) -> bool:
        from mlflow.exceptions import MlflowException

        try:
            if model_uri.startswith(_LOGGED_MODEL):
                model_id = model_uri.removeprefix("models:/")
                if str(client.get_logged_model(model_id).status) != "READY":
                    return False
                return self._has_files(model_uri, lambda: client.list_logged_model_artifacts(model_id))
            run_id, _, path = model_uri.removeprefix(_RUN).partition("/")
            if not model_uri.startswith(_RUN) or client.get_run(run_id).info.lifecycle_stage != "active":
                return False
            return self._has_files(model_uri, lambda: client.list_artifacts(run_id, path or None))
        except MlflowException as exc:
            # By the code alone: what it says may name a run whose id, or an address whose port, holds any digits.
            if exc.error_code == "RESOURCE_DOES_NOT_EXIST":
                return False
            raise

    def _has_files(self, model_uri: str, listing: Any) -> bool:
        """Whether there are artifacts. A store that this process has no way to is taken at MLflow's word."""
        try:
            return bool(listing())
        except Exception as exc:  # whatever the store's client raises
            _log.warning("artifacts of %s could not be listed, MLflow has it as complete: %s", model_uri, exc)
            return True

    def _version(self, client: Any, name: str | None, fingerprint: str, generation: int) -> str | None:
        if not name:
            return None
        wanted = f"name = {quoted(name)} AND {tag_is(TAG_FINGERPRINT, fingerprint)}"
        found = client.search_model_versions(filter_string=wanted, max_results=100)
        versions = [v for v in found if v.tags.get(TAG_GENERATION) == str(generation)]
        return str(min(versions, key=lambda v: int(v.version)).version) if versions else None


def _training_of(version: Any) -> KnownTraining | None:
    """Give the training that a model version says it is of; None for one that we did not make."""
    generation, job_uid = version.tags.get(TAG_GENERATION, ""), version.tags.get(TAG_JOB_UID, "")
    if not (generation.isascii() and generation.isdecimal() and len(generation) < _DIGITS and job_uid):
        return None
    return KnownTraining(
        generation=max(1, int(generation)),
        model_uri=f"models:/{version.model_id}" if getattr(version, "model_id", None) else str(version.source),
        mlflow_run_id=str(version.run_id or ""),
        job_uid=job_uid,
        image=version.tags.get(TAG_IMAGE, ""),
    )
