"""`remove`: removes what `add` and the DAGs created for a replication, or for one of its slaves.

The order lets a second run continue where the first one ended: the file, which names everything else, goes last.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sluice import config
from sluice.capture.uninstall import expect_free, guard_of, leave_master, leave_slave
from sluice.cli import airflow, sides
from sluice.cli.connections import ConnectionUnknown
from sluice.cli.console import Console
from sluice.cli.sides import Side
from sluice.cli.where import Where, uses
from sluice.configuration.mistakes import ConfigError
from sluice.configuration.model import Replication
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination import lease, redis_store
from sluice.coordination.records import forget
from sluice.coordination.redo_state import CAPTURE
from sluice.counted import counted
from sluice.database.errors import DatabaseRefused, DatabaseUnreachable
from sluice.database.registry import master_of, no_database
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.failover.reversal import SUFFIX
from sluice.model.failover import Phase, passed
from sluice.model.issue import MASTER
from sluice.model.names import prefix_meant
from sluice.model.slave_state import SlaveState
from sluice.model.vendors import BINLOG, VENDORS
from sluice.operate import replication_file
from sluice.paths import PROGRAM

END_SECONDS = 90.0
"""How long to wait for the end of an apply; the lease of a dead one expires meanwhile."""


def apply_did_not_end(pair: str, seconds: float) -> Terminal:
    """An apply did not end."""
    return Terminal(
        f"An apply of {pair} still runs after {seconds:.0f} s. Mark its run of the DAG cdc_apply as failed, then "
        "start again.",
        code="apply-did-not-end",
    )


@dataclass(frozen=True)
class Wish:
    """The slaves to be removed, or the whole replication."""

    replication: Replication
    slaves: tuple[str, ...]
    whole: bool
    """Whether the whole replication is removed, with the master's side."""
    lost: tuple[str, ...]
    """Sides whose databases no longer exist."""

    def __str__(self) -> str:
        return f"{self.replication.prefix} → {', '.join(self.slaves)}" if self.slaves else str(self.replication.prefix)

    @property
    def endpoints(self) -> dict[str, tuple[str, str, str]]:
        """The sides to be removed: connection, vendor and schema of Sluice's own objects by name."""
        master = self.replication.master
        endpoints = {MASTER: (master.conn_id, master.vendor, master.schema)} if self.whole else {}
        for slave in map(self.replication.slave, self.slaves):
            endpoints[slave.name] = (slave.conn_id, slave.vendor, slave.schema)
        return endpoints

    @property
    def recorded(self) -> bool:
        """Whether the master goes too, and its log was recorded."""
        return self.whole and self.replication.master.capture == BINLOG

    def schema(self, side: Side) -> str:
        return self.endpoints[side.name][2]


def run(args: argparse.Namespace, console: Console, where: Where) -> None:
    """Removes it. Raises `SluiceError`; then a second run continues."""
    replication = _configured(args.name, where.folder)
    file = replication.source
    if replication.master.stream and replication.master.capture != BINLOG:
        raise no_database(replication.master.stream.vendor)
    wish = _wish(replication, args.slave, args.lost)
    parties = _parties(wish, args.admin, where, console)
    lines = [line for side in parties for line in _checked(wish, side, file)]
    console.say(f"What goes: {wish}. On the slaves the replicated tables and their rows stay.")
    for line in lines:
        console.say(line)
    if not console.confirm(f"Remove {wish}?"):
        raise Terminal("Nothing was removed.", code="not-confirmed")
    _end(wish, console, where)
    for side in sorted(parties, key=lambda side: side.name == MASTER):
        console.say(f"{side.name}: {_leave(wish, side)}")
    for name in wish.lost:
        console.say(_left_out(name))
    if args.revoke:
        for side in parties:
            if users := _users(side, wish, where):
                console.say(f"{side.name}: {side.account} keeps its privileges, which {', '.join(users)} needs")
            else:
                _revoke(side, console)
    _forget(wish, console, where)
    _leave_airflow(wish, console, where)
    if wish.whole:
        console.say(replication_file.taken_out(file))
        if (turned := _turned(file)).exists():
            turned.unlink()
            console.say(f"{turned}, which a failover wrote, is deleted")
    else:
        text = file.read_text(encoding="utf-8")
        for name in wish.slaves:
            text = replication_file.without_slave(file, text, name)
        replication_file.put(file, text)
        console.say(f"{file} names {', '.join(wish.slaves)} no more")


def _configured(name: str, folder: Path) -> Replication:
    """The replication `name`: SHOP, shop_ and SHOP_ are the same. Raises `ConfigError`, `unknown-replication`."""
    survey = config.survey(folder)
    replications = {one.prefix.name: one for one in survey.replications}
    prefix = prefix_meant(name, {*replications, *survey.broken})
    if prefix in survey.broken:
        raise ConfigError(survey.broken[prefix])
    if prefix not in replications:
        raise Terminal(f"No replication {prefix} is configured in {folder}.", code="unknown-replication")
    return replications[prefix]


def _wish(replication: Replication, slave: str | None, lost: Sequence[str]) -> Wish:
    if slave is None:
        wish = Wish(replication, tuple(replication.slaves), True, tuple(lost))
    else:
        replication.slave(slave)
        if len(replication.slaves) == 1:
            raise Terminal(
                f"{slave} is the last slave of {replication.prefix}. Remove all of it: {PROGRAM} remove "
                f"{replication.prefix.name.rstrip('_')}, or add another slave first.",
                code="last-slave",
            )
        wish = Wish(replication, (slave,), False, tuple(lost))
    for name in lost:
        if name not in wish.endpoints:
            raise Terminal(
                f"--lost {name}: there is no such side to remove; there are {', '.join(wish.endpoints)}.",
                code="unknown-side",
            )
    return wish


def _parties(wish: Wish, admins: Sequence[str], where: Where, console: Console) -> list[Side]:
    """The sides that are not lost. Raises `database-unreachable`, `connection-unusable`."""
    parties = []
    for name, (conn_id, vendor, _) in wish.endpoints.items():
        if name not in wish.lost:
            with _answers(name):
                parties.append(_side(name, conn_id, vendor, where, console))
    sides.choose_administrators(admins, parties)
    for side in parties:
        if side.admin is not None:
            side.admin = sides.administrators_password(console, side)
    return parties


def _side(name: str, conn_id: str, vendor: str, where: Where, console: Console) -> Side:
    try:
        info = where.connections(conn_id, vendor)
    except ConnectionUnknown:
        url = console.ask(f"Address behind the connection {conn_id} ({sides.URLS})", "--airflow")
        info = sides.parsed(url)
    return Side(name, conn_id, info if info.password else sides.with_password(console, info, conn_id))


@contextmanager
def _answers(name: str) -> Iterator[None]:
    """Turns failed log-ins into `database-unreachable`."""
    try:
        yield
    except (DatabaseUnreachable, DatabaseRefused, sides.NoPassword) as silence:
        raise Terminal(
            f"{name}: {silence!s} Nothing was removed. Is that database gone forever? Add --lost {name}.",
            code="database-unreachable",
        ) from silence


def _checked(wish: Wish, side: Side, file: Path) -> list[str]:
    """Checks a side, which a failover may have changed; returns sentences that a person should know.

    Raises `database-unreachable`, `administrator-needed`, `master-guarded`, `failover-under-way`, `slave-is-master`.
    """
    with ExitStack() as stack:
        with _answers(side.name):
            session = stack.enter_context(sides.session(side.info))
        if side.admin is None and _has_event_triggers(wish, side, session) and not side.contents.is_superuser(session):
            raise Terminal(
                f"{wish}: its event triggers belong to a superuser of {side.name} ({side.info.server}). Give that "
                f"log-in with --admin {side.name}=LOGIN. Nothing was removed.",
                code="administrator-needed",
            )
        if not VENDORS[side.info.vendor].fails_over:
            return []
        vendor, prefix, schema = master_of(side.info.vendor), wish.replication.prefix, wish.schema(side)
        warnings = []
        guard = guard_of(session, prefix, schema)
        if side.name != MASTER:
            record = vendor.failover.FailoverStore(session, prefix, schema, side.name).read()
            if record is not None and record.under_way and not passed(record.phase, Phase.SWITCHED):
                raise Terminal(
                    f"{wish}: failover {record.id} of {side.name} is under way. Wait until it is through, or trigger "
                    f"the DAG failover for {side.name} with the action abort. Nothing was removed.",
                    code="failover-under-way",
                )
            checkpoint = CheckpointStore(session, prefix, schema, side.name).read()
            if checkpoint is not None and checkpoint.state is SlaveState.MASTER:
                if (turned := _turned(file)).exists() and not wish.whole:
                    raise Terminal(
                        f"{side.name} is the master of {prefix} since a failover with reverse. Put the new direction "
                        f"in force: mv {turned} {file}. Or remove all of it: {PROGRAM} remove "
                        f"{prefix.name.rstrip('_')}. Nothing "
                        "was removed.",
                        code="slave-is-master",
                    )
                warnings.append(
                    f"{side.name} ({side.info.server}) is the master since a failover; its application continues."
                )
        expect_free(session, prefix, schema)
        if guard is not None and any(table.refuses for table in guard.tables()):
            warnings.append(
                f"{side.name} ({side.info.server}) refuses writes to the replicated tables since a failover, and takes "
                "them again after this. Keep applications away from it: what they write there goes nowhere else."
            )
    return warnings


def _end(wish: Wish, console: Console, where: Where, pause: Callable[[float], None] = time.sleep) -> None:
    """Ends the applies of the slaves and waits for their end. Raises `apply-did-not-end`, `StoreUnreachable`."""
    if where.api is not None:
        for run in airflow.end_runs(where.api, wish.replication.prefix, wish.slaves, capture=wish.recorded):
            console.say(f"ended {run}")
    elif not console.confirm(
        f"Are all runs of cdc_apply{', capture_redo' if wish.recorded else ''} and initial_update for it marked as "
        "failed in Airflow?"
    ):
        raise Terminal("End them first: nothing was removed.", code="runs-to-end-first")
    if where.store_url is None:
        return
    deadline = time.monotonic() + END_SECONDS
    with closing(redis_store.connect(where.store_url)) as client:
        for name in [*wish.slaves, *([CAPTURE] if wish.recorded else [])]:
            where.stop_jobs(wish.replication.prefix, name)
            while lease.taken(client, wish.replication.prefix, name):
                if time.monotonic() > deadline:
                    raise apply_did_not_end(f"{wish.replication.prefix} → {name}", END_SECONDS)
                pause(0.5)


def _has_event_triggers(wish: Wish, side: Side, session: Session) -> bool:
    captured = (side.name == MASTER and not wish.recorded) or VENDORS[side.info.vendor].fails_over
    return captured and side.capture(session, wish.replication.prefix, wish.schema(side)).has_event_triggers()


def _turned(file: Path) -> Path:
    """The file in which a failover with `reverse` writes the configuration of the new direction."""
    return file.with_name(file.name + SUFFIX)


def _leave(wish: Wish, side: Side) -> str:
    """Removes Sluice's objects of a side; returns what was removed, in words. Raises `tables-busy`."""
    prefix, schema = wish.replication.prefix, wish.schema(side)
    with sides.session(side.info) as session:
        if side.admin is not None and _has_event_triggers(wish, side, session):
            with sides.session(side.admin) as administrator:
                side.capture(administrator, prefix, schema).remove_event_triggers()
        # As the account, since code of an untrusted account must not run with the administrator's rights.
        if side.name == MASTER and wish.recorded:
            return (
                f"nothing was installed. The recorded log stays in {wish.replication.master.location}: delete it there"
            )
        if side.name == MASTER:
            done = leave_master(session, prefix, schema, wish.slaves)
            return "triggers and resources are removed" if done else "nothing was installed"
        captured = leave_slave(session, side.accounts, prefix, schema, side.name)
        too = ", and the capture of its changes" if captured else ""
        return f"CHECKPOINT, BLOCKS and REJECTS are removed{too}; its tables and their rows stay"


def _left_out(name: str) -> str:
    if name == MASTER:
        return (
            "master: left as it is. Should it come back, run uninstall.sql there (its head says how): its triggers "
            "would queue changes forever."
        )
    return f"{name}: left as it is"


def _users(side: Side, wish: Wish, where: Where) -> list[str]:
    """Remaining replications that use the account on that server."""
    return [
        str(use)
        for use in uses(where, side.server)
        if use.prefix != wish.replication.prefix or not (wish.whole or use.slave in wish.slaves)
    ]


def _revoke(side: Side, console: Console) -> None:
    """Prints the statements that revoke the account's privileges; runs them with an administrator's log-in."""
    accounts = side.accounts
    with sides.session(side.admin or side.info) as session:
        statements = accounts.revokes(session, side.account)
    if not statements:
        console.say(f"{side.name}: {side.account} has no privilege of its own in {side.info.database}")
        return
    title = f"{side.name}: {side.info.host}:{side.info.port}, database {side.info.database}"
    console.script(title, sides.explained(side, statements))
    if side.admin is None:
        console.say(f"An administrator of {side.name} may run this; with --admin it is run here.")
    elif console.confirm(f"Run this as {side.admin.user} on {side.name}?"):
        with sides.session(side.admin) as session, session.transaction():
            accounts.run(session, statements)
        console.say(f"{side.name}: done; the account {side.account} itself stays")


def _forget(wish: Wish, console: Console, where: Where) -> None:
    if where.store_url is None:
        console.say(f"Redis is not known here: delete its keys sluice:{wish.replication.prefix}:* by hand")
        return
    with closing(redis_store.connect(where.store_url)) as client:
        names: list[str | None] = [None] if wish.whole else list(wish.slaves)
        count = sum(forget(client, wish.replication.prefix, name) for name in names)
    console.say(f"Redis: {counted(count, 'key')} deleted")


def _leave_airflow(wish: Wish, console: Console, where: Where) -> None:
    for conn_id, _, _ in wish.endpoints.values():
        if where.api is None:
            console.say(f"  airflow connections delete {conn_id}")
        elif airflow.delete_connection(where.api, conn_id):
            console.say(f"Airflow's connection {conn_id} is deleted")
        elif airflow.connection(where.api, conn_id) is not None:
            console.say(f"Airflow's connection {conn_id} stays: a person made it")
