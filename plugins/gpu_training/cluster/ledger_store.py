"""A lineage's ledger in its ConfigMap: read, and changed only from the version that was read."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar
from urllib.parse import quote

from gpu_training.cluster.connection import TRIES, Cluster, Document
from gpu_training.core.documents import child, text, texts
from gpu_training.core.errors import ClusterRejected, ClusterUnavailable, LedgerConflict
from gpu_training.core.events import Work
from gpu_training.core.ledger import Ledger
from gpu_training.core.ledger_document import LedgerDamaged, from_text, to_text
from gpu_training.core.naming import (
    ANNOTATION_FINGERPRINT,
    LABEL_DEPLOYMENT,
    LABEL_LEDGER,
    LABEL_LINEAGE,
    LABEL_MODEL,
    LEDGER_KEY,
    label_value,
    ledger_name,
)

_WRITE_TRIES: Final = 20

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """Which ledger.

    :param key: the 16 hex digits of :attr:`gpu_training.core.naming.Identity.lineage`.
    """

    namespace: str
    model: str
    deployment: str
    fingerprint: str
    key: str

    @classmethod
    def of_work(cls, work: Work, *, namespace: str, deployment: str) -> Lineage:
        """Give the lineage of what a trigger waits for, and its event tells of."""
        return cls(
            namespace=namespace,
            model=work.model,
            deployment=deployment,
            fingerprint=work.fingerprint,
            key=work.lineage,
        )

    @property
    def config_map(self) -> str:
        return ledger_name(self.model, self.key)


class LedgerStore:
    """One lineage's ledger. What was read or written last is kept, so that a change costs one request as a rule."""

    def __init__(self, cluster: Cluster, lineage: Lineage, *, tries: int = TRIES) -> None:
        self.lineage = lineage
        self._cluster = cluster
        self._tries = tries
        self._version = ""
        self._ledger: Ledger | None = None

    @property
    def seen(self) -> Ledger | None:
        """The ledger as it was last read or written; None before."""
        return self._ledger

    def now(self) -> float:
        """Give the API server's time, in seconds since 1970."""
        return self._cluster.clock.now()

    async def read(self) -> Ledger:
        """Give the ledger; a fresh one where there is none yet.

        :raises LedgerConflict: what stands under the ledger's name is not one of ours, or was edited.
        """
        where = self.lineage
        try:
            reply = await self._cluster.request(
                "GET", self._path(where.config_map), doing=f"read ledger {where.config_map}", tries=self._tries
            )
        except ClusterRejected as error:
            if error.status != 404:
                raise
            self._version = ""
            self._ledger = Ledger(model=where.model, deployment=where.deployment, fingerprint=where.fingerprint)
            return self._ledger
        return self._take(reply.document)

    async def change(self, change: Callable[[Ledger], tuple[Ledger, T]], *, now: float) -> T:
        """Apply a change to the newest ledger, write it if it differs, and give what the change gave.

        :param change: pure; called anew with the newest ledger whenever somebody else wrote first.
        :param now: seconds since 1970; stands in the ledger.
        :raises LedgerConflict: as :meth:`read`.
        :raises ClusterUnavailable: the API server could not be asked, or others write without a pause.
        """
        for n in range(_WRITE_TRIES):
            before = self._ledger if self._ledger is not None else await self.read()
            after, given = change(before)
            if after == before or await self._written(replace(after, updated_at=now)):
                return given
            self._ledger = None
            await asyncio.sleep(random.uniform(0, 0.02 * 2 ** min(n, 6)))  # noqa: S311 - to be out of step
        raise ClusterUnavailable(
            f"ledger {self.lineage.namespace}/{self.lineage.config_map} changed {_WRITE_TRIES} times while it was "
            "being written: try again"
        )

    async def _written(self, ledger: Ledger) -> bool:
        """Write from the version that was read; False when that is not the newest any more."""
        metadata: Document = {"name": self.lineage.config_map, "namespace": self.lineage.namespace, **self._marks()}
        document = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {LEDGER_KEY: to_text(ledger)},
        }
        doing = f"write ledger {self.lineage.config_map}"
        try:
            if self._version:
                metadata["resourceVersion"] = self._version
                path = self._path(self.lineage.config_map)
                reply = await self._cluster.request("PUT", path, doing=doing, body=document, tries=self._tries)
            else:
                reply = await self._cluster.request("POST", self._path(), doing=doing, body=document, tries=self._tries)
        except ClusterRejected as error:
            # 404: somebody deleted it meanwhile; what is known is then written as a new one.
            if error.status == 404 and self._version:
                self._version = ""
                return await self._written(ledger)
            if error.status == 409:
                return False
            raise
        self._version = text(child(reply.document, "metadata"), "resourceVersion")
        self._ledger = ledger
        return True

    def _take(self, document: Document) -> Ledger:
        metadata, where = child(document, "metadata"), self.lineage
        labels, annotations = texts(metadata, "labels"), texts(metadata, "annotations")
        name = f"{where.namespace}/{where.config_map}"
        marks = self._marks()
        if labels != {**labels, **marks["labels"]} or annotations != {**annotations, **marks["annotations"]}:
            raise LedgerConflict(
                f"ConfigMap {name} does not bear the marks of this lineage's ledger (labels {labels}, annotations "
                f"{annotations}): it is left alone, and nothing is trained; delete it, or restore its marks"
            )
        try:
            ledger = from_text(text(child(document, "data"), LEDGER_KEY))
        except LedgerDamaged as error:
            raise LedgerConflict(
                f"ledger {name} was edited and can not be read: {error}; nothing is trained. Restore it, or delete the "
                "ConfigMap to begin the lineage anew, with a fresh budget"
            ) from error
        if (ledger.deployment, ledger.fingerprint) != (where.deployment, where.fingerprint):
            raise LedgerConflict(
                f"ledger {name} is about other work (fingerprint {ledger.fingerprint}): it was edited; nothing is "
                "trained. Restore it, or delete the ConfigMap to begin the lineage anew"
            )
        self._version = text(metadata, "resourceVersion")
        self._ledger = ledger
        return ledger

    def _marks(self) -> dict[str, dict[str, str]]:
        where = self.lineage
        return {
            "labels": {
                LABEL_LEDGER: "true",
                LABEL_MODEL: where.model,
                LABEL_DEPLOYMENT: label_value(where.deployment),
                LABEL_LINEAGE: where.key,
            },
            "annotations": {ANNOTATION_FINGERPRINT: where.fingerprint},
        }

    def _path(self, name: str = "") -> str:
        return config_maps_path(self.lineage.namespace, name)


def config_maps_path(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{quote(namespace)}/configmaps" + (f"/{quote(name)}" if name else "")
