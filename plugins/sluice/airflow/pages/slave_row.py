"""Derives state, sentence and messages of a slave from all that is known of it. Pure.

That is its configuration, its status in Redis, its CHECKPOINT, and the runs of Airflow about it. Pages, data, metrics
and notices take what they say of a slave from here.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache

from sluice.airflow.pages.message import Level, Message, clock, short_clock
from sluice.airflow.pages.run_messages import ALONE, Beside, no_apply, of_failover, of_runs
from sluice.configuration.model import Replication
from sluice.coordination.gate import ADMIN, APPROVAL, CARRIED, ERROR, INITIAL_UPDATE, Closure
from sluice.coordination.live_state import LiveMaster, LiveSlave
from sluice.coordination.redo_state import RedoStatus
from sluice.counted import counted, duration, listed
from sluice.model.apply_status import ApplyStatus
from sluice.model.event import outage, under_way
from sluice.model.joining import remaining, what_loads
from sluice.model.names import Prefix, TableName
from sluice.model.reject import how_to_settle
from sluice.model.sample import Sample
from sluice.model.slave_state import APPLYING, SlaveState
from sluice.model.table_state import how_to_capture
from sluice.model.vendors import BINLOG, REDO
from sluice.operate import api
from sluice.operate.open_runs import NOT_ASKED, Airflow
from sluice.operate.remedies import loads_first

UNKNOWN = "UNKNOWN"
"""The word for a state that nobody says."""
SILENT_SECONDS = 30.0
"""An apply that holds the lease without a new status for this time is stuck."""
LATE_SECONDS = 10.0
"""The database of an apply without a new status for this time is asked whether it answers, before any advice."""
REASONS_SHOWN = 5
"""Tables that a message names at most."""
_MEANS = {
    SlaveState.INITIAL: "An initial update has begun",
    SlaveState.SWITCHING: "A failover is making it the master",
    SlaveState.MASTER: "A failover made it the master: nothing is applied to it",
}
"""What a state means, if CHECKPOINT says no more."""
_NEEDS_REDIS = frozenset({"initiate", "restart", "reload"})
"""Actions that cannot help while Redis does not answer."""
_ON_ERROR = {"stop": "stop the slave", "isolate": "leave out the table alone"}
"""The effect of a conflict, by `on_error`."""


@dataclass(frozen=True)
class SlaveRow:
    """A slave in overview, pages and metrics."""

    prefix: str
    slave: str
    state: SlaveState | None
    """None: neither Redis nor its database says it."""
    sentence: str
    """What it does now."""
    messages: tuple[Message, ...]
    as_of: datetime | None
    lag: float | None
    """Seconds by which it is behind."""
    lag_level: Level
    rate: float
    """Changes a second."""
    samples: Sequence[Sample]
    applying: bool
    holder: str
    since: datetime | None
    """When the apply process started."""
    last_status: datetime | None
    """Time of the apply's last status."""
    safe_mode: str
    """Empty if no apply runs."""
    tables: int
    """Number of known tables."""
    not_ready: Mapping[str, str]
    """Tables whose changes are left out, with their states and the reason."""
    places: str
    """Tables that have other names on the slave."""
    conflicts: str
    """The effect of a conflict."""
    loading: tuple[str, ...]
    """Tables that are being loaded while the slave is NORMAL."""
    rejects: tuple[str, ...]
    """Tables with open rejects."""
    verified: datetime | None
    """Through when all tables are verified; None if one never was."""
    different: int
    """Number of tables whose last comparison did not find equal rows."""
    closures: tuple[str, ...]
    connection: str
    """`connected` to both databases, `stalled` if one of them does not answer, else `not connected`."""
    asked: bool = False
    """Whether a run waits for a person's answer about it."""
    updates: bool = True
    """Whether an initial update may be under way: Airflow has a run of one, or does not say."""
    store: str = ""
    """What is wrong with Redis: nothing that needs it is advised."""

    @property
    def level(self) -> Level:
        """The level of its worst message."""
        return max((message.level for message in self.messages), default=Level.OK)

    @property
    def word(self) -> str:
        """The state in a word."""
        return UNKNOWN if self.state is None else str(self.state)

    @property
    def pair(self) -> str:
        return f"{self.prefix} → {self.slave}"

    def says(self, text: str) -> bool:
        """Whether a message of it has the text already."""
        sentence = text.removeprefix("Stopped: ").removeprefix("Held: ").rstrip(".")
        return any(sentence in message.text for message in self.messages)

    def offers(self, action: str) -> bool:
        """Whether an action of the monitor can do something about the slave as it is."""
        state, updating = self.state, self.state in (SlaveState.INITIAL, SlaveState.TRANSITION) or bool(self.loading)
        follows = state in APPLYING or state is SlaveState.INITIAL
        live = self.state is not None
        useful = {
            "initiate": live and state not in (SlaveState.SWITCHING, SlaveState.MASTER),
            "cancel": updating and self.updates,
            "approve": self.asked,
            "hold": follows,
            "open": any(closure.startswith(f"{ADMIN} (") for closure in self.closures),
            "restart": follows and live,
            "verify": state is SlaveState.NORMAL,
            "repair": state is SlaveState.NORMAL,
            "rejects": bool(self.rejects),
            "reload": state is SlaveState.NORMAL,
            "remove_first": any(closure.startswith((f"{ADMIN} (", f"{ERROR} (")) for closure in self.closures),
            "clear": state is SlaveState.NORMAL,
            "failover": state in (SlaveState.NORMAL, SlaveState.SWITCHING),
        }
        return useful.get(action, True) and not (self.store and action in _NEEDS_REDIS)


def row(replication: Replication, slave: str, live: LiveSlave, now: datetime, beside: Beside = ALONE) -> SlaveRow:
    """`now`: with a time zone."""
    live = completed(live, beside)
    status, thresholds = live.status, replication.monitor
    state, as_of = state_of(live, beside), moment(status.get("current_as_of"))
    follows = state in APPLYING and as_of is not None
    if as_of is None and beside.checkpoint is not None and beside.checkpoint.position is not None:
        as_of = moment(beside.checkpoint.position.time)
    lag = max(0.0, (now - as_of).total_seconds()) if follows and as_of is not None else None
    lag_level = Level.OK
    if lag is not None and state is SlaveState.NORMAL:
        lag_level = level_of(lag, thresholds.lag_warning, thresholds.lag_critical)
    applying, written = live.holder is not None, moment(status.get("at"))
    silent = silent_for(live, now)
    stuck = silent > SILENT_SECONDS
    times = [moment(seen.get("time")) for seen in live.tables.values()]
    slave_row = SlaveRow(
        prefix=str(replication.prefix),
        slave=slave,
        state=state,
        sentence=sentence(state, live, lag, beside, silent if stuck else 0.0),
        messages=(),
        as_of=as_of,
        lag=lag,
        lag_level=lag_level,
        rate=float(status.get("rate") or 0) if applying and _fresh(written, now) else 0.0,
        samples=live.samples,
        applying=applying,
        holder=str(live.holder or ""),
        since=moment(status.get("since")) if applying else None,
        last_status=written,
        safe_mode=str(status.get("safe_mode") or "not known") if applying else "",
        tables=max(len(live.tables), len(status.get("not_ready") or ())),
        not_ready=dict(status.get("not_ready") or {}),
        places=_places(replication, slave),
        conflicts=_conflicts(replication, slave),
        loading=tuple(str(table) for table in status.get("loading") or ()),
        rejects=tuple(str(table) for table in status.get("set_aside") or ()),
        verified=min((time for time in times if time), default=None) if None not in times else None,
        different=sum(seen.get("outcome") in ("different", "could not compare") for seen in live.tables.values()),
        closures=tuple(str(closure) for closure in live.closures),
        connection="not connected" if not applying else "stalled" if stuck or outage(live.status) else "connected",
        asked=any(run.question is not None for run in beside.runs),
        updates=_may_update(beside),
        store=beside.store,
    )
    return replace(slave_row, messages=tuple(messages(replication, slave_row, live, now, beside)))


def completed(live: LiveSlave, beside: Beside) -> LiveSlave:
    """Redis's content with what it lacks and CHECKPOINT has: a person's closure; the message, and tables that are not
    ready, unless an apply runs, which says them. What the last apply said of them is as old as its state."""
    checkpoint = beside.checkpoint
    if checkpoint is None:
        return live
    if checkpoint.closed and not any(closure.name == ADMIN for closure in live.closures):
        live = replace(live, closures=[*live.closures, Closure(**json.loads(checkpoint.closed))])
    if live.status.get("state") and live.holder is not None:
        return live
    not_ready = {str(table): checkpoint.tables.explain(table) for table in checkpoint.tables}
    loading = [str(table) for table in checkpoint.tables.loading]
    status: ApplyStatus = {**live.status, "message": checkpoint.message, "not_ready": not_ready, "loading": loading}
    return replace(live, status=status)


def silent_for(live: LiveSlave, now: datetime) -> float:
    """The seconds since the last status of an apply that holds its lease; 0 without one."""
    written = moment(live.status.get("at")) if live.holder is not None else None
    return max(0.0, (now - written).total_seconds()) if written else 0.0


def state_of(live: LiveSlave, beside: Beside = ALONE) -> SlaveState | None:
    """The state. An apply that runs says it; otherwise CHECKPOINT does; or Redis, if the database never answered.
    INITIAL while an initial update holds the apply back, which still reports the former state. None: nobody says it."""
    try:
        state: SlaveState | None = SlaveState(str(live.status.get("state")))
    except ValueError:
        state = None
    if beside.answered and (state is None or live.holder is None):
        state = beside.checkpoint.state if beside.checkpoint else SlaveState.UNCONFIGURED
    loading = any(closure.name == INITIAL_UPDATE for closure in live.closures)
    return SlaveState.INITIAL if loading and state is not SlaveState.TRANSITION else state


def sentence(
    state: SlaveState | None, live: LiveSlave, lag: float | None, beside: Beside = ALONE, silent: float = 0.0
) -> str:
    """What the slave does now, without a full stop. `silent`: for how long its apply has been stuck."""
    activity, message = str(live.status.get("activity") or ""), str(live.status.get("message") or "")
    if asking := next((run.question for run in beside.runs if run.question is not None), None):
        return f"Waits for an answer: {asking.subject}"
    if state is None:
        return "The state of the slave is not known"
    if state is SlaveState.UNCONFIGURED:
        tried = any(run.dag == api.UPDATE for run in beside.runs)
        return "No initial update has succeeded yet" if tried else "No initial update has begun yet"
    if stopped := [closure for closure in live.closures if closure.name == ERROR]:
        return f"Stopped: {stopped[0].reason}"
    if live.closures:
        return f"Held: {'; '.join(map(_held, live.closures))}"
    if state is SlaveState.INCONSISTENT:
        return message or "Only a new initial update helps"
    if state in _MEANS:
        return message or _MEANS[state]
    if live.holder is None:
        return "Whether its apply runs is not known" if beside.store else "No apply runs"
    if silent:
        return f"Its apply has said nothing for {duration(silent)}"
    if activity.startswith("waiting"):
        return activity[:1].upper() + activity[1:]
    if work := under_way(live.status):
        return work
    if live.status.get("catching_up"):
        return "Applies a large window, slice by slice"
    if state is SlaveState.TRANSITION:
        return "Tables are loaded while changes are applied"
    if loading := live.status.get("loading"):
        tables = counted(max(len(live.tables), len(loading)), "table")
        return f"{len(loading)} of {tables} loading, all else is applied"
    if live.status.get("rate"):
        return "Applies changes"
    return "Follows its master" if lag is not None else "Runs"


def messages(
    replication: Replication, one: SlaveRow, live: LiveSlave, now: datetime, beside: Beside = ALONE
) -> list[Message]:
    """The slave's findings, worst first."""
    found = [*_of_apply(one, live, now, beside), *_of_data(replication, one, live)]
    shown = " ".join(message.text for message in found if message.level is Level.CRITICAL)
    found += of_runs(beside.runs, beside.airflow, now, shown)
    if beside.store:
        found = [replace(message, remedy="") if message.remedy in _NEEDS_REDIS else message for message in found]
    return sorted(found, key=lambda message: -message.level)


def _of_apply(one: SlaveRow, live: LiveSlave, now: datetime, beside: Beside) -> Iterator[Message]:
    asks = any(run.dag == api.UPDATE and run.question is not None for run in beside.runs)
    for closure in live.closures:
        if closure.name == ERROR:
            load = "\n".join(loads_first(closure.reason))
            text = f"The apply has stopped: {closure.with_remedy}"
            yield Message(text, Level.CRITICAL, "reload" if load else "restart", load)
        elif closure.by == APPROVAL and asks:
            continue  # the run's question says it
        elif closure.by == APPROVAL:
            text = f"The initial update waits for a person's answer: {closure.reason}"
            yield Message(text, Level.WARNING, "approve")
        elif closure.by == CARRIED:
            yield Message(f"The initial update waits for its files: {closure.reason}", Level.WARNING)
        elif closure.name == INITIAL_UPDATE:
            yield Message(f"The gate is closed: {closure}", Level.OK)
        else:
            at = moment(closure.at)
            when = f" at {short_clock(at, now)} UTC" if at else ""
            yield Message(f"The gate was closed{when}: {_held(closure)}", Level.WARNING, "open")
    gate_closed = bool(live.closures)
    if one.state is SlaveState.INCONSISTENT:
        reason = str(live.status.get("message") or "").rstrip(".")
        text = f"The slave is INCONSISTENT{f': {reason}' if reason else ''}. Start an initial update."
        yield Message(text, Level.CRITICAL, "initiate")
    elif one.state is SlaveState.UNCONFIGURED:
        if not any(run.dag == api.UPDATE for run in beside.runs):
            yield Message("No initial update has begun yet. Start one.", Level.OK, "initiate")
    elif one.state in APPLYING and not one.applying and not gate_closed and not beside.store:
        yield no_apply(beside, one.last_status, now)
    elif one.state in (SlaveState.INITIAL, SlaveState.TRANSITION) and _abandoned(beside, api.UPDATE):
        text = f"The slave is in {one.state}, and no run of initial_update loads it: it was deleted or lost."
        yield Message(f"{text} Start an initial update.", Level.CRITICAL, "initiate")
    elif one.state is SlaveState.SWITCHING and _abandoned(beside, api.FAILOVER):
        text = "The slave is in SWITCHING, and no run of failover continues: it was deleted or lost. The master may "
        text += "refuse writes. Take the failover back with Fail over, abort."
        yield Message(text, Level.CRITICAL, "failover")
    if one.state is None:
        why = beside.unanswered or "It was not asked yet."
        text = f"The state of the slave is not known: neither Redis nor its database tells it. {why}"
        yield Message(text, Level.WARNING)
    elif beside.unanswered and live.says_too_little:
        as_of = f" What it was at {clock(beside.answered)} UTC is shown." if beside.answered else ""
        yield Message(f"Its database cannot be read: {beside.unanswered}{as_of}", Level.WARNING)
    silent = silent_for(live, now)
    if beside.store:
        yield Message(f"What its apply does is not known: {beside.store}", Level.WARNING)
    elif silent > SILENT_SECONDS and beside.unanswered:
        text = f"The apply has said nothing for {duration(silent)}: its slave does not answer. {beside.unanswered} "
        yield Message(text + "It continues when the slave answers; no restart helps.", Level.CRITICAL)
    elif silent > SILENT_SECONDS:
        text = f"The apply holds its lease and has said nothing for {duration(silent)}. Restart it if that continues "
        yield Message(text + "although its master answers.", Level.WARNING, "restart")
    activity = str(live.status.get("activity") or "")
    if one.applying and not gate_closed and activity.startswith("waiting") and one.state in APPLYING:
        reading = "block that is being read" in activity
        yield Message(f"The apply is {activity}", Level.OK if reading else Level.WARNING)
    if one.lag is not None and one.lag_level:
        yield Message(f"The slave is {duration(one.lag)} behind its master.", one.lag_level, lasting="lag")
    if mistake := live.status.get("configuration"):
        text = f"The apply keeps its configuration because of a mistake in the file: {mistake}"
        yield Message(text, Level.CRITICAL, lasting="configuration")


def _of_data(replication: Replication, one: SlaveRow, live: LiveSlave) -> Iterator[Message]:
    if one.not_ready:
        lacking = [TableName.parse(name) for name in one.not_ready]
        what = what_loads(replication.prefix, one.slave, lacking, live.started)
        rest = "\n".join(map(str, remaining(lacking, live.started)))
        reasons = [f"{name} is {state}" for name, state in one.not_ready.items() if ": " in state]
        first = "; ".join(reasons[:REASONS_SHOWN]).rstrip(".")
        why = f" ({first}{'; …' if len(reasons) > REASONS_SHOWN else ''})" if reasons else ""
        text = f"{counted(len(lacking), 'table')} not loaded, changes left out{why}. {what}"
        yield Message(text, Level.CRITICAL, "reload", rest) if rest else Message(text, Level.WARNING)
    yield from (Message(str(reason), Level.CRITICAL) for reason in live.status.get("differing") or ())
    if settling := how_to_settle(one.rejects):
        yield Message(settling, Level.CRITICAL, "rejects", lasting="rejects")
    yield from (Message(issue.on_slave, Level.WARNING) for issue in live.issues)
    if live.not_captured:
        named = listed([issue.what for issue in live.not_captured], REASONS_SHOWN, "table")
        text = f"The master has tables that no slave gets: {named}. {how_to_capture(replication.prefix)}"
        yield Message(text, Level.WARNING)
    for outcome, text, level, remedy in (
        ("different", "Not equal to the master by the last comparison", Level.CRITICAL, "repair"),
        ("could not compare", "Could not be compared with the master the last time", Level.WARNING, "verify"),
    ):
        tables = sorted(table for table, seen in live.tables.items() if seen.get("outcome") == outcome)
        if tables:
            causes = {table: str(live.tables[table].get("reason") or "").rstrip(".") for table in tables}
            shown = [f"{table} ({causes[table]})" if causes[table] else table for table in tables[:REASONS_SHOWN]]
            named = ", ".join(shown)
            more = f" and {len(tables) - REASONS_SHOWN} more" if len(tables) > REASONS_SHOWN else ""
            yield Message(f"{text}: {named}{more}.", level, remedy, "\n".join(tables))


def _may_update(beside: Beside) -> bool:
    known = beside.airflow.asked and not beside.airflow.trouble
    return not known or any(run.dag == api.UPDATE and run.active for run in beside.runs)


def _abandoned(beside: Beside, dag: str) -> bool:
    """Whether Airflow has no run of the DAG about the slave, and nothing says why one failed."""
    asked = beside.airflow.asked and not beside.airflow.trouble
    return asked and not any(run.dag == dag for run in beside.runs)


def _held(closure: Closure) -> str:
    """Why the gate is closed, and by whom, without a full stop."""
    return f"{closure.reason.rstrip('.')} ({closure.by})" if closure.name == ADMIN else str(closure)


def master_messages(
    replication: Replication, live: LiveMaster, now: datetime, airflow: Airflow = NOT_ASKED
) -> list[Message]:
    """The master's findings, worst first. `now`: with a time zone."""
    prefix = str(replication.prefix)
    runs = [run for run in airflow.runs if run.prefix == prefix]
    messages = [*of_failover(runs, now), *of_runs(airflow.of_master(prefix), airflow, now)]
    messages += [Message(reason, Level.CRITICAL) for reason in live.items.not_dropped.values()]
    messages += [Message(f"{slave}: {reason}", Level.CRITICAL) for slave, reason in live.items.dropped.items()]
    if live.items.warning:
        messages.append(Message(live.items.warning, Level.WARNING))
    if live.issues:
        named = listed([issue.what for issue in live.issues], REASONS_SHOWN, "table")
        remedy = how_to_capture(Prefix(str(replication.prefix)))
        messages.append(Message(f"{named}. {remedy}", Level.CRITICAL, "reconcile"))
    if replication.master.capture in (REDO, BINLOG) and (live.redo is None or live.redo.silent(now.timestamp())):
        text = "Nobody reads the master's log. Start the DAG capture_redo, or see what its last run says."
        if live.redo and (kept := live.redo.kept_seconds):
            left = kept - (now.timestamp() - live.redo.written)
            loss = f"changes begin to be lost in {duration(left)}" if left > 0 else "changes may be lost already"
            text += f" {_deleted(kept)}: {loss}. {LONGER}"
        messages.append(Message(text, Level.CRITICAL, lasting="redo"))
    if live.redo and not live.redo.silent(now.timestamp()):
        messages += _near_deletion(live.redo, now.timestamp())
    if live.redo and live.redo.error:
        text = f"The capture from the master's log has stopped: {live.redo.error}"
        messages.append(Message(text, Level.CRITICAL, lasting="redo"))
    if live.redo and live.redo.unread:
        messages.append(Message(live.redo.unread, Level.CRITICAL, lasting="redo"))
    if live.redo and live.redo.watch_error:
        messages.append(Message(live.redo.watch_error, Level.WARNING))
    for thread in live.redo.threads if live.redo else ():
        if thread.logs:
            text = f"Redo logs are missing, or will be: {thread.logs.rstrip('.')}."
            messages.append(Message(text, Level.CRITICAL, lasting="redo"))
        if thread.left_out:
            text = f"Redo thread {thread.thread}: {thread.left_out}"
            messages.append(Message(text, Level.CRITICAL, lasting="redo"))
        if thread.state == "failed":
            text = f"Redo thread {thread.thread} has failed: {thread.last_error}"
            messages.append(Message(text, Level.CRITICAL, lasting="redo"))
    if live.queue and (level := queue_level(replication, live)):
        text = f"{counted(live.queue.changes, 'change')} wait in ITEMS, {live.queue.bytes / 1e6:,.0f} MB."
        messages.append(Message(text, level, lasting="queue"))
    return sorted(messages, key=lambda message: -message.level)


def _deleted(kept: float) -> str:
    return f"The master deletes its log after {duration(kept)}, read or not"


def _near_deletion(redo: RedoStatus, now: float) -> list[Message]:
    """That the recorder comes near the end of the log that the master keeps."""
    kept = redo.kept_seconds
    lags = [behind for thread in redo.threads if (behind := redo.lag_seconds(thread, now)) is not None]
    return [
        Message(
            f"The recorder is {duration(behind)} behind. {_deleted(kept)}. {LONGER}", Level.CRITICAL, lasting="redo"
        )
        for behind in lags
        if kept is not None and behind > kept / 2
    ]


LONGER = "To keep the log longer, set binlog_expire_logs_seconds on the master."


def queue_level(replication: Replication, live: LiveMaster) -> Level:
    """Whether too much waits in ITEMS."""
    most = replication.monitor
    return level_of(live.queue.changes, most.queue_warning, most.queue_critical) if live.queue else Level.OK


def level_of(value: float, warning: float, critical: float) -> Level:
    return Level.CRITICAL if value >= critical else Level.WARNING if value >= warning else Level.OK


@lru_cache(maxsize=65_536)
def moment(text: object) -> datetime | None:
    """Reads an ISO 8601 time with a time zone; None for anything else."""
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _places(replication: Replication, slave: str) -> str:
    config = replication.slaves.get(slave)
    return replication.placement(config).text if config else ""


def _conflicts(replication: Replication, slave: str) -> str:
    config = replication.slaves.get(slave)
    if config is None:
        return ""
    if config.safe_mode:
        return "none, the slave is always in safe mode"
    exception = {"reject": "are set aside in REJECTS", "overwrite": "are overwritten"}.get(config.on_conflict)
    policy_of_slave = config.on_error or "stop"
    parts = [exception or _ON_ERROR[policy_of_slave]]
    if exception is None:
        for policy, words in _ON_ERROR.items():
            lines = [str(line.pattern) for line in replication.tables if line.on_error == policy != policy_of_slave]
            parts += [f"of {', '.join(lines)}: {words}"] if lines else []
    parts += [f"of {pattern}: decided by {rule}" for pattern, rule in config.conflict_rules]
    return "; ".join(parts)


def _fresh(written: datetime | None, now: datetime) -> bool:
    return written is not None and (now - written).total_seconds() < SILENT_SECONDS


def by_worst(rows: Sequence[SlaveRow]) -> list[SlaveRow]:
    """The slaves that need a person, worst first."""
    return sorted((one for one in rows if one.level), key=lambda one: (-one.level, one.prefix, one.slave))
