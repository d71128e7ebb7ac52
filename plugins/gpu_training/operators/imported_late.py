"""An operator whose class is imported only where it runs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.bases.operator import ExecutorSafeguard

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context


class ImportedLateOperator(BaseOperator):
    """Stands for another operator in a DAG, and becomes it on the worker.

    The Kubernetes provider's operators import two Kubernetes clients: seconds of processor time that every parse of a
    DAG file, and every task of the DAG, would pay. This one costs nothing until its task runs.

    :param runs: `module:Class` of the operator that runs.
    :param arguments: the operator's arguments. All of them are templated, whatever that operator's own template fields
        are, so no argument may be an object that needs the DAG.
    :param links: the operator's buttons in the UI.
    :param kwargs: arguments of any operator, which hold for both: retries, time-out, task id.
    """

    template_fields: Sequence[str] = ("arguments",)
    template_fields_renderers = {"arguments": "json"}  # noqa: RUF012 - the base class's own form

    def __init__(
        self, *, runs: str, arguments: Mapping[str, Any], links: Sequence[BaseOperatorLink] = (), **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.runs = runs
        self.operator_extra_links = tuple(links)
        self.arguments = dict(arguments)
        self._operator: BaseOperator | None = None

    @property
    def custom_operator_name(self) -> str:
        """Name of the operator that runs, for the UI."""
        return self.runs.partition(":")[2]

    def execute(self, context: Context) -> Any:
        """Run the operator."""
        operator = self._become()
        return operator.execute(context)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Go on in the operator, after it deferred."""
        return self._become().resume_execution(next_method, next_kwargs, context)

    def on_kill(self) -> None:
        """Hand on to the operator, if it had begun."""
        if self._operator is not None:
            self._operator.on_kill()

    def _become(self) -> BaseOperator:
        module, _, name = self.runs.partition(":")
        self._operator = getattr(importlib.import_module(module), name)(
            task_id=self.task_id,
            owner=self.owner,
            retries=self.retries,
            retry_delay=self.retry_delay,
            execution_timeout=self.execution_timeout,
            **self.arguments,
        )
        # Airflow warns of an operator that runs inside another, since that hides a task; here it is the same task.
        ExecutorSafeguard.tracker.set(self._operator)
        return self._operator
