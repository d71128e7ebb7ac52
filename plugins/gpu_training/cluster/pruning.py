"""Ledgers that nobody needs any more."""

from __future__ import annotations

from typing import Final

from gpu_training.cluster.connection import Cluster, Document
from gpu_training.cluster.jobs import list_pages
from gpu_training.cluster.ledger_store import config_maps_path
from gpu_training.core.documents import child, text
from gpu_training.core.errors import ClusterRejected
from gpu_training.core.ledger_document import LedgerDamaged, from_text
from gpu_training.core.naming import LABEL_DEPLOYMENT, LABEL_LEDGER, LEDGER_KEY, label_value

KEEP_DAYS: Final = 30
"""Longer than any training, and than most questions about what one cost."""
_DAY_S: Final = 24 * 3600.0


async def prune(cluster: Cluster, namespace: str, deployment: str, *, now: float) -> list[str]:
    """Delete this deployment's ledgers that have no living Job and in which nothing has happened for so long.

    What is trained is known to MLflow; a ledger that is edited, or of another release, is left alone. What an account
    may not do here is left undone: it is housekeeping.

    :returns: names of the ConfigMaps that were deleted.
    """
    query = {"labelSelector": f"{LABEL_LEDGER}=true,{LABEL_DEPLOYMENT}={label_value(deployment)}"}
    try:
        pages = list_pages(cluster, config_maps_path(namespace), doing=f"list ledgers in {namespace!r}", query=query)
        stale = [item async for page in pages for item in page["items"] if _is_stale(item, now)]
        return [str(item["metadata"]["name"]) for item in stale if await _delete(cluster, namespace, item)]
    except ClusterRejected as error:
        if error.status != 403:
            raise
    return []


def _is_stale(document: Document, now: float) -> bool:
    try:
        ledger = from_text(text(child(document, "data"), LEDGER_KEY))
    except LedgerDamaged:
        return False
    job = ledger.open_job
    # One that was announced and never made, since the API server refused it, is not waited for for ever.
    return (job is None or job.uid is None) and 0 < ledger.updated_at < now - KEEP_DAYS * _DAY_S


async def _delete(cluster: Cluster, namespace: str, document: Document) -> bool:
    metadata = document["metadata"]
    preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    try:
        await cluster.request(
            "DELETE",
            config_maps_path(namespace, metadata["name"]),
            doing=f"delete ledger {metadata['name']}",
            body={"preconditions": preconditions},
        )
    except ClusterRejected as error:
        if error.status in (404, 409):
            return False
        raise
    return True
