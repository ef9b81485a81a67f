"""The tasks of a failover: a slave becomes the master."""

import logging
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from sluice.airflow import comparison_job, state_paths
from sluice.airflow.comparison_job import Comparison
from sluice.airflow.failure import as_airflow
from sluice.airflow.kept_answer import APPROVE, REJECT, KeepsAnswer, answered, code
from sluice.airflow.step import FOR_EVER, NOT_RUN, states_of_run, step, teardown
from sluice.airflow.task_context import TaskContext
from sluice.capture import reconcile, resources
from sluice.capture.uninstall import uninstall
from sluice.coordination.records import Events, FailoverClaim
from sluice.counted import counted, listed
from sluice.database.registry import vendor_of
from sluice.database.session import Session
from sluice.errors import SluiceError, Terminal
from sluice.failover import changed_rows, reversal, steps, survey, switch
from sluice.failover.attempt import Failover
from sluice.model.event import Event, EventKind
from sluice.model.failover import Action
from sluice.model.schema_definitions import TREATMENTS
from sluice.pair import Pair
from sluice.verify.findings import Kind, Outcome
from sluice.verify.report_types import FindingReport

log = logging.getLogger("sluice.airflow")

BOTH = (Action.PLANNED, Action.FORCED)
ROUNDS = 3
"""Comparisons of what changed meanwhile, before the master refuses writes."""


class Rejected(Terminal):
    """A person rejected the failover."""

    def __init__(self, who: str):
        super().__init__(f"The failover was rejected by {who}. Nothing was changed.")


def failover_of(task: TaskContext) -> Failover:
    """The failover of this run."""
    params = task.context["params"]
    pair = Pair.of(task.replication, task.slave.name, task.connections)
    return replace(
        Failover.named(pair, str(task.context["run_id"]), Action(params["action"])),
        reverse=bool(params["reverse"]),
        by=task.person("the DAG failover"),
        gap=int(params["sequence_gap"]),
        override=bool(params["override"]),
    )


def part_of(*actions: Action) -> Callable[[Callable[[TaskContext], object]], Callable[[], object]]:
    """Makes a task that is skipped unless the run has one of these actions."""

    def made(body: Callable[[TaskContext], object]) -> Callable[[], object]:
        def run(task: TaskContext) -> object:
            if Action(task.context["params"]["action"]) not in actions:
                raise AirflowSkipException(f"This is no part of {task.context['params']['action']}.")
            return body(task)

        run.__name__, run.__doc__ = body.__name__, body.__doc__
        task_of: Callable[[], object] = step(trigger_rule="none_failed")(run)
        return task_of

    return made


@step
def check(task: TaskContext) -> object:
    """Lists whether the slave could take over now, and how its definitions differ from the master's. Stores the
    master's definitions on the slave, for a failover without the master; changes nothing else."""
    failover = failover_of(task)
    if failover.action is Action.ABORT:
        return "nothing is checked before an abort"
    facts = survey.gather_facts(failover, task.redis)
    actions = (failover.action,) if failover.action in BOTH else BOTH
    text = survey.report(facts, actions, reverse=failover.reverse)
    if not facts.silent and facts.sheet is not None:
        survey.keep_sheet(failover, facts.sheet)
    for line in text.splitlines():
        log.info("%s", line)
    reasons = survey.blockers(
        facts, failover.action, failover_id=failover.id, reverse=failover.reverse, override=failover.override
    )
    if failover.action in BOTH and reasons and not survey.goes_on(facts, failover):
        raise survey.failover_not_ready(failover, reasons)
    return text


class ApproveFailover(KeepsAnswer):
    """A person approves the failover, before it affects the application."""

    template_fields = ()

    def __init__(self, **kwargs: object):
        settings = {**FOR_EVER, "subject": "Failover", "options": [APPROVE, REJECT], **kwargs}
        super().__init__(**settings)

    def execute(self, context: Context) -> object:
        action = Action(context["params"]["action"])
        if action not in BOTH:
            raise AirflowSkipException("There is nothing to approve in this run.")
        with as_airflow(context):
            task = TaskContext.of(context)
            self.subject = f"{str(action).capitalize()} failover of {task}"
            self.body = question(failover_of(task), str(context["ti"].xcom_pull(task_ids="check")))
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, object]) -> object:
        """Airflow calls it with the answer."""
        with as_airflow(context):
            who, approved = answered(event)
            if not approved:
                raise Rejected(who)
            return f"approved by {who}"


def question(failover: Failover, report: str) -> str:
    """The text of the question, in Markdown."""
    if failover.action is Action.PLANNED:
        what = (
            f"**Approve**: slave {failover.slave.name} is compared and prepared while the application writes. Then the "
            f"master {failover.master_info.server} refuses writes to the replicated tables for some seconds, until "
            "the slave has applied the last changes and is the master. Should a step fail before, the master takes "
            "writes again."
        )
    else:
        what = (
            f"**Approve**: slave {failover.slave.name} becomes the master with what it has. What the former master "
            f"{failover.master_info.server} committed later is lost. Make sure that no application writes there."
        )
    listed = "\n".join(f"- {code(line)}" for line in brief(report))
    more = "The log of the task check has each difference with its statement."
    return f"{what}\n\n**Reject**: nothing is changed.\n\n{listed}\n\n{more}"


def brief(report: str) -> list[str]:
    """The report of `check` shortened for a question: instead of definitions, how many of each kind differ."""
    state, separator, rest = report.partition("\ndefinitions")
    kinds = (line for line in rest.splitlines() if line.partition(":")[0].strip() in TREATMENTS)
    counts = [line for line in kinds if re.match(r"  \S[^:]*: \d+; ", line)]
    lines = [*state.splitlines()[1:], *([separator + rest.partition("\n")[0]] if separator else []), *counts]
    return [line.strip().removeprefix("- ") for line in lines if line.strip()]


@part_of(*BOTH)
def begin(task: TaskContext) -> str:
    """Claims the pair: from now on no other failover of this master, no initial update and no resync may begin."""
    steps.begin(failover_of(task), task.redis)
    return "begun"


@part_of(Action.PLANNED)
def verify(task: TaskContext) -> str:
    """Compares every replicated table, whole or a sample, while the application writes. A table that differs ends the
    failover."""
    failover, sample = failover_of(task), int(task.context["params"]["sample"])
    if steps.is_verified(failover):
        return "compared before"
    with task.master() as master:
        tables = task.replication.resolve(task.existing_tables(master))
    since = steps.slave_position(failover, task.redis)
    wrong = []
    with tempfile.TemporaryDirectory(prefix="failover-", dir=state_paths.jobs_folder()) as folder:
        comparison = Comparison({one.table: one.actions for one in tables}, sample=sample)
        compared = comparison_job.compare(task, comparison, Path(folder) / "report.json") if tables else None
    for finding in compared["tables"] if compared else ():
        result = f"{finding['table']}: {in_words(finding)}"
        log.info("%s: %s", task, result)
        if finding["outcome"] != Outcome.IDENTICAL:
            wrong.append(result)
    _expect_equal(wrong)
    extent = f"by about {counted(sample, 'row')} each" if sample else "whole"
    what = f"{counted(len(tables), 'table')} compared {extent}, all identical"
    steps.verified(failover, what, since)
    return what


def _expect_equal(wrong: Sequence[str]) -> None:
    """Raises `slave-differs` with what is `wrong`."""
    if wrong:
        raise Terminal(
            f"The slave is not what its master is, and does not take over: {'; '.join(wrong)}. Run resync with "
            "the action repair, then trigger the failover again.",
            code="slave-differs",
        )


def in_words(finding: FindingReport) -> str:
    """The finding in words."""
    if finding["found"] == Outcome.IDENTICAL:
        return f"identical, {counted(finding['rows_slave'], 'row')}"
    counts = {Kind.MISSING: finding["missing"], Kind.EXTRA: finding["extra"], Kind.DIFFERENT: finding["different"]}
    kinds = [f"{counted(count, 'row')} {kind}" for kind, count in counts.items() if count]
    keys = [str(example["key"]) for example in finding["examples"][:3] if example["key"]]
    return finding["reason"] or f"{', '.join(kinds)}{', as ' if keys else ''}{'; '.join(keys)}"


@part_of(Action.PLANNED)
def prepare(task: TaskContext) -> str:
    """Does what takes long, while the application writes: indexes, checks, comments; with `reverse` the capture; the
    triggers of the guard, which refuse nothing yet."""
    left = switch.prepare(failover_of(task), lambda slave: _capture(task, slave))
    return "\n".join(left) or "prepared"


@part_of(*BOTH)
def switch_over(task: TaskContext) -> str:
    """Makes the slave the master. In a planned failover the master refuses writes from here on; should anything fail,
    it takes them again. Once the slave is the master, let the application connect to it. The log says what a person
    has to do."""
    failover = failover_of(task)
    if failover.action is Action.PLANNED:
        _approach(task, failover)
    try:
        results = [stage(task) for stage in STAGES if failover.action is Action.PLANNED or stage not in OF_PLANNED]
    except Exception as error:
        if failover.action is Action.PLANNED:
            _give_back(task, failover, error)
        raise
    return "\n".join(results)


def _approach(task: TaskContext, failover: Failover) -> None:
    """Waits until the slave is close to the master, and compares what changed since `verify`, so that `compare_changed`
    has few rows left. Raises `slave-differs`."""
    for _ in range(ROUNDS):
        position = steps.approach(failover, task.redis)
        if position is None or (result := changed_rows.compare_meanwhile(failover, position)) is None:
            return
        log.info("%s: %s, as of %s", task, result, position.time)
        _expect_equal(result.wrong_in_words())
        if result.changes <= changed_rows.FEW_CHANGES:
            return


def guard(task: TaskContext) -> str:
    """The master refuses writes. Takes its last position."""
    failover = failover_of(task)
    steps.guard(failover)
    _add_event(task, f"The master {failover.master_info.server} refuses writes, for failover {failover.id}")
    return "the master refuses writes"


def reach(task: TaskContext) -> str:
    """Waits until the slave has applied the last position."""
    steps.reach(failover_of(task), task.redis)
    return "the slave has all"


def end_apply(task: TaskContext) -> str:
    """Ends the apply of the slave; nothing is applied to it from now on."""
    return steps.end_apply(failover_of(task), task.redis)


def compare_changed(task: TaskContext) -> str:
    """Compares the rows that changed since the slave was compared, for a second at most."""
    result = changed_rows.compare_finally(failover_of(task))
    log.info("%s: %s", task, result)
    _expect_equal(result.wrong_in_words())
    return str(result)


def complete(task: TaskContext) -> str:
    """Creates actions of foreign keys, triggers, owners, privileges and the like as on the master."""
    left = switch.complete(failover_of(task))
    return "\n".join(left) or "all is as on the master"


def capture(task: TaskContext) -> str:
    """With `reverse`: captures the slave's changes from before its first writer on."""
    failover = failover_of(task)
    switch.capture(failover, lambda slave: _capture(task, slave))
    return "captured" if failover.reverse else "not wanted"


def switch_state(task: TaskContext) -> str:
    """Makes the slave the master. This cannot be undone."""
    failover = failover_of(task)
    text = switch.switch(failover, task.redis)
    former = failover.master_info.server
    _add_event(
        task, f"{failover.slave_info.server} is the master in place of {former}: {failover.action}, by {failover.by}"
    )
    return text


def _add_event(task: TaskContext, text: str) -> None:
    """For the history on the slave's page: who was the master, and when nobody took writes."""
    with suppress(SluiceError):
        Events(task.redis, task.prefix, task.slave.name).add([Event(time.time(), EventKind.STATE, text)])


OF_PLANNED = (guard, reach, compare_changed)
STAGES = (guard, reach, end_apply, compare_changed, complete, capture, switch_state)
"""What `switch_over` does, one after another. Each may be killed and run again."""


def _give_back(task: TaskContext, failover: Failover, error: Exception) -> None:
    """Makes the master take writes again at once, instead of at the next try; `error` tells why."""
    try:
        sentence = _abort(task, failover)
    except switch.TooLate:
        return
    except SluiceError as failure:
        log.error("%s: %s", task, failure)
        return
    raise Terminal(f"{str(error).rstrip('.')}. {sentence[0].upper()}{sentence[1:]}.", code="failover-failed") from error


@part_of(*BOTH)
def follow(task: TaskContext) -> str:
    """With `reverse`: makes the former master a slave of the new one and writes the new configuration."""
    failover = failover_of(task)
    if not failover.reverse:
        return "not wanted"
    sentence = switch.follow(failover, task.redis)
    with failover.on_slave() as slave:
        sheet = failover.kept_sheet(slave)
        left_over = survey.left_over(failover, slave, sheet) if sheet else []
    servers = failover.master_info.server, failover.slave_info.server
    file = reversal.write(task.replication, task.slave.name, left_over=left_over, servers=servers)
    if file is None:
        how = f"change places of the connections {task.replication.master.conn_id} and {task.slave.conn_id} in "
        how += str(task.replication.source)
    else:
        log.info("%s", file.read_text(encoding="utf-8"))
        how = f"put it in force: mv {file} {task.replication.source}"
    if left_over and file is None:
        how += f", exclude {listed(left_over)} (replicate: false)"
    text = f"{sentence}. Slave {task.slave.name} is then {servers[0]}, the former master. Now {how}, then trigger "
    text += f"cdc_apply for {task.prefix} and {task.slave.name}"
    log.info("%s: %s", task, text)
    return text


@part_of(*BOTH)
def finish(task: TaskContext) -> str:
    """Validates the constraints that were created NOT VALID, while the application writes."""
    violated = switch.finish(failover_of(task))
    return "\n".join(violated) or "through"


@part_of(Action.ABORT)
def abort(task: TaskContext) -> str:
    """Undoes a failover of the pair that is not complete: the master accepts writes, the slave stays a slave."""
    failover = failover_of(task)
    with failover.on_slave() as slave:
        record = failover.kept(slave).read()
    claims = FailoverClaim(task.redis, task.prefix)
    claim = claims.read()
    if claim is not None and claim["slave"] == task.slave.name and (record is None or record.id != claim["id"]):
        claims.give_back(claim["id"])  # of a failover that was killed before it began on the slave
    if record is None:
        return "there is nothing to take back"
    return _abort(task, replace(failover, id=record.id, action=record.action))


@teardown
def settle(context: Context) -> str:
    """Always runs. If the failover failed, or its run was marked as failed, before the slave became the master, it
    undoes everything: the master accepts writes again."""
    states = states_of_run(context)
    if states.get("begin") in NOT_RUN or str(states.get("switch_over")) == "success":
        return "nothing to take back"
    task = TaskContext.of(context)
    try:
        sentence = _abort(task, failover_of(task))
    except switch.TooLate as late:
        return str(late)
    raise Terminal(f"The failover did not come to its end. {sentence}", code="failover-incomplete")


def _abort(task: TaskContext, failover: Failover) -> str:
    text = switch.abort(failover, task.redis, lambda slave: _uninstall(failover, slave))
    _add_event(task, f"{text[0].upper()}{text[1:]}")
    log.info("%s: %s", task, text)
    return text


def _uninstall(failover: Failover, slave: Session) -> None:
    uninstall(slave, failover.prefix, failover.slave.schema)


def _capture(task: TaskContext, slave: Session) -> bool:
    """Captures changes of the master's replicated tables on the new master. Whether anything was installed."""
    turned = reversal.turned(task.replication, task.slave.name)
    sheet = failover_of(task).kept_sheet(slave)
    present = vendor_of(turned.master.vendor).rows.tables(slave)
    report = resources.install(slave, turned.prefix, turned.master.schema)
    replicated = turned.resolve(
        present if sheet is None else [table for table in present if table in set(sheet.tables)]
    )
    reconcile.reconcile(slave, turned.prefix, turned.master.schema, replicated)
    return report.changed
