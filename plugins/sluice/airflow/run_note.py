"""The note of a run in Airflow: its pair, and what it does.

Forms and the API name a run `manual__2026-…`; a rule for such names does not see the params. So the scheduler writes a
note when the run starts, which Airflow shows beside the run's name. The note of a person is appended to it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow.listeners import hookimpl

from sluice.airflow.forms import TAGS
from sluice.airflow.task_context import listed

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

LONGEST = 900
"""Airflow keeps 1,000 characters."""


def note_of(params: Mapping[str, object]) -> str:
    """The params in one line, the pair first; empty if the run has no prefix."""
    prefix, slaves = str(params.get("prefix") or ""), ", ".join(listed(params.get("slave")))
    if not prefix:
        return ""
    text = f"{prefix} → {slaves}" if slaves else prefix
    details = [str(params[name]) for name in ("action", "reason", "ids") if params.get(name)]
    if params.get("transfer") == "files":
        details.append("by files")
    tables = listed(params.get("tables"))
    if tables:
        details.append(", ".join(tables))
    return (f"{text}: {'; '.join(details)}" if details else text)[:LONGEST]


def params_of(dag_run: "DagRun") -> dict[str, object]:
    """The run's params, with defaults."""
    assert dag_run.dag is not None
    return {**dag_run.dag.params.dump(), **(dag_run.conf or {})}


@hookimpl
def on_dag_run_running(dag_run: "DagRun", msg: str) -> None:
    """The scheduler calls it in the transaction in which the run becomes running."""
    if dag_run.dag is None or not set(TAGS) <= set(dag_run.dag.tags or ()):
        return
    note, written = note_of(params_of(dag_run)), dag_run.note or ""
    if note and not written.startswith(note):
        dag_run.note = f"{note} ({written})"[:LONGEST] if written else note
