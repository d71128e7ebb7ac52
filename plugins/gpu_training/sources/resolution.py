"""What every source of data versions offers, and which one a model's settings name."""

from __future__ import annotations

from typing import Protocol

from gpu_training.core.dataversion import DataVersion
from gpu_training.core.errors import GpuTrainingError
from gpu_training.core.model import DataSettings, DataSourceKind


class DataSourceUnavailable(GpuTrainingError):
    """The store can not be reached or is overloaded: trying again may help."""


class DataSource(Protocol):
    """A place that holds data versions."""

    def resolve(self, ref: str, *, run_after: float) -> DataVersion:
        """Give the version that a reference means, after checking that its content is there.

        :param ref: `latest`, an id, or `as of <time>`.
        :param run_after: seconds since 1970; `latest` means as of then, so that a retry resolves to the same version.
        :raises DataVersionError: it is unknown, incomplete or not what it says it is.
        :raises DataSourceUnavailable: the store can not be asked now.
        :raises ConfigurationError: the connection is missing or wrong.
        """


def source_for(settings: DataSettings) -> DataSource:
    """Give the source of a model's settings. Its client is imported only now: DAG files import this module."""
    match settings.source:
        case DataSourceKind.OBJECT_STORE_MANIFEST:
            from gpu_training.sources.object_store_manifest import ObjectStoreManifests

            return ObjectStoreManifests(settings)
