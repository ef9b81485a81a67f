"""Tasks with a button "Report" in Airflow, which opens the report of their run."""

from typing import Any

from airflow.providers.standard.decorators.python import _PythonDecoratedOperator
from airflow.sdk import BaseOperatorLink
from airflow.sdk.bases.decorator import task_decorator_factory

from sluice.airflow import state_paths


class ReportLink(BaseOperatorLink):
    """A link to the run's report."""

    name = "Report"

    def get_link(self, operator: object, *, ti_key: Any) -> str:
        """Airflow calls it when the task has ended."""
        return state_paths.report_link(ti_key.run_id)


class _Reporting(_PythonDecoratedOperator):
    operator_extra_links = (ReportLink(),)


def reporting(**options: Any) -> Any:
    """Like Airflow's `task`, with the link: `@reporting(retries=3)`."""
    return task_decorator_factory(decorated_operator_class=_Reporting, **options)
