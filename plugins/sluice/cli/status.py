"""The lines of `status` about every configured replication.

All databases are queried in parallel, each for a few seconds at most, so that one that is down does not delay the
others.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from sluice import config
from sluice.cli import watched
from sluice.config import Survey
from sluice.configuration.model import Replication
from sluice.control.checkpoint import CheckpointStore
from sluice.control.rejects import RejectStore
from sluice.coordination import lease, redis_store
from sluice.coordination.gate import ERROR, Gate
from sluice.coordination.records import Issues, ItemsFindings, ItemsState, LoadStarted, Status
from sluice.coordination.redo_state import RedoState, RedoStatus
from sluice.coordination.verification_log import VerificationLog
from sluice.counted import counted, duration
from sluice.database import registry
from sluice.database.registry import UnknownVendor, master_of, reach, source_of
from sluice.database.session import SessionOptions
from sluice.errors import SluiceError
from sluice.load.progress import progress
from sluice.load.update import Update
from sluice.model.change import Action
from sluice.model.checkpoint import Checkpoint
from sluice.model.connection import ConnectionInfo
from sluice.model.event import under_way
from sluice.model.feed import ALL_TABLES, FeedPosition
from sluice.model.joining import StartedLoad, what_loads
from sluice.model.monitor_data import MessageData, Overview, SlaveOverview
from sluice.model.names import Prefix
from sluice.model.position import Window
from sluice.model.reject import how_to_settle
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import how_to_capture
from sluice.model.vendors import BINLOG, REDO
from sluice.operate.remedies import at_terminal, command
from sluice.pair import Pair
from sluice.paths import PROGRAM
from sluice.verify.definition_gaps import not_captured

LISTED = 40
"""Tables of a pair to list at most; `--json` has all."""

Tables = Mapping[str, Mapping[str, object]]
"""Entries of `coordination.verification_log`."""


def of_pairs(survey: Survey, store_url: str) -> list[dict[str, object]]:
    """Every configured pair with `prefix`, `slave` and `tables`; empty while Redis does not answer."""
    try:
        with closing(redis_store.connect(store_url)) as client:
            return [
                {"prefix": str(one.prefix), "slave": slave, "tables": VerificationLog(client, one.prefix, slave).read()}
                for one in survey.replications
                for slave in one.slaves
            ]
    except SluiceError:
        return []


def summary_lines(tables: Tables, prefix: Prefix, slave: str) -> list[str]:
    """A line about each compared table of the pair, and the number of the others."""
    compared = {name: seen for name, seen in tables.items() if seen.get("outcome") or seen.get("time")}
    never = len(tables) - len(compared)
    untried = [f"    {counted(never, 'table')} never compared: {PROGRAM} verify {prefix} {slave}"] if never else []
    if not compared:
        return untried
    rows = [("table", "last compared", "verified through", "position")]
    rows += [_table(name, seen) for name, seen in list(compared.items())[:LISTED]]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["    " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
    if len(compared) > LISTED:
        lines.append(f"    and {len(compared) - LISTED} more: --json lists them")
    return [line.rstrip() for line in [*lines, *untried]]


def _table(name: str, seen: Mapping[str, object]) -> tuple[str, str, str, str]:
    last = f"{seen['outcome']} {_clock(seen.get('checked'))}" if seen.get("outcome") else "–"
    return name, last, _clock(seen.get("time")), _brief(str(seen.get("position", "")))


def _brief(text: str, longest: int = 40) -> str:
    """A position shortened to fit a line; empty for an invalid one."""
    try:
        brief = str(registry.parse_position(text))
    except (ValueError, KeyError, TypeError, UnknownVendor):
        return ""
    return brief if len(brief) <= longest else brief[: longest - 1] + "…"


def _clock(text: object) -> str:
    return str(text)[:19].replace("T", " ") if text else "never"


APPLICATION = "sluice status"
LOADING = (SlaveState.INITIAL, SlaveState.TRANSITION)
LOOK_SECONDS = 3
"""Time-out of a connection, and of each statement."""
BRIEF = SessionOptions(statement_seconds=LOOK_SECONDS)
SIDE_BY_SIDE = 16
FAULTS_SHOWN = 5
TABLES_SHOWN = 20
COUNTED = 100_000
"""Changes that wait for a feed are counted up to this number."""

Reaches = Callable[[str, str], ConnectionInfo]
"""Looks up the database of an Airflow connection, by id and vendor. Raises `SluiceError`."""


@dataclass(frozen=True)
class Running:
    """Redis's content about the apply of a pair."""

    applies: bool
    safe_mode: str = ""
    under_way: str = ""
    """A long work in progress."""
    current_as_of: datetime | None = None
    closures: tuple[str, ...] = ()
    verified: tuple[str, ...] = ()
    issues: tuple[str, ...] = ()
    """Definitions of the master that the slave lacks, with statements to run."""
    started: StartedLoad | None = None
    """A started load of new tables."""


def folders(paths: Sequence[Path], survey: Survey | None) -> list[str]:
    """The folders of replications in force, and their ignored files."""
    lines = [f"{'replications' if not number else '':<13} {folder}" for number, folder in enumerate(reversed(paths))]
    lines += [
        f"{'':<13} {file} does not count: {other} has its name. Remove or rename one of them."
        for file, other in (survey.hidden if survey else {}).items()
    ]
    return lines


def unused(paths: Iterable[Path], usual: Path) -> list[str]:
    """Files of the `usual` folder if it is not in force."""
    if usual.resolve() in [folder.resolve() for folder in paths] or not usual.is_dir():
        return []
    try:
        survey = config.survey(usual)
    except SluiceError:
        return []
    files = sorted({one.source for one in survey.replications} | {mistake.file for mistake in survey.mistakes})
    return [
        f"{'':<13} {file} is not in force. To use its folder: {PROGRAM} up --replications {usual}" for file in files
    ]


def replications(
    survey: Survey, connections: Reaches, store_url: str, monitor: Callable[[], Overview] | None = None
) -> list[str]:
    """Lines about all replications; mistakes of the configuration and outages become lines.

    `monitor`: the content of the monitor's `overview.json`. It knows what waits for a person and what failed.
    """
    lines = [str(mistake) for mistake in survey.mistakes]
    overview, trouble = _monitored(monitor)
    lines += [*trouble, *(watched.messages("", overview["messages"]) if overview else [])]
    masters = {one["prefix"]: one for one in overview["masters"]} if overview else {}
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        parts = []
        for one in survey.replications:
            parts.append(
                pool.submit(_lines_or_error, f"{one.prefix} from", partial(master, one, connections, store_url))
            )
            parts.append(pool.submit(_lines_or_error, f"{one.prefix}:", partial(_items, store_url, one.prefix)))
            shown = masters.get(str(one.prefix))
            if shown is not None:
                of_master = partial(watched.messages, str(one.prefix), shown["messages"], str(one.prefix))
                parts.append(pool.submit(of_master))
            slaves = {each["slave"]: each for each in shown["slaves"]} if shown else {}
            for name in one.slaves:
                of_slave = partial(slave, one, name, connections, store_url, slaves.get(name))
                parts.append(pool.submit(of_slave))
        for part in parts:
            lines += part.result()
    return lines or [f"no replication is configured: {PROGRAM} add makes one"]


def master(replication: Replication, connections: Reaches, store_url: str) -> list[str]:
    """Lines about the master: installation, captured tables, waiting changes. Raises `SluiceError`."""
    endpoint = replication.master
    if of := endpoint.stream:
        threads = _redo(store_url, replication.prefix) if endpoint.capture in (REDO, BINLOG) else []
        return [*threads, *_lines_or_error(f"{replication.prefix}:", lambda: stream(replication, of))]
    info = connections(endpoint.conn_id, endpoint.vendor).given_up_after(LOOK_SECONDS)
    head = f"{replication.prefix} from {endpoint.conn_id} ({info.address})"
    with reach(info, APPLICATION, LOOK_SECONDS) as session:
        have = master_of(endpoint.vendor).capture(session, replication.prefix, endpoint.schema).installed()
        if have is None:
            return [f"{head}: nothing is installed on the master yet"]
        captured = master_of(endpoint.vendor).queue(session, replication.prefix, endpoint.schema).captured()
        sizes = master_of(endpoint.vendor).rows.estimates(session, list(captured))
        backlog = master_of(endpoint.vendor).queue(session, replication.prefix, endpoint.schema).backlog()
        existing = master_of(endpoint.vendor).rows.tables(session)
        read = master_of(endpoint.vendor).queue(session, replication.prefix, endpoint.schema).feeds()
    installed = f"DbResources version {have.version}"
    if not have.current:
        installed += f" (not of this release: {command('install', str(replication.prefix))})"
    rows = sum(size.rows or 0 for size in sizes.values())
    amount = counted(len(captured), "table") + (f", about {counted(rows, 'row')}" if rows else "")
    lines = [f"{head}: {installed}; {amount}; {backlog}", *feeds(replication, read, info)]
    try:
        lost = not_captured(replication, existing, captured)
    except SluiceError as error:
        return [*lines, f"    {error}"]
    faults = [f"    {table}: {why}" for table, why in sorted(lost.items())]
    more = [f"    and {len(faults) - FAULTS_SHOWN} more"] if len(faults) > FAULTS_SHOWN else []
    remedy = [f"    {at_terminal(how_to_capture(replication.prefix), str(replication.prefix))}"] if lost else []
    return lines + faults[:FAULTS_SHOWN] + more + remedy


def feeds(replication: Replication, read: Sequence[FeedPosition], info: ConnectionInfo) -> list[str]:
    """One line about the lag of each reader of a feed."""
    begun = {each.feed for each in read}
    lines = [f"    feed {name}: not read yet" for name in replication.feeds if name not in begun]
    for each in read:
        table = "all tables" if each.table == ALL_TABLES else each.table
        text = "not configured any more; the next purge drops it"
        if each.feed in replication.feeds:
            try:
                text = behind(replication, each, info)
            except SluiceError as error:
                text = str(error)
        lines.append(f"    feed {each.feed}, {table}: {text}")
    return lines


def behind(replication: Replication, read: FeedPosition, info: ConnectionInfo) -> str:
    """The lag of a feed, in words. Raises `SluiceError`."""
    source, endpoint = source_of(info.vendor), replication.master
    with (
        closing(source.sessions.connect(info, application=APPLICATION, autocommit=True, options=BRIEF)) as session,
        source.reader(info, replication.prefix, endpoint.schema, application=APPLICATION) as reader,
    ):
        now = source.queue(session, replication.prefix, endpoint.schema).take(read.position)
        counted_changes = reader.survey(Window(read.position, now), limit=COUNTED)
    if not counted_changes.changes:
        return "has all changes"
    seconds = (datetime.fromisoformat(now.time) - datetime.fromisoformat(read.position.time)).total_seconds()
    more = "more than " if counted_changes.more else ""
    return f"{more}{counted(counted_changes.changes, 'change')} behind, current as of {duration(seconds)} ago"


def stream(replication: Replication, info: ConnectionInfo) -> list[str]:
    """Lines about the end of a recorded stream, and its feeds. Raises `SluiceError`."""
    source = source_of(info.vendor)
    with closing(source.sessions.connect(info, application=APPLICATION)) as session:
        queue = source.queue(session, replication.prefix, "")
        now, read = queue.take(), [each for each in queue.feeds() if each.feed in replication.feeds]
    end = f"{replication.prefix} from {info.server}: {now}" + (f", as of {now.time}" if now.time else "")
    return [end, *feeds(replication, read, info)]


def items(state: ItemsFindings) -> list[str]:
    """Lines about the last purge: how full ITEMS is, and which slaves were or should be dropped."""
    slaves = {**state.not_dropped, **state.dropped}
    return [
        *([f"    {state.warning}"] if state.warning else []),
        *(f"    {slave}: {reason}" for slave, reason in slaves.items()),
    ]


def _monitored(monitor: Callable[[], Overview] | None) -> tuple[Overview | None, list[str]]:
    """What the monitor says, and why it says nothing."""
    if monitor is None:
        return None, []
    try:
        return monitor(), []
    except SluiceError as error:
        return None, [f"what waits for a person and what failed in Airflow is not known: {error}"]


def slave(
    replication: Replication,
    name: str,
    connections: Reaches,
    store_url: str,
    monitored: SlaveOverview | None = None,
) -> list[str]:
    """Lines about a slave: state, message, age, progress of a load, apply, and what the monitor says of it."""
    reported = monitored["messages"] if monitored else None
    of_database = partial(_of_database, replication, name, connections, store_url, reported)
    lines = _lines_or_error(f"{replication.prefix} → {name}:", of_database)
    if monitored is None:
        return lines
    text = " ".join(" ".join(lines).split())
    prefix = str(replication.prefix)
    fresh = [
        one
        for one in monitored["messages"]
        if " ".join(at_terminal(one["text"], prefix, name).split()).rstrip(".") not in text
    ]
    return lines + [f"    {line}" for line in watched.messages("", fresh, prefix, name)]


def _of_database(
    replication: Replication, name: str, connections: Reaches, store_url: str, reported: Sequence[MessageData] | None
) -> list[str]:
    """What database and Redis say of a slave. The monitor, if it was asked, has `reported` what is wrong. Raises
    `SluiceError`."""
    checkpoint, loading, differing = _of_slave(replication, name, connections)
    alone = reported is None
    if checkpoint is not None and reported and watched.says(reported, checkpoint.message):
        checkpoint = replace(checkpoint, message="")
    pair = f"{replication.prefix} → {name}"
    if checkpoint is None:
        return [f"{pair}: not loaded yet. {load_command(replication.prefix, name)}"]
    running, trouble = _running(store_url, replication.prefix, name)
    lines = [
        state(pair, checkpoint, running),
        *(not_ready(replication.prefix, name, checkpoint, running.started if running else None) if alone else ()),
        *elsewhere(replication, name),
        *(f"    {reason}" for reason in (differing if alone else ())),
        *(f"    {line}" for line in loading),
        *activity(checkpoint.state, running, checkpoint.message, alone=alone),
        *trouble,
    ]
    return [at_terminal(line, str(replication.prefix), name) for line in lines]


def load_command(prefix: Prefix, slave: str) -> str:
    return f"Load it: {command('initiate', str(prefix), slave)}"


def headline(replication: Replication, name: str, connections: Reaches) -> str:
    """The state of a slave, with the progress of a running load. Raises `SluiceError`."""
    checkpoint, loading, _ = _of_slave(replication, name, connections)
    if checkpoint is None:
        return "not loaded yet"
    return ", ".join([str(checkpoint.state), *loading[:1]])


def _of_slave(
    replication: Replication, name: str, connections: Reaches
) -> tuple[Checkpoint | None, list[str], list[str]]:
    """The slave's checkpoint; lines about a running load, a summary first; reasons why tables differ."""
    endpoint = replication.slaves[name]
    info = connections(endpoint.conn_id, endpoint.vendor).given_up_after(LOOK_SECONDS)
    # The master is needed only for the statistics of a running load.
    pair = Pair(replication, endpoint, info, info)
    with reach(info, APPLICATION, LOOK_SECONDS) as session:
        checkpoint: Checkpoint | None = CheckpointStore.of(Update.named(pair, "status"), session).read()
        if checkpoint is None or not (checkpoint.state in LOADING or checkpoint.loading):
            rejects = RejectStore.of(pair, session)
            open_rejects = rejects.open() if rejects.ready() else []
            differing = [reject.reason for reject in open_rejects if reject.action == Action.DIFFER]
            remedy = how_to_settle(str(reject.table) for reject in open_rejects if reject.action != Action.DIFFER)
            return checkpoint, [], [*differing, *([remedy] if remedy else [])]
        try:
            master = replication.master
            source = connections(master.conn_id, master.database).given_up_after(LOOK_SECONDS)
            return checkpoint, progress(Update.named(replace(pair, master_info=source), "status"), session).lines(), []
        except SluiceError as error:
            return checkpoint, [str(error)], []


def state(pair: str, checkpoint: Checkpoint, running: Running | None, now: datetime | None = None) -> str:
    """The first line about a slave: state, age, message."""
    times = [running.current_as_of if running and running.applies else None]
    if checkpoint.position and checkpoint.position.time:
        times.append(datetime.fromisoformat(checkpoint.position.time))
    newest = max((_aware(time) for time in times if time), default=None)
    age = ""
    if checkpoint.state is SlaveState.NORMAL and newest:
        age = f", as the master was {duration(((now or datetime.now(UTC)) - newest).total_seconds())} ago"
    loads = checkpoint.tables.loading if checkpoint.state is SlaveState.NORMAL else ()
    beside = f", {counted(len(loads), 'table')} loading" if loads else ""
    # A slave whose apply has stopped at an error keeps the state in which that happened.
    stopped = running is not None and any(closure.startswith(f"{ERROR} (") for closure in running.closures)
    head = f"stopped, in state {checkpoint.state}" if stopped else str(checkpoint.state)
    return f"{pair}: {head}{beside}{age}" + (f": {checkpoint.message}" if checkpoint.message else "")


def not_ready(prefix: Prefix, slave: str, checkpoint: Checkpoint, started: StartedLoad | None = None) -> list[str]:
    """Lines about tables that the slave has not loaded, and how to load them."""
    tables = checkpoint.tables
    if checkpoint.state is not SlaveState.NORMAL or not tables:
        return []
    listed = [f"        {table}: {tables.explain(table)}" for table in list(tables)[:TABLES_SHOWN]]
    rest = len(tables) - len(listed)
    return [
        f"    {counted(len(tables), 'table')} not loaded: what changes there is left out. "
        f"{what_loads(prefix, slave, list(tables), started)}",
        *listed,
        *([f"        and {rest} more"] if rest else []),
    ]


def elsewhere(replication: Replication, name: str) -> list[str]:
    """A line about tables with other names on the slave."""
    text = replication.placement(replication.slaves[name]).text
    return [f"    names of tables on the slave: {text}"] if text else []


def activity(state: SlaveState, running: Running | None, message: str = "", *, alone: bool = True) -> list[str]:
    """Lines about the apply, closures of the gate, and verified tables.

    `message`: the message in the slave's first line, which is not repeated. Unless `alone`, the monitor says
    what is wrong.
    """
    if running is None:
        return []
    lines = []
    if running.applies:
        lines.append(f"    an apply runs, safe mode {running.safe_mode or 'not known'}")
        lines += [f"    {running.under_way}"] if running.under_way else []
    elif state is SlaveState.NORMAL and alone:
        lines.append("    no apply runs: start the DAG cdc_apply")
    if alone:
        lines += [f"    the gate is closed: {closure.removesuffix(f': {message}')}" for closure in running.closures]
        lines += [f"    {issue}" for issue in running.issues]
    return lines + list(running.verified)


def _lines_or_error(head: str, lines: Callable[[], list[str]]) -> list[str]:
    try:
        return lines()
    except SluiceError as error:
        return [f"{head} {error}"]


def _running(store_url: str, prefix: Prefix, name: str) -> tuple[Running | None, list[str]]:
    try:
        with closing(redis_store.connect(store_url)) as client:
            status = Status(client, prefix, name).read()
            moment = status.get("current_as_of")
            return Running(
                lease.taken(client, prefix, name),
                str(status.get("safe_mode") or ""),
                under_way(status),
                datetime.fromisoformat(str(moment)) if moment else None,
                tuple(str(closure) for closure in Gate(client, prefix, name).closures()),
                tuple(summary_lines(VerificationLog(client, prefix, name).read(), prefix, name)),
                tuple(issue.on_slave for issue in Issues(client, prefix, name).read()),
                LoadStarted(client, prefix, name).read(),
            ), []
    except SluiceError as error:
        return None, [f"    {error}"]


def _items(store_url: str, prefix: Prefix) -> list[str]:
    with closing(redis_store.connect(store_url)) as client:
        return items(ItemsState(client, prefix).read())


def _redo(store_url: str, prefix: Prefix) -> list[str]:
    with closing(redis_store.connect(store_url)) as client:
        return redo(prefix, RedoState(client, prefix).read(), datetime.now(UTC).timestamp())


def redo(prefix: Prefix, status: RedoStatus | None, now: float) -> list[str]:
    """Lines about the capture of a master's log, and each thread. `now`: seconds since the epoch."""
    if status is None:
        run = command("capture_redo", str(prefix))
        return [f"{prefix}: nobody reads the master's log: start the DAG capture_redo, or run {run}"]
    silent = f", silent for {duration(now - status.written)}: see its log" if status.silent(now) else ""
    binary = status.capture == BINLOG
    read = "the binary log is" if binary else "the redo logs are"
    lines = [f"{prefix}: {read} read by {status.holder}, epoch {status.epoch}{silent}"]
    for thread in status.threads:
        behind = status.lag_seconds(thread, now)
        logs = f" and {counted(thread.logs_behind, 'log')}" if thread.logs_behind else ""
        lag = f", {duration(behind)}{logs} behind" if behind is not None else ""
        place = f", log {thread.sequence}, SCN {thread.scn}" if thread.scn else ""
        place = f", offset {thread.scn}" if binary and thread.scn else place
        again = f", started again {counted(thread.restarts, 'time')}" if thread.restarts else ""
        error = f": {thread.last_error}" if thread.last_error else ""
        name = thread.thread or "the log" if binary else f"thread {thread.thread}"
        lines.append(f"    {name}: {thread.state}{place}{lag}{again}{error}")
        lines += [f"        {text}" for text in (thread.logs, thread.left_out) if text]
    return [*lines, *(f"    {error}" for error in (status.error, status.unread, status.watch_error) if error)]


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)
