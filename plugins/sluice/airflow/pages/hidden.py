"""Hides values of rows in everything that the monitor shows to people who may not see them. Pure.

`sluice.model.mask.without_values` does that for one text.
`sluice.airflow.pages.databases.images` hides the images of rejects.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from sluice.airflow.pages.access import Visitor
from sluice.airflow.pages.databases import LastAnswer, SlaveData
from sluice.airflow.pages.gathering import Gathered
from sluice.coordination.live_state import LiveSlave, LiveState, Past
from sluice.coordination.verification_log import LastComparison
from sluice.model.apply_status import ApplyStatus
from sluice.model.mask import HIDDEN, without_values
from sluice.model.names import Prefix
from sluice.operate.open_runs import Run

_TEXTS = ("activity", "message", "configuration")
"""Fields of a status that may quote values."""


def shown_to(visitor: Visitor, gathered: Gathered) -> Gathered:
    """The state, without values of rows unless the visitor may see them."""
    if visitor.sees_values:
        return gathered
    answers = {pair: answer(one) for pair, one in gathered.answers.items()}
    airflow = replace(gathered.airflow, runs=tuple(map(_run, gathered.airflow.runs)))
    return replace(gathered, live=live(gathered.live), answers=answers, airflow=airflow)


def _run(run: Run) -> Run:
    tasks = tuple(replace(task, reason=without_values(task.reason)) for task in run.tasks)
    question = run.question and replace(run.question, body=without_values(run.question.body))
    return replace(run, tasks=tasks, question=question)


def live(read: LiveState) -> LiveState:
    slaves: Mapping[tuple[Prefix, str], LiveSlave] = {pair: _slave(one) for pair, one in read.slaves.items()}
    return replace(read, slaves=slaves)


def past(read: Past) -> Past:
    return replace(read, events=[replace(event, text=without_values(event.text)) for event in read.events])


def answer(given: LastAnswer[SlaveData]) -> LastAnswer[SlaveData]:
    """Hides values, except in the images of rejects."""
    seen = given.seen
    if seen is None:
        return given
    checkpoint = seen.checkpoint and replace(seen.checkpoint, message=without_values(seen.checkpoint.message))
    rejects = [
        replace(one, reason=without_values(one.reason), answer=one.answer and without_values(one.answer))
        for one in seen.rejects
    ]
    return replace(given, seen=replace(seen, checkpoint=checkpoint, rejects=rejects))


def report(value: object, key: str = "") -> Any:
    """A report of `resync` as data (`sluice.verify.report_types`), with values hidden."""
    if isinstance(value, Mapping):
        if key in ("key", "master", "slave"):
            return {column: None if text is None else HIDDEN for column, text in value.items()}
        return {without_values(name): report(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [report(each, key) for each in value]
    return without_values(value) if isinstance(value, str) else value


def _slave(one: LiveSlave) -> LiveSlave:
    live: Mapping[str, object] = one.status
    status = {
        **live,
        **{name: without_values(str(live[name])) for name in _TEXTS if live.get(name)},
        "not_ready": {table: without_values(str(why)) for table, why in (one.status.get("not_ready") or {}).items()},
        "differing": [without_values(str(reason)) for reason in one.status.get("differing") or ()],
    }
    tables: dict[str, LastComparison] = {
        table: {**seen, "reason": without_values(seen["reason"])} if seen.get("reason") else seen
        for table, seen in one.tables.items()
    }
    closures = [replace(closure, reason=without_values(closure.reason)) for closure in one.closures]
    issues = [replace(issue, what=without_values(issue.what)) for issue in one.issues]
    return replace(one, status=cast(ApplyStatus, status), tables=tables, closures=closures, issues=issues)
