"""Reads from Airflow's metadata what concerns us: runs that are not over, with their questions and failures.

It runs in Airflow's API server, in threads of the monitor, a few times a minute at most for all visitors together; the
public API would make objects of every run and task. Only this module reads the metadata.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sluice.airflow.failure import XCOM_KEY
from sluice.airflow.pages.run_messages import NAMES
from sluice.airflow.task_context import listed
from sluice.operate.api import Question
from sluice.operate.open_runs import FAILED, QUEUED, RETRIED, RUNNING, SUCCESS, WAITING, Airflow, Run, Task, not_over

HOUSEKEEPING = "housekeeping"
DAGS = tuple(NAMES)
KEPT_DAYS = 30
"""Failed runs older than this are not shown any more."""
MOST_ENDED = 2_000
"""The newest ended runs that are looked at."""


def read() -> Airflow:
    """What Airflow says now; never raises: what it cannot say is its `trouble`."""
    from airflow.utils.session import create_session

    try:
        with create_session(scoped=False) as session:
            return _read(session)
    except Exception as error:  # of any driver
        lines = str(getattr(error, "orig", None) or error).strip().splitlines()
        reason = lines[0] if lines else type(error).__name__
        return Airflow(asked=True, trouble=f"its metadata cannot be read ({reason}).")


def _read(session: Any) -> Airflow:
    from airflow.jobs.job import Job
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun, DagRunNote
    from airflow.models.taskinstance import TaskInstance

    since = datetime.now(UTC) - timedelta(days=KEPT_DAYS)
    runs = session.query(
        DagRun.id, DagRun.dag_id, DagRun.run_id, DagRun.conf, DagRun.state, DagRun.queued_at, DagRun.start_date,
        DagRun.end_date,
    ).filter(DagRun.dag_id.in_(DAGS))  # fmt: skip
    # A later housekeeping makes up for a failed one, even if it fails as well: the successful ones need not be read.
    repeated = (DagRun.state == FAILED) | ((DagRun.state == SUCCESS) & (DagRun.dag_id != HOUSEKEEPING))
    ended = runs.filter(DagRun.end_date > since, repeated).order_by(DagRun.id.desc()).limit(MOST_ENDED)
    active = runs.filter(DagRun.state.in_([QUEUED, RUNNING]))
    rows = {row.id: row for row in (*ended, *active)}
    failed = [number for number, row in rows.items() if str(row.state) == FAILED]
    noted = session.query(DagRunNote.dag_run_id, DagRunNote.content).filter(DagRunNote.dag_run_id.in_(failed))
    notes = {number: text or "" for number, text in noted}
    found = not_over(_run(row, notes.get(number, "")) for number, row in sorted(rows.items()))
    last = session.query(DagRun.run_id).filter(DagRun.dag_id == HOUSEKEEPING).order_by(DagRun.id.desc()).first()
    found = [run for run in found if run.dag != HOUSEKEEPING or run.active or (run.id,) == tuple(last)]
    numbers = {(row.dag_id, row.run_id): row.id for row in rows.values()}
    paused = session.query(DagModel.dag_id).filter(DagModel.dag_id.in_(DAGS), DagModel.is_paused.is_(True))
    seen = (
        session.query(Job.latest_heartbeat)
        .filter(Job.job_type == "SchedulerJob")
        .order_by(Job.latest_heartbeat.desc())
        .first()
    )
    return Airflow(
        tuple(_detailed(session, found, numbers)),
        frozenset(dag for (dag,) in paused),
        session.query(TaskInstance).filter(TaskInstance.state.in_(WAITING)).count(),
        seen[0] if seen else None,
        asked=True,
    )


def _run(row: Any, note: str) -> Run:
    conf: Mapping[str, object] = row.conf or {}
    return Run(
        str(row.dag_id),
        str(row.run_id),
        str(conf.get("prefix") or "").upper(),
        listed(conf.get("slave")),
        str(row.state),
        row.end_date if str(row.state) == FAILED else row.start_date or row.queued_at,
        str(conf.get("action") or ""),
        tuple(map(str, tables)) if isinstance(tables := conf.get("tables"), list) else listed(tables),
        ", ".join(f"{name} {conf[name]}" for name in ("where", "key_from", "key_to") if conf.get(name)),
        note=note,
    )


def _detailed(session: Any, found: Iterable[Run], numbers: Mapping[tuple[str, str], int]) -> list[Run]:
    """The runs with their tasks, the reasons of failures, and questions."""
    from airflow.models.hitl import HITLDetail
    from airflow.models.taskinstance import TaskInstance as Instance
    from airflow.models.xcom import XComModel

    runs = {numbers[run.dag, run.id]: run for run in found}
    if not runs:
        return []
    by_name = {(run.dag, run.id): number for number, run in runs.items()}
    reasons: dict[tuple[int, str], str] = {}
    failures = session.query(XComModel.dag_run_id, XComModel.task_id, XComModel.value)
    for number, name, value in failures.filter(XComModel.dag_run_id.in_(list(runs)), XComModel.key == XCOM_KEY):
        reasons[number, name] = _text(value)
    tasks: dict[int, dict[str, Task]] = {}
    questions: dict[int, tuple[Question, datetime]] = {}
    instances = (
        session.query(
            Instance.dag_id, Instance.run_id, Instance.task_id, Instance.state, Instance.id, Instance.end_date,
            Instance.start_date, Instance.queued_dttm, Instance.scheduled_dttm,
            HITLDetail.subject, HITLDetail.body, HITLDetail.created_at, HITLDetail.responded_at,
        )
        .outerjoin(HITLDetail, HITLDetail.ti_id == Instance.id)
        .filter(
            Instance.dag_id.in_({run.dag for run in runs.values()}),
            Instance.run_id.in_({run.id for run in runs.values()}),
        )
    )  # fmt: skip
    for row in instances:
        number = by_name.get((row.dag_id, row.run_id))
        if number is None:
            continue
        state = str(row.state or "")
        since = row.end_date or row.start_date or row.queued_dttm or row.scheduled_dttm
        task = Task(str(row.task_id), state, since, reasons.get((number, row.task_id), ""))
        before = tasks.setdefault(number, {}).get(task.name)
        # Of a mapped task the part counts that needs most.
        if before is None or _worth(task) > _worth(before):
            tasks[number][task.name] = task
        if row.subject is not None and row.responded_at is None and state in ("deferred", "awaiting_input"):
            asked = Question(task.name, str(row.subject), str(row.body or ""), str(row.id))
            questions[number] = asked, row.created_at
    return [_with(run, tasks.get(number, {}), questions.get(number)) for number, run in runs.items()]


def _with(run: Run, tasks: Mapping[str, Task], asked: tuple[Question, datetime] | None) -> Run:
    question, since = asked if asked and run.active else (None, run.since)
    return replace(run, tasks=tuple(tasks.values()), question=question, since=since)


def _worth(task: Task) -> int:
    order = ("", "removed", "skipped", SUCCESS, "upstream_failed", *WAITING, "deferred", RUNNING, RETRIED, FAILED)
    return order.index(task.state) if task.state in order else order.index(RUNNING)


def _text(value: object) -> str:
    """A text in XCom: Airflow stores it as JSON, or as JSON of JSON."""
    try:
        read = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        read = value
    return read if isinstance(read, str) else str(value or "")
