"""One Job of a lineage and its ledger on an API server that keeps objects, and a task log that remembers."""

from __future__ import annotations

from typing import Any

from tests.unit.cluster.object_server import ObjectApi
from tests.unit.core.kubernetes_documents import JOB_NAME, JOB_UID, NAMESPACE, moment
from tests.unit.core.ledgers import ledger_job, ledger_of

from gpu_training.cluster.jobs import jobs_path
from gpu_training.cluster.ledger_store import LEDGER_KEY, Lineage
from gpu_training.core.events import JobReference
from gpu_training.core.ledger import Ledger, LedgerJob
from gpu_training.core.ledger_document import from_text, to_text
from gpu_training.core.naming import LABEL_DEPLOYMENT, LABEL_LEDGER, LABEL_LINEAGE, LABEL_MODEL, ledger_name

KEY = "0123456789abcdef"
LINEAGE = Lineage(namespace=NAMESPACE, model="m", deployment="airflow", fingerprint="f", key=KEY)
LEDGER = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{ledger_name('m', KEY)}"
JOB = jobs_path(NAMESPACE, JOB_NAME)
REFERENCE = JobReference(namespace=NAMESPACE, name=JOB_NAME, uid=JOB_UID)
RECORD = ledger_job(1, name=JOB_NAME, uid=JOB_UID, created_at=moment(0), seen_until=moment(0))


class Log:
    """Remembers what was said, by level."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.warnings: list[str] = []

    def debug(self, message: str, *args: object, **fields: object) -> None:
        self.lines.append(message % args)

    info = debug

    def warning(self, message: str, *args: object, **fields: object) -> None:
        self.warnings.append(message % args)


def keep(api: ObjectApi, record: LedgerJob, **changes: Any) -> None:
    """Keep a ledger with one Job."""
    labels = {LABEL_LEDGER: "true", LABEL_MODEL: "m", LABEL_DEPLOYMENT: "airflow", LABEL_LINEAGE: KEY}
    metadata = {"name": ledger_name("m", KEY), "labels": labels, "annotations": {"gpu-training.io/fingerprint": "f"}}
    ledger = ledger_of(record, **{"updated_at": 1.0, **changes})
    api.put(LEDGER, {"metadata": metadata, "data": {LEDGER_KEY: to_text(ledger)}})


def kept(api: ObjectApi) -> Ledger:
    """Give the ledger as it stands there."""
    return from_text(api.objects[LEDGER]["data"][LEDGER_KEY])
