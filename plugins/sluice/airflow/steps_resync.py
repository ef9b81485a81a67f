"""The tasks of `resync`: what is due, one comparison a table, the report, a person's approval, the repair."""

import hashlib
import json
import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from airflow.providers.standard.decorators.python import _PythonDecoratedOperator
from airflow.sdk import BaseOperatorLink, Context, get_current_context, task
from airflow.sdk.bases.decorator import task_decorator_factory

from sluice import config, whole_files
from sluice.airflow import asset_events, comparison_job, forms, notify, preflight_check, state_paths
from sluice.airflow.comparison_job import Comparison
from sluice.airflow.daily_timetable import DailyTime
from sluice.airflow.failure import as_airflow
from sluice.airflow.kept_answer import code
from sluice.airflow.step import RETRY
from sluice.airflow.task_context import TaskContext
from sluice.airflow.verified_file import VerifiedFile
from sluice.configuration.model import Replication
from sluice.configuration.options import VerifyOptions
from sluice.coordination.records import Events
from sluice.coordination.verification_log import LastComparison, VerificationLog
from sluice.counted import counted, listed
from sluice.errors import SluiceError, Terminal
from sluice.load import selection
from sluice.load.selection import Selection
from sluice.model.event import Event, EventKind
from sluice.model.names import TableName
from sluice.verify import page, report
from sluice.verify.findings import Outcome, TableFinding
from sluice.verify.report_types import Report, TableReport
from sluice.verify.resync import Action, TableResult

# Tasks with a button "Report" in Airflow, which opens the report of their run.


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


log = logging.getLogger("sluice.airflow")

NAMED = "{{ entry['prefix'] }} → {{ entry['slave'] }} {{ entry['table'] | join('.') }}"
ONE_A_RUN = 2
"""Tables compared at the same time in one run."""
SUNDAY = 6
VERIFIED_PAIRS = "verified"
"""XCom key: the pairs that already have an asset event."""
QUESTION = "question"
"""XCom key: the question before a repair."""
LISTED = 20
"""Tables that the question lists at most."""
OUTCOMES = {Outcome.IDENTICAL: "identical", Outcome.DIFFERENT: "different", Outcome.COULD_NOT_COMPARE: "not compared"}

ALL_TABLES = TableName("*", "*")
"""Stands for the tables of a master whose tables could not be read."""


class Entry(TypedDict):
    """A table of a pair."""

    prefix: str
    slave: str
    table: list[str]
    """Schema and name; empty if the tables could not be read."""
    actions: str
    action: str
    sample: int
    reason: NotRequired[str]
    """Why the tables could not be read."""


@task(**RETRY)  # type: ignore[untyped-decorator]
def due() -> list[Entry]:
    """Lists the tables to compare: those of the chosen pair, or of every pair; a sample of those that are not due."""
    context = get_current_context()
    with as_airflow(context):
        params = context["params"]
        if params["slave"] and not params["prefix"]:
            raise Terminal(f"Slave {params['slave']}: choose its replication, too.", code="replication-not-chosen")
        patterns = Selection.from_dict({"tables": params.get("tables")}).tables
        entries: list[Entry] = []
        for replication in _chosen(params["prefix"]):
            days = _days(replication.verify, context)
            slaves = [params["slave"]] if params["slave"] else list(replication.slaves)
            for slave in slaves:
                entries += _entries(replication, replication.slave(slave).name, patterns, context, days)
        _expect_matches(patterns, entries)
        log.info("%s to compare", counted(len(entries), "table"))
        return entries


@reporting(map_index_template=NAMED, max_active_tis_per_dagrun=ONE_A_RUN, **RETRY)  # type: ignore[untyped-decorator]
def compare(entry: Entry) -> str:
    """Compares one table at one position; with the action `repair` it repairs up to `max_repair_rows` rows."""
    context = get_current_context()
    with as_airflow(context):
        limit = config.load(entry["prefix"]).verify.max_repair_rows
        return _compare(entry, Action(entry["action"]), limit, entry["sample"], context)


@reporting(trigger_rule="all_done", outlets=[asset_events.VERIFIED], **RETRY)  # type: ignore[untyped-decorator]
def write_report(entries: list[Entry] | None) -> str:
    """Writes `report.json` and `report.html` of the run; returns the page's address."""
    context = get_current_context()
    with as_airflow(context):
        entries = _listed(entries)
        for entry in entries:
            if not _part(entry, context).exists():
                task = TaskContext.of_prefix(entry["prefix"], context)
                _record(task, entry, _read(entry, context)["tables"][0], context)
        written = _written(entries, context)
        _send_notices(entries, context)
        pairs = json.loads(written.read_text())
        context["ti"].xcom_push(key=QUESTION, value=question(pairs))
        context["ti"].xcom_push(key=VERIFIED_PAIRS, value=asset_events.add_verified_events(context, pairs))
        return state_paths.report_link(context["run_id"])


@task.short_circuit(ignore_downstream_trigger_rules=False, **RETRY)
def anything_to_repair(entries: list[Entry]) -> bool:
    """Continues with the question to a person if tables differ and were not repaired."""
    return bool(_different(entries, get_current_context()))


@task(**RETRY)  # type: ignore[untyped-decorator]
def approved(entries: list[Entry]) -> list[Entry]:
    """The tables whose repair a person approved."""
    return _different(entries, get_current_context())


@reporting(map_index_template=NAMED, max_active_tis_per_dagrun=ONE_A_RUN, **RETRY)  # type: ignore[untyped-decorator]
def repair(entry: Entry) -> str:
    """Compares the table again, repairs any number of rows, and compares once more."""
    context = get_current_context()
    with as_airflow(context):
        return _compare(entry, Action.REPAIR, None, 0, context)


@reporting(trigger_rule="all_done", outlets=[asset_events.VERIFIED], **RETRY)  # type: ignore[untyped-decorator]
def verdict(entries: list[Entry] | None) -> str:
    """Writes the report again, and fails the run unless every table is identical."""
    context = get_current_context()
    with as_airflow(context):
        entries = _listed(entries)
        written = _written(entries, context)
        _send_notices(entries, context)
        pairs = json.loads(written.read_text())
        before = context["ti"].xcom_pull(task_ids="write_report", key=VERIFIED_PAIRS) or ()
        asset_events.add_verified_events(context, pairs, before)
        _add_events(pairs, context)
        tables = [table for one in pairs for table in one["tables"]]
        outcome = Outcome.of([Outcome(table["outcome"]) for table in tables])
        if outcome is Outcome.IDENTICAL:
            return str(outcome)
        kinds = [kind for kind in Outcome if kind is not Outcome.IDENTICAL]
        found = {kind: [table["table"] for table in tables if table["outcome"] == kind] for kind in kinds}
        wrong = "; ".join(f"{kind}: {listed(names, 10, 'table')}" for kind, names in found.items() if names)
        link = state_paths.report_link(context["run_id"])
        raise Terminal(f"{wrong}. The report is at {link}", code="tables-not-identical")


def question(pairs: Iterable[Report]) -> dict[str, str]:
    """Subject and body of the question whether to repair. `pairs`: the report."""
    names, lines, rows = [], [], 0
    for pair in pairs:
        different = [table for table in pair["tables"] if table["outcome"] == Outcome.DIFFERENT]
        name = f"{pair['prefix']} → {pair['slave']}"
        names += [name] if different else []
        for table in different:
            wrong = _rows_left(table)
            rows += wrong
            lines.append(f"- {name}: {code(table['table'])}: {counted(wrong, 'row')}")
    tables = counted(len(lines), "table")
    if len(lines) > LISTED:
        lines[LISTED:] = [f"- and {counted(len(lines) - LISTED, 'table')} more"]
    return {"subject": f"{', '.join(names)}: repair {counted(rows, 'row')} of {tables}?", "body": "\n".join(lines)}


class Extent(Enum):
    """What a run compares of a table."""

    CHOSEN = "as configured, or as the form says"
    SAMPLE = "the daily sample"
    NOTHING = "nothing"


def extent(verify: VerifyOptions, table: TableName, days: Sequence[date] | None) -> Extent:
    """What a run compares of `table`. `days`: those on which a scheduled one compares; None for a person's."""
    if verify.covers(table) and (days is None or is_due(verify.schedule, days)):
        return Extent.CHOSEN
    return Extent.SAMPLE if days and verify.daily_sample else Extent.NOTHING


def is_due(schedule: str, days: Sequence[date]) -> bool:
    """Whether a scheduled run on these days compares a replication with this `verify.schedule`."""
    return any(schedule == "daily" or (schedule == "weekly" and day.weekday() == SUNDAY) for day in days)


def approval() -> object:
    """The question whether to repair. Without an answer within twenty hours nothing is repaired."""
    from sluice.airflow.kept_answer import KeepsApproval

    return KeepsApproval(
        task_id="approve_repair",
        subject="{{ ti.xcom_pull(task_ids='write_report', key='question')['subject'] }}",
        body="{{ ti.xcom_pull(task_ids='write_report', key='question')['body'] }}\n\n"
        "[Read the report]({{ ti.xcom_pull(task_ids='write_report') }}).\n\n"
        "Approve, and each of these tables is made equal to the master's, however many rows that takes. "
        "Reject, and the rows stay as they are.",
        defaults="Reject",
        response_timeout=timedelta(hours=20),
        **RETRY,
    )


def _chosen(prefix: str | None) -> list[Replication]:
    if prefix:
        return [config.load(prefix)]
    replications, mistakes = forms.survey()
    for mistake in mistakes:
        log.warning("%s", mistake)
    return [one for one in replications if one.comparable]


def _days(verify: VerifyOptions, context: Context) -> list[date] | None:
    """The days on which this scheduled run compares the replication; None for a run that a person started."""
    run = context["dag_run"]
    if str(run.run_type) != "scheduled":
        return None
    assert run.data_interval_start is not None and run.data_interval_end is not None
    return DailyTime.of(verify).days(run.data_interval_start, run.data_interval_end)


def _expect_matches(patterns: Iterable[str], entries: list[Entry]) -> None:
    """Raises `no-such-table` for a pattern that matches no replicated table, unless these could not be read."""
    if any("reason" in entry for entry in entries):
        return
    for pattern in patterns:
        if not any(selection.names(pattern, TableName(*entry["table"])) for entry in entries):
            raise Terminal(
                f"tables: {pattern!r} is no table that is replicated here. Write schema.table, with * for anything; "
                "the DAG reconcile_tables lists those that are replicated.",
                code="no-such-table",
            )


def _entries(
    replication: Replication,
    slave: str,
    patterns: Sequence[str],
    context: Context,
    days: Sequence[date] | None,
) -> list[Entry]:
    """The tables of a pair to compare. `patterns`: of tables, instead of `verify.tables`. `days`: see `extent`."""
    params, verify = context["params"], replication.verify
    action, sample = params["action"] or verify.action, params["sample"] or verify.sample

    def entry(table: list[str], actions: str, *, daily: bool = False) -> Entry:
        return {
            "prefix": str(replication.prefix), "slave": slave, "action": str(Action.VERIFY) if daily else action,
            "table": table, "actions": actions, "sample": verify.daily_sample if daily else sample,
        }  # fmt: skip

    def compared(table: TableName) -> Extent:
        if patterns:
            return Extent.CHOSEN if any(selection.names(each, table) for each in patterns) else Extent.NOTHING
        return extent(verify, table, days)

    if days is not None and not is_due(verify.schedule, days) and not (days and verify.daily_sample):
        return []

    task = TaskContext(replication, slave, context)
    try:
        preflight_check.warn(task, (slave,))
    except SluiceError as failure:
        log.warning("%s: %s", task, failure)
    try:
        with task.rows() as master:
            tables = replication.resolve(task.existing_tables(master))
    except SluiceError as failure:
        log.warning("%s: %s", task, failure)
        return [{**entry([], ""), "reason": str(failure)}]
    return [
        entry([one.table.schema, one.table.name], "".join(sorted(one.actions)), daily=of_it is Extent.SAMPLE)
        for one in tables
        if (of_it := compared(one.table)) is not Extent.NOTHING
    ]


def _compare(entry: Entry, action: Action, limit: int | None, sample: int, context: Context) -> str:
    replication = config.load(entry["prefix"])
    task = TaskContext(replication, entry["slave"], context)
    table = _table_of(entry)
    if "reason" in entry:
        compared = _uncompared(entry, entry["reason"], context)
        whole_files.write(_part(entry, context), json.dumps(compared, ensure_ascii=False), mode=0o600)
    else:
        comparison = Comparison({table: entry["actions"]}, action, limit, sample, _started(context))
        compared = comparison_job.compare(task, comparison, _part(entry, context))
    (shown,) = compared["tables"]
    _record(task, entry, shown, context)
    reason = shown["reason"] or shown["not_repaired_because"]
    log.info("%s %s: %s%s", task, table, shown["outcome"], f". {reason}" if reason else "")
    return shown["outcome"]


def _record(task: TaskContext, entry: Entry, shown: TableReport, context: Context) -> None:
    """Stores the result in the verification log. A sample without differences proves nothing and is not stored."""
    last = shown["after_repair"] or shown
    if last["sampled"] and shown["outcome"] == Outcome.IDENTICAL:
        return
    seen: LastComparison = {
        "outcome": shown["outcome"],
        "checked": datetime.now(UTC).isoformat(timespec="seconds"),
        "run": state_paths.report_name(context["run_id"]),
        "differ": last["to_repair"],
        "reason": last["reason"],
        "time": last["position_time"],
        "position": last["position"],
        "rows": last["rows_slave"],
    }
    verified = VerificationLog(task.redis, task.prefix, entry["slave"])
    verified.write(str(_table_of(entry)), seen)
    VerifiedFile(task.prefix, entry["slave"]).add(verified)


def _table_of(entry: Entry) -> TableName:
    return TableName(*entry["table"]) if entry["table"] else ALL_TABLES


def _part(entry: Entry, context: Context) -> Path:
    name = hashlib.sha256(json.dumps([entry["prefix"], entry["slave"], entry["table"]]).encode()).hexdigest()[:24]
    return state_paths.report_folder(context["run_id"]) / f"part-{name}.json"


def _read(entry: Entry, context: Context) -> Report:
    try:
        report: Report = json.loads(_part(entry, context).read_text())
        return report
    except FileNotFoundError:
        lost = "Its task failed: see the task's log."
        return _uncompared(entry, lost, context)


def _uncompared(entry: Entry, reason: str, context: Context) -> Report:
    """The report of a table that was not compared."""
    result = TableResult(TableFinding(_table_of(entry), Outcome.COULD_NOT_COMPARE, reason))
    return report.as_dict(entry["prefix"], entry["slave"], entry["action"], _started(context), [result])


def _different(entries: list[Entry], context: Context) -> list[Entry]:
    return [entry for entry in entries if _read(entry, context)["outcome"] == Outcome.DIFFERENT]


def _written(entries: list[Entry], context: Context) -> Path:
    """Writes the report; returns the path of `report.json`, beside which is `report.html`."""
    parts: dict[tuple[str, str], list[Report]] = {}
    for entry in entries:
        parts.setdefault((entry["prefix"], entry["slave"]), []).append(_read(entry, context))
    pairs = {pair: report.joined(of_pair) for pair, of_pair in parts.items()}
    for whole in pairs.values():
        log.info("%s → %s: %s", whole["prefix"], whole["slave"], _summary(whole))
    folder = state_paths.report_folder(context["run_id"])
    whole_files.write(folder / "report.html", page.page(pairs.values()), mode=0o600)
    text = json.dumps(list(pairs.values()), ensure_ascii=False, indent=1)
    whole_files.write(folder / "report.json", text, mode=0o600)
    log.info("The report: %s (%s)", state_paths.report_link(context["run_id"]), folder / "report.html")
    return folder / "report.json"


def _listed(entries: list[Entry] | None) -> list[Entry]:
    if entries is None:
        raise Terminal(
            f"{Outcome.COULD_NOT_COMPARE}: the task due has failed; its log says why.", code="tables-not-identical"
        )
    return entries


def _send_notices(entries: list[Entry], context: Context) -> None:
    for prefix in dict.fromkeys(entry["prefix"] for entry in entries):
        notify.send_notices_of_run(TaskContext.of_prefix(prefix, context))


def _add_events(pairs: Iterable[Report], context: Context) -> None:
    """Adds the findings to the events of each slave."""
    for pair in pairs:
        outcomes = Counter(table["outcome"] for table in pair["tables"])
        outcome_counts = ", ".join(
            f"{counted(number, 'table')} {outcome}" for outcome, number in outcomes.most_common()
        )
        task = TaskContext.of_prefix(pair["prefix"], context)
        event = Event(time.time(), EventKind.VERIFICATION, f"Compared: {outcome_counts or 'no table'}")
        with suppress(SluiceError):
            Events(task.redis, task.prefix, pair["slave"]).add([event])


def _rows_left(table: TableReport) -> int:
    """Rows of a table that differ after the repair, if there was one."""
    return int((table["after_repair"] or table)["to_repair"])


def _summary(whole: Report) -> str:
    """Numbers of tables by outcome, of repaired rows, and of rows that still differ, in words."""
    tables = whole["tables"]
    outcomes = Counter(table["outcome"] for table in tables)
    described = [f"{counted(outcomes[one], 'table')} {words}" for one, words in OUTCOMES.items() if outcomes[one]]
    repaired, left = sum(table["repaired"] for table in tables), sum(map(_rows_left, tables))
    described += [f"{counted(repaired, 'row')} repaired"] if repaired else []
    described += [f"{counted(left, 'row')} different"] if left else []
    return ", ".join(described) or "nothing to compare"


def _started(context: Context) -> str:
    started = context["dag_run"].start_date or datetime.now(UTC)
    return str(started.strftime("%Y-%m-%dT%H:%M:%S"))
