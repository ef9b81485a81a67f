"""The preflight in Airflow: checks the master and the slaves of a run over the run's connections."""

import logging
import os
import pwd
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any

from sluice.airflow import applies, connections, forms
from sluice.airflow.selection_form import update_of
from sluice.airflow.task_context import TaskContext
from sluice.configuration.model import Endpoint, Replication, SlaveConfig
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination import lease
from sluice.coordination.verification_log import VerificationLog
from sluice.counted import counted, duration, listed
from sluice.database.registry import master_of, no_database
from sluice.database.session import Session
from sluice.errors import SluiceError, Terminal, Transient
from sluice.load.preparation import captured_tables
from sluice.load.selection import Selection
from sluice.model.issue import MASTER, Issue, Severity, errors, slave_side
from sluice.model.names import Prefix, TableName
from sluice.model.slave_state import APPLYING
from sluice.preflight import checks

log = logging.getLogger("sluice.airflow")

# The part of the preflight that runs on Spark's executors: what they reach, and whether they have a free slot.

SPARK = "Spark"


def executor_issues(task: TaskContext, slaves: Sequence[str]) -> Iterator[Issue]:
    """What executors of the endpoint lack; nothing without an endpoint."""
    endpoint = connections.endpoint()
    if not endpoint.remote:
        return
    address = str(endpoint)
    if away := applies.why_no_spark():
        yield Issue(
            SPARK, "an executor that answers",
            f"{away.rstrip('.')}; loads and comparisons wait, and applies are processes meanwhile", None,
            Severity.WARNING, server=address, remedy="Look whether Spark runs and has free slots: docs/spark.md.",
        )  # fmt: skip
        return
    on_spark = not applies.why_process(task.replication)
    if on_spark and (short := applies.short_session(endpoint)) is not None:
        yield Issue(
            SPARK, "sessions that it keeps for a day",
            f"an apply ends when Airflow is away for {duration(short)}, and begins again when it is back", None,
            Severity.WARNING, server=address,
            remedy="Set spark.connect.session.manager.defaultSessionTimeout of its server to 1d or more.",
        )  # fmt: skip
    from spark_jobs.reach import ENDPOINT, REDIS, ReachTask, unreached

    replication = task.replication
    sides = [(MASTER, task.info(replication.master))] if not replication.master.stream else []
    sides += [(slave_side(name), task.info(replication.slave(name))) for name in slaves]
    work = ReachTask(sides, connections.redis_url(), endpoint)
    try:
        missed = unreached(f"sluice {task}", work)
    except SluiceError as error:
        yield Issue(SPARK, "executors that can do the work", str(error).rstrip("."), None, server=address)
        return
    for one in missed:
        why = f"the executor on {one.host} does not reach it: {one.reason.rstrip('.')}"
        if one.side == ENDPOINT:
            yield Issue(
                SPARK, "its endpoint, from executors", f"{why}; the apply works on large windows alone", None,
                Severity.WARNING, server=one.server, remedy="Let spark_default name it as executors reach it.",
            )  # fmt: skip
        elif one.side == REDIS:
            remedy = "Let executors reach it: they apply, and ask the apply for comparisons and repairs."
            severity = Severity.ERROR if on_spark else Severity.WARNING  # without it nothing is compared
            yield Issue(REDIS, "a way from executors", why, None, severity, server=one.server, remedy=remedy)
        else:
            remedy = "Let executors reach the database: they load and apply."
            yield Issue(one.side, "a way from executors", why, None, server=one.server, remedy=remedy)


class SlaveAway(Transient):
    """The only slave of a run does not answer."""

    def __init__(self, name: str, outage: Transient):
        super().__init__(f"slave {name} does not answer: {outage}")


def require_ready(task: TaskContext, slaves: Sequence[str]) -> None:
    """Raises `NotReady` with everything that is lacking on the master and on `slaves`; logs warnings.

    Raises `Transient` if the master cannot be reached, `SlaveAway` if the only slave cannot; one of several is skipped.
    """
    checks.require_ready(str(task), _issues(task, slaves, light=False))


def warn(task: TaskContext, slaves: Sequence[str]) -> None:
    """The same for a pair that replicates already: logs what is lacking, and checks no tables but transformed ones.

    Raises `NotReady` only if an account is refused, `Transient` if a database cannot be reached.
    """
    checks.require_ready(str(task), _issues(task, slaves, light=True))


def _issues(task: TaskContext, slaves: Sequence[str], *, light: bool) -> list[Issue]:
    selection = _choice(task)
    replication = task.replication
    stream = replication.master.stream
    if stream and not light and not _loads_beside(task):
        raise no_database(stream.vendor)
    if selection.read is not None:
        replication = replace(replication, initial=replace(replication.initial, read=selection.read))
    with ExitStack() as sessions:
        issues_so_far = _as(_of_redis(), light)
        if replication.redo is not None:
            issues_so_far += checks.of_capture_host(pwd.getpwall(), os.geteuid())
        master = None if stream else _of_master(task, replication, sessions, issues_so_far, light)
        if stream and not light:
            issues_so_far += _of_rows(task)
        if master is not None and not slaves and not light:
            issues_so_far += checks.of_transformations(master, replication)
        of_slaves = {name: _of_slave(task, replication, name, master, selection, light) for name in slaves}
    missing = [name for name, issues in of_slaves.items() if errors(issues)]
    for name, issues in of_slaves.items():
        # One of several slaves is left out if it cannot be loaded; the others continue.
        left_out = len(missing) < len(slaves) and name in missing
        issues_so_far += [issue.softened() for issue in issues] if left_out else issues
    if not light and not errors(issues_so_far):
        # What this machine does not reach, executors need not be asked about.
        issues_so_far += executor_issues(task, slaves)
    return issues_so_far


def _loads_beside(task: TaskContext) -> bool:
    """Whether the run loads rows from a master whose changes come from its log."""
    return task.replication.master.rows_beside_log and "transfer" in task.context["params"]


def _of_rows(task: TaskContext) -> list[Issue]:
    """Checks privileges on that master, and that its rows and the stream belong together.

    Raises the errors of taking a position: `Transient` while transactions run that the stream lacks.
    """
    for name in task.slave_names:
        update = update_of(task.of_slave(name))
        server = update.master_info.server
        with update.connect_master() as master:
            vendor, issues = master_of(master.vendor), list(checks.of_database(MASTER, update.master_info))
            issues += [issue.at(MASTER, server) for issue in vendor.preflight.of_master(master, task.replication)]
            if not errors(issues):
                tables = captured_tables(update, master)
                vendor.queue(master, task.prefix, task.replication.master.schema).take()
                log.info("%s: reached the master %s: %s", task, server, counted(len(tables), "table"))
        return issues
    return []


def _of_redis() -> list[Issue]:
    try:
        return checks.of_redis(connections.redis_url())
    except SluiceError as error:
        return [checks.no_redis(error)]


def _of_master(
    task: TaskContext, replication: Replication, sessions: ExitStack, issues_so_far: list[Issue], light: bool
) -> Session | None:
    """A session on the master, open until `sessions` closes; None if it was refused. Adds what is lacking to
    `issues_so_far`."""
    master: Session | None = None
    with _noting_refusal(task, MASTER, replication.master, issues_so_far):
        master = sessions.enter_context(task.master())
        info = task.info(replication.master)
        server = info.server
        issues_so_far += checks.of_database(MASTER, info)
        issues = [issue.at(MASTER, server) for issue in checks.of_master(master, replication, light=light)]
        issues_so_far += _as(issues, light)
        log.info("%s: reached the master %s", task, server)
    return master


def _of_slave(
    task: TaskContext, replication: Replication, name: str, master: Session | None, selection: Selection, light: bool
) -> list[Issue]:
    slave = replication.slave(name)
    issues_so_far: list[Issue] = []
    try:
        with _noting_refusal(task, slave_side(name), slave, issues_so_far), task.at(slave) as session:
            info = task.info(slave)
            server = info.server
            issues_so_far += checks.of_database(slave_side(name), info)
            covers = selection.covers if selection.partial else None
            if not light:
                issues_so_far += _of_former_names(task, session, slave)
            if not light and master is not None and covers is None:
                issues_so_far += _of_other_replications(task, session, slave, master)
            issues = checks.of_slave(session, replication, slave, master=master, covers=covers, light=light)
            issues_so_far += _as([issue.at(slave_side(name), server) for issue in issues], light)
            log.info("%s: reached the slave %s", task, server)
    except Transient as outage:
        if len(task.slave_names) == 1:
            raise SlaveAway(name, outage) from outage
        log.warning("%s: not reached, and left out if it stays so: %s", task, outage)
    return issues_so_far


def _of_former_names(task: TaskContext, session: Session, slave: SlaveConfig) -> Iterator[Issue]:
    """An apply that still writes to this slave under a name that no file has now: two would write the same rows."""
    replications, _ = forms.survey()
    configured = {(str(one.prefix), name) for one in replications for name in one.slaves}
    held: list[tuple[str, str]] = []
    with suppress(SluiceError):  # what Redis lacks is told beside this
        held = lease.held(task.redis)
    for prefix, name in held:
        if (prefix, name) in configured:
            continue
        with suppress(SluiceError):  # its tables are in another schema, or not readable: it is another slave
            if CheckpointStore(session, Prefix(prefix), slave.schema, name).read() is None:
                continue
            yield Issue(
                slave_side(slave.name),
                f"the end of the apply of {prefix} → {name}",
                "it runs, writes to this database, and no file configures it: the file was removed, has mistakes, "
                "or names it otherwise now",
                None,
                remedy=f"End it: mark the run of {prefix} → {name} of the DAG cdc_apply as failed in Airflow.",
            )


def _of_other_replications(task: TaskContext, session: Session, slave: SlaveConfig, master: Session) -> list[Issue]:
    """Another slave that is kept in this database and has tables of the same names: a load would empty them, and two
    applies would write the same rows."""
    existing = task.existing_tables(master)
    try:
        tables = _on_slave(task.replication, slave, (one.table for one in task.replication.resolve(existing)))
    except Terminal:
        return []  # the check of the master reports it
    issues = []
    for other in forms.survey()[0]:
        for name, place in other.slaves.items():
            if (other.prefix, name) == (task.prefix, slave.name) or place.vendor != slave.vendor:
                continue
            with suppress(SluiceError):  # it is in another database, or what it has is not known
                checkpoint = CheckpointStore(session, other.prefix, place.schema, name).read()
                if checkpoint is None or checkpoint.state not in APPLYING:
                    continue
                if other.master.conn_id == task.replication.master.conn_id:
                    has = [one.table for one in other.resolve(existing)]
                else:
                    has = [TableName.parse(text) for text in VerificationLog(task.redis, other.prefix, name).read()]
                if both := sorted(map(str, tables & _on_slave(other, place, has))):
                    issues.append(
                        Issue(
                            slave_side(slave.name),
                            f"tables that {other.prefix} → {name} does not have",
                            f"it is {checkpoint.state} in this database and has {listed(both, 5, 'table')}: the load "
                            "would empty them, and two applies would write the same rows",
                            None,
                            remedy=f"Name another database or another target; or end {other.prefix} → {name} before.",
                        )
                    )
    return issues


def _on_slave(replication: Replication, slave: SlaveConfig, tables: Iterable[TableName]) -> set[TableName]:
    names = map(replication.placement(slave).slave_name, tables)
    return {TableName(name.schema, name.name) for name in names}


def _as(issues: list[Issue], light: bool) -> list[Issue]:
    return [issue.softened() for issue in issues] if light else issues


@contextmanager
def _noting_refusal(
    task: TaskContext, side: str, endpoint: Endpoint | SlaveConfig, issues: list[Issue]
) -> Iterator[None]:
    """Turns a refused connection into one of the issues."""
    try:
        yield
    except Terminal as refused:
        try:
            info = task.info(endpoint)
        except SluiceError:
            # The connection is missing in Airflow; the message says how to create it.
            issues.append(Issue(side, f"the connection {endpoint.conn_id}", str(refused).rstrip("."), None))
        else:
            issues.append(checks.of_refusal(side, info, refused))


def _choice(task: TaskContext) -> Selection:
    """The selection in the form of an initial update; everything for any other DAG."""
    params: Any = task.context["params"]
    return Selection.from_dict(params) if "transfer" in params else Selection()
