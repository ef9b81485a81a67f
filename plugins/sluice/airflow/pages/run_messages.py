"""What the runs of Airflow mean for a slave, a master, or all of them, as messages for a person. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sluice.airflow.pages.message import Level, Message, short_clock
from sluice.counted import counted, duration
from sluice.errors import continued
from sluice.model.checkpoint import Checkpoint
from sluice.operate import api
from sluice.operate.open_runs import FAILED, NOT_ASKED, QUEUED, RETRIED, WAITING, Airflow, Run, Task

APPLY_TASK = "apply"
SCHEDULER_SECONDS = 60.0
"""A scheduler that was not seen for this time is down."""
QUEUE_SECONDS = 30.0
"""A run or an apply that waits in the queue for longer is told."""
LONG_QUEUE = 200
"""Tasks in Airflow's queue that delay what a person starts."""
NAMES: Mapping[str, str] = {
    api.UPDATE: "The initial update",
    api.APPLY: "The apply",
    api.RESYNC: "The comparison with the master",
    api.FAILOVER: "The failover",
    api.GATE: "The change of the gate",
    api.REJECTS: "The settlement of rejects",
    api.REMOVE: "The removal of the first transaction",
    api.RECONCILE: "The reconciliation of the tables",
    api.INSTALL: "The installation of the resources",
    api.UNINSTALL: "The removal of the resources",
    api.BROADCAST: "The query of all databases",
    api.NOTIFY: "The test of notices",
    "capture_redo": "The capture of the master's log",
    "housekeeping": "Housekeeping",
}
"""What a run of each DAG is, as the subject of a sentence."""
AGAIN: Mapping[str, str] = {
    api.UPDATE: "initiate",
    api.RESYNC: "verify",
    api.FAILOVER: "failover",
    api.REJECTS: "rejects",
    api.REMOVE: "remove_first",
    api.RECONCILE: "reconcile",
    api.INSTALL: "install",
    api.UNINSTALL: "uninstall",
    api.BROADCAST: "broadcast",
    api.NOTIFY: "send_test",
}
"""The action that does again what failed."""
MISTAKEN = ("[no-such-table]", "[unknown-rejects]")
"""How the reasons of runs end that did nothing, because a person named what does not exist."""
SWITCH = "switch_over"
"""The task of a failover that makes the slave the master; in a planned one the master refuses writes while it runs."""


@dataclass(frozen=True)
class Beside:
    """What is known of a slave beside Redis's content."""

    runs: Sequence[Run] = ()
    """Runs about it that are not over."""
    airflow: Airflow = NOT_ASKED
    checkpoint: Checkpoint | None = None
    """The last answer of its database; None also if that has none."""
    answered: datetime | None = None
    """When its database answered; None: it never did, or was not asked, because Redis says enough."""
    unanswered: str = ""
    """Why there is no newer answer."""
    store: str = ""
    """What is wrong with Redis."""


ALONE = Beside()
"""Nothing beside Redis's content."""


def of_runs(runs: Iterable[Run], airflow: Airflow, now: datetime, shown: str = "") -> list[Message]:
    """Messages about runs other than applies. `shown`: texts that are not repeated."""
    messages: list[Message] = []
    for run in runs:
        if run.dag == api.APPLY:
            continue
        if run.question is not None:
            messages.append(_question(run, now))
        elif run.state == FAILED:
            messages += _failed(run, now, shown)
        else:
            messages += _active(run, airflow, now)
    return messages


def no_apply(beside: Beside, last_status: datetime | None, now: datetime) -> Message:
    """Why no apply runs where one should, as Redis says, and what helps. No advice before the cause is known."""
    heard = f" (last heard at {short_clock(last_status, now)} UTC)" if last_status else ""
    airflow = beside.airflow
    if airflow.trouble:
        return Message(f"No apply runs{heard}, and Airflow does not say why: {airflow.trouble}", Level.CRITICAL)
    applies = [run for run in beside.runs if run.dag == api.APPLY]
    active = next((run for run in applies if run.active), None)
    task = active.task(APPLY_TASK) if active else None
    state = task.state if task else ""
    running = active is not None and state not in ("", RETRIED, *WAITING)
    if api.APPLY in airflow.paused and not running:
        text = f"No apply runs{heard}: the DAG cdc_apply is paused in Airflow. Unpause it (Dags, cdc_apply, the switch "
        text += "beside its name); " + ("its run then continues." if active else "then start the apply here.")
        return _message(active, text, Level.CRITICAL, "apply")
    if active is None:
        failed = next((run for run in reversed(applies) if run.state == FAILED), None)
        reason = failed.failure.reason if failed and failed.failure else ""
        failure = f": its run failed: {continued(reason, 'Fix that, then start it.')}" if reason else ": start it."
        return Message(f"No apply runs{heard}{failure}", Level.CRITICAL, "restart", lasting="apply")
    began = (task.since if task else None) or active.since
    waits = _since(began, now)
    if state == RETRIED:
        reason = f": {task.reason}" if task and task.reason else "."
        return _message(active, f"The apply has ended, and Airflow starts it again in a moment{reason}", Level.WARNING)
    if running:
        runs = _lasting("runs", "has been running", waits, "in Airflow")
        text = f"The task of the apply {runs}, and does not hold its lease in Redis: it is starting, or "
        return _message(active, f"{text}Redis has lost the lease, which the apply then takes again.", Level.WARNING)
    queue = _queue(airflow)
    long = began is not None and (now - began).total_seconds() > QUEUE_SECONDS
    queued = _lasting("waits", "has waited", waits, "in Airflow's queue")
    text = f"The apply {queued}{queue}. Applies come first there: it needs no help."
    if down := scheduler_down(airflow, now):
        text = f"The apply {queued}. {down}"
    return _message(active, text, Level.CRITICAL if long or down else Level.WARNING, "apply")


def of_airflow(airflow: Airflow, pairs: frozenset[tuple[str, str]], now: datetime) -> list[Message]:
    """What concerns every replication, and applies of pairs that no file configures."""
    messages: list[Message] = []
    if airflow.trouble:
        text = f"Airflow's runs are not known: {airflow.trouble} Questions and failures may be missing here."
        messages.append(Message(text, Level.CRITICAL))
    if down := scheduler_down(airflow, now):
        messages.append(Message(down, Level.CRITICAL))
    elif airflow.waiting >= LONG_QUEUE:
        text = f"Airflow's queue has {counted(airflow.waiting, 'task')}: what a person starts may wait. Applies do not."
        messages.append(Message(text, Level.WARNING))
    for dag in sorted(airflow.paused):
        effect = PAUSED.get(dag, "none of its runs begins or continues")
        text = f"The DAG {dag} is paused in Airflow: {effect}. Unpause it (Dags, {dag}, the switch beside its name)."
        messages.append(Message(text, Level.CRITICAL if dag == api.APPLY else Level.WARNING, dag=dag))
    for run in airflow.not_configured(pairs):
        pair = f"{run.prefix} → {', '.join(run.slaves)}"
        runs = _lasting("runs", "has been running", _since(run.since, now))
        text = (
            f"{pair} is not configured, and its apply {runs}: the file was removed, has mistakes, or names it "
            "otherwise now. Put the file back; or end the apply: mark its run as failed in Airflow. Start nothing for "
            "the same database before."
        )
        messages.append(Message(text, Level.CRITICAL, dag=run.dag, run=run.id))
    return sorted([*messages, *of_runs(airflow.of_all, airflow, now)], key=lambda one: -one.level)


PAUSED = {
    api.APPLY: "an apply whose task in Airflow ends is not started again",
    api.RESYNC: "nothing is compared any more",
    "housekeeping": "ITEMS is not purged, and nobody is told of faults",
}


def of_failover(runs: Iterable[Run], now: datetime) -> list[Message]:
    """For the master: a failover that makes it refuse writes."""
    return [_phase(run, now) for run in runs if _guarded(run)]


def scheduler_down(airflow: Airflow, now: datetime) -> str:
    """A sentence about a scheduler that does not run; empty if one does, or nobody asked."""
    if not airflow.asked or airflow.trouble:
        return ""
    if airflow.scheduler is None:
        return "Airflow's scheduler has not been seen yet: no run begins or continues."
    if (silent := (now - airflow.scheduler).total_seconds()) <= SCHEDULER_SECONDS:
        return ""
    return f"Airflow's scheduler has not been seen for {duration(silent)}: no run begins or continues until it is back."


def _message(run: Run | None, text: str, level: Level, lasting: str = "") -> Message:
    """A message about a run."""
    return Message(text, level, lasting=lasting, dag=run.dag if run else "", run=run.id if run else "")


def _question(run: Run, now: datetime) -> Message:
    assert run.question is not None
    waits = _lasting("waits", "has waited", _since(run.since, now), "for a person's answer")
    return Message(
        f"{NAMES[run.dag]} {waits}: {run.question.subject}",
        Level.WARNING,
        "approve",
        dag=run.dag,
        run=run.id,
        question=run.question.id,
        details=run.question.body,
    )


def _failed(run: Run, now: datetime, shown: str) -> list[Message]:
    failure = run.failure
    reason = failure.reason if failure else ""
    # Without a reason a person marked it as failed, and the slave's state says what came of it.
    begun = " ".join(reason.split())[:80] or ("is INCONSISTENT" if run.dag == api.UPDATE else "")
    if begun and begun in " ".join(shown.split()):
        return []
    where = f" in its task {failure.name}" if failure else ""
    at = f" at {short_clock(run.since, now)} UTC" if run.since else ""
    action = f" ({run.action})" if run.action else ""
    text = f"{NAMES[run.dag]}{action} failed{at}{where}: {reason or 'the log of that task says why'}"
    remedy, tables = AGAIN.get(run.dag, ""), "\n".join(run.tables)
    if run.dag == api.GATE:
        remedy = "hold" if run.action == "close" else "open"
    elif run.dag == api.UPDATE and run.tables:
        remedy = "reload"
    elif run.dag == api.RESYNC and run.action == "repair":
        remedy = "repair"
    level = Level.WARNING if reason.endswith(MISTAKEN) else Level.CRITICAL
    return [Message(text, level, remedy, tables, dag=run.dag, run=run.id, failed=True)]


def _active(run: Run, airflow: Airflow, now: datetime) -> list[Message]:
    since = _since(run.since, now)
    if run.dag in airflow.paused:
        paused = _lasting("does not continue", "has not continued", since)
        text = f"{NAMES[run.dag]} {paused}: the DAG {run.dag} is paused in Airflow. Unpause it there."
        return [_message(run, text, Level.CRITICAL)]
    tried = next((task for task in run.tasks if task.state == RETRIED), None)
    if tried is not None:
        reason = f": {tried.reason}" if tried.reason else "."
        guarded = _guarded(run)
        text = f"{NAMES[run.dag]} tries its task {tried.name} again{reason}"
        if switches(run):
            may = "refuses" if run.refused else "may refuse" if guarded else "takes"
            text = f"{text.rstrip('.')}. The master {may} writes meanwhile."
        return [_message(run, text, Level.CRITICAL if guarded else Level.WARNING)]
    waits = run.state == QUEUED or (bool(run.tasks) and all(_idle(task) for task in run.tasks))
    if waits and run.since and (now - run.since).total_seconds() > QUEUE_SECONDS:
        queued = _lasting("waits", "has waited", since, "in Airflow's queue")
        return [_message(run, f"{NAMES[run.dag]} {queued}{_queue(airflow)}.", Level.WARNING)]
    if run.dag == api.FAILOVER and run.action != "check":
        return [_phase(run, now)]
    if run.dag in ("housekeeping", "capture_redo"):
        return []
    doing = f": {working}" if (working := _working(run)) else ""
    runs = _lasting("runs", "has been running", since)
    return [_message(run, f"{NAMES[run.dag]} {runs}{doing}", Level.OK)]


ENDED = ("success", "skipped", "failed", "upstream_failed", "removed")


def _idle(task: Task) -> bool:
    return task.state in ("", *WAITING)


def switches(run: Run) -> bool:
    """Whether the task runs in which the master comes to refuse writes, or a killed one waits for its next try."""
    switch = run.task(SWITCH)
    planned = run.dag == api.FAILOVER and run.active and run.action == "planned"
    return planned and switch is not None and not _idle(switch) and switch.state not in ENDED


def _guarded(run: Run) -> bool:
    """Whether the master is known to refuse writes because of the failover: its slave knows."""
    return switches(run) and run.refused != ""


def _phase(run: Run, now: datetime) -> Message:
    """How far a failover is."""
    who = f"The failover ({run.action}) to {', '.join(run.slaves)}"
    step = f" Its step now: {working}." if (working := _working(run)) else ""
    switch = run.task(SWITCH)
    since = _since(switch.since if switch else None, now)
    if _guarded(run):
        refuses = _lasting("may refuse writes", "may have refused writes", since)
        text = f"the master {refuses}: the slave's database, which knows, has not answered."
        if run.refused:
            text = f"the master has refused writes{_since(datetime.fromisoformat(run.refused), now)}."
        return _message(run, f"{who} is under way: {text}{step}", Level.CRITICAL)
    if switch is not None and switch.state == "success":
        became = _lasting("is the master", "has been the master", since)
        return _message(run, f"{who}: the slave {became}, and is being completed.{step}", Level.WARNING)
    return _message(run, f"{who} is under way. The master takes writes.{step}", Level.WARNING)


def _since(time: datetime | None, now: datetime) -> str:
    return f" since {short_clock(time, now)} UTC" if time else ""


def _lasting(now: str, ever: str, since: str, where: str = "") -> str:
    """What lasts: `now` in the present tense, `ever` in the perfect if it is known since when."""
    return f"{ever if since else now}{f' {where}' if where else ''}{since}"


def _queue(airflow: Airflow) -> str:
    return f", which has {counted(airflow.waiting, 'task')}" if airflow.waiting > 1 else ""


def _working(run: Run) -> str:
    """The tasks that run now."""
    return ", ".join(dict.fromkeys(task.name for task in run.tasks if not _idle(task) and task.state not in ENDED))
