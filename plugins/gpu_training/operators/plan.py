"""From rendered parameters to what this try is to train."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpu_training.core.budget import Budget
from gpu_training.core.choices import IfTrained
from gpu_training.core.consequence import Request
from gpu_training.core.dataversion import DataVersion, parse_data_version
from gpu_training.core.decide import Policy
from gpu_training.core.events import Work
from gpu_training.core.naming import Identity, TaskTry, fingerprint
from gpu_training.core.rules import RuleTable
from gpu_training.core.spec import TrainingSpec, parse_training_spec
from gpu_training.rule_table import rules_for

if TYPE_CHECKING:
    from gpu_training.cluster.ledger_store import Lineage


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What this try is to train.

    :param identity: of the work; generation and number are those of the Job that it turns out to be.
    """

    spec: TrainingSpec
    version: DataVersion
    identity: Identity
    rules: RuleTable
    budget: Budget
    result_required: bool = True

    @property
    def policy(self) -> Policy:
        return Policy(result_required=self.result_required, rules=self.rules)

    def numbered(self, *, generation: int, number: int) -> Plan:
        """Give the plan of one Job."""
        return replace(self, identity=replace(self.identity, generation=generation, number=number))

    def request(self, *, max_tries: int, by_person: bool) -> Request:
        """Give what is asked of the lineage's ledger."""
        return Request(
            task=self.identity.owner,
            max_tries=max_tries,
            by_person=by_person,
            retrain=self.spec.if_trained is IfTrained.RETRAIN,
            budget=self.budget,
            has_fallback=self.spec.spot_fallback is not None,
        )

    def work(self, mlflow_run_id: str) -> Work:
        """Give what the trigger's event tells the operator when the task resumes."""
        return Work(
            model=self.spec.model,
            image=self.spec.image,
            fingerprint=self.identity.fingerprint,
            lineage=self.identity.lineage,
            generation=self.identity.generation,
            data_version=self.version.id,
            data_digest=self.version.digest,
            mlflow_run_id=mlflow_run_id,
        )


def make_plan(
    training: object,
    data_version: object,
    *,
    deployment: str,
    owner: TaskTry,
    retries: int = 0,
    result_required: bool = True,
) -> Plan:
    """Give the plan in rendered parameters.

    :param retries: the task's.
    :raises ConfigurationError: the spec is wrong, or a template is left in it.
    :raises DataVersionError: the data version is absent or malformed.
    """
    spec = parse_training_spec(training)
    version = parse_data_version(data_version)
    identity = Identity(
        model=spec.model,
        deployment=deployment,
        fingerprint=fingerprint(spec, version.digest, (owner.dag_id, owner.run_id)),
        generation=1,
        number=1,
        data_version=version.id,
        data_digest=version.digest,
        owner=owner,
    )
    return Plan(
        spec=spec,
        version=version,
        identity=identity,
        rules=rules_for(spec.failure_rules),
        budget=spec.budget.resolve(
            backoff_limit=spec.backoff_limit, retries=retries, deadline_seconds=spec.deadline_seconds
        ),
        result_required=result_required,
    )


def lineage_of(plan: Plan) -> Lineage:
    """Give the address of a plan's ledger."""
    from gpu_training.cluster.ledger_store import Lineage

    identity = plan.identity
    return Lineage(
        namespace=plan.spec.namespace,
        model=identity.model,
        deployment=identity.deployment,
        fingerprint=identity.fingerprint,
        key=identity.lineage,
    )
