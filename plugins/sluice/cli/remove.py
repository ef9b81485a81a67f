"""`remove`: takes back what `add` and the DAGs made of a replication, or of one of its slaves.

In an order in which a second run goes on where the first one ended: the file, by which all else is found, goes last.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

from sluice import config
from sluice.capture.uninstall import uninstall
from sluice.cli import airflow, replication_file, sides
from sluice.cli.add import existing, named
from sluice.cli.connections import ConnectionUnknown
from sluice.cli.console import Console
from sluice.cli.sides import MASTER, Side
from sluice.cli.where import Where
from sluice.config import Replication
from sluice.coordination import lease, redis_store
from sluice.coordination.forget import forget
from sluice.counted import counted
from sluice.database.registry import NoDatabase
from sluice.errors import SluiceError, Terminal

END_SECONDS = 90.0
"""So long an apply that was told to end may take; a lease that nobody renews runs out meanwhile."""


class NothingThere(Terminal):
    """No file of the replication."""


class StillApplying(Terminal):
    """An apply did not end."""

    def __init__(self, pair: str, seconds: float):
        super().__init__(
            f"An apply of {pair} still runs after {seconds:.0f} s. Mark its run of the DAG cdc_apply as failed, then "
            "start again."
        )


class AdministratorNeeded(Terminal):
    """Only a superuser can take event triggers away."""


@dataclass(frozen=True)
class Wish:
    """What is to go."""

    replication: Replication
    slaves: tuple[str, ...]
    whole: bool
    """The last slave goes, and the master's side with it."""

    def __str__(self) -> str:
        return f"{self.replication.prefix} → {', '.join(self.slaves)}" if self.slaves else str(self.replication.prefix)


def run(args: argparse.Namespace, console: Console, where: Where) -> None:
    """Raises `SluiceError`; what is done by then stays done, and a second run goes on."""
    prefix, file = named(args.name, where.folder)
    replication = existing(prefix, file, where.folder)
    if replication is None:
        raise NothingThere(f"No replication {prefix} is configured in {where.folder}.")
    if replication.master.stream:
        raise NoDatabase(replication.master.stream.vendor)
    wish = _wish(replication, args.slave)
    parties = _parties(wish, args.admin, where, console)
    console.say(f"What goes: {wish}. On the slaves the replicated tables and their rows stay.")
    if not console.confirm(f"Remove {wish}?"):
        raise Terminal("Nothing was removed.")
    _end(wish, console, where)
    for side in parties:
        if side.name != MASTER:
            _leave_slave(wish, side)
            console.say(f"{side.name}: CHECKPOINT, BLOCKS and REJECTS are removed; its tables and their rows stay")
    if wish.whole:
        done = _leave_master(wish, parties[0])
        console.say(f"master: {'triggers and resources are removed' if done else 'nothing was installed'}")
    if args.revoke:
        for side in parties if wish.whole else parties[1:]:
            if users := _users(side, wish, where):
                console.say(f"{side.name}: {side.account} keeps its privileges, which {', '.join(users)} needs")
            else:
                _revoke(side, console)
    _forget(wish, console, where)
    _leave_airflow(parties if wish.whole else parties[1:], console, where)
    if wish.whole:
        file.rename(file.with_name(file.name + ".removed"))
        console.say(f"{file} is {file.name}.removed now")
    else:
        text = file.read_text(encoding="utf-8")
        for name in wish.slaves:
            text = replication_file.without_slave(file, text, name)
        file.write_text(text, encoding="utf-8")
        console.say(f"{file} names {', '.join(wish.slaves)} no more")


def _wish(replication: Replication, slave: str | None) -> Wish:
    if slave is None:
        return Wish(replication, tuple(replication.slaves), True)
    replication.slave(slave)
    if len(replication.slaves) == 1:
        raise Terminal(
            f"{slave} is the last slave of {replication.prefix}. Remove all of it: ./sluice remove "
            f"{replication.prefix.name.rstrip('_')}, or add another slave first."
        )
    return Wish(replication, (slave,), False)


def _parties(wish: Wish, admins: Sequence[str], where: Where, console: Console) -> list[Side]:
    """The master first. Raises `Terminal` where a connection cannot be read and its password is not known."""
    replication = wish.replication
    found = [_side(MASTER, replication.master.conn_id, replication.master.vendor, where, console)]
    for slave in map(replication.slave, wish.slaves):
        found.append(_side(slave.name, slave.conn_id, slave.vendor, where, console))
    sides.choose_administrators(admins, found)
    for side in found:
        if side.admin is not None:
            side.admin = sides.administrators_password(console, side)
    return found


def _side(name: str, conn_id: str, vendor: str, where: Where, console: Console) -> Side:
    try:
        info = where.connections(conn_id, vendor)
    except ConnectionUnknown:
        url = console.ask(f"Address behind the connection {conn_id} ({sides.URLS})", "--airflow")
        info = sides.parsed(url)
    return Side(name, conn_id, info if info.password else sides.with_password(console, info, conn_id))


def _end(wish: Wish, console: Console, where: Where, pause: Callable[[float], None] = time.sleep) -> None:
    """Returns when no apply of the slaves runs. Raises `StillApplying`, `StoreUnreachable`."""
    if where.api is not None:
        for run in airflow.end_runs(where.api, wish.replication.prefix, wish.slaves):
            console.say(f"ended {run}")
    elif not console.confirm("Are all runs of cdc_apply and initial_update for it marked as failed in Airflow?"):
        raise Terminal("End them first: nothing was removed.")
    if where.store_url is None:
        return
    deadline = time.monotonic() + END_SECONDS
    with closing(redis_store.connect(where.store_url)) as client:
        for name in wish.slaves:
            where.stop_jobs(wish.replication.prefix, name)
            while lease.held(client, wish.replication.prefix, name):
                if time.monotonic() > deadline:
                    raise StillApplying(f"{wish.replication.prefix} → {name}", END_SECONDS)
                pause(0.5)


def _leave_slave(wish: Wish, side: Side) -> None:
    schema = wish.replication.slave(side.name).schema
    with sides.session(side.info) as found:
        side.accounts.remove_slave(found, wish.replication.prefix, schema, side.name)


def _leave_master(wish: Wish, side: Side) -> bool:
    """Whether there was anything. Raises `AdministratorNeeded`, `TablesBusy`."""
    contents = side.contents
    prefix, schema = wish.replication.prefix, wish.replication.master.schema
    with sides.session(side.info) as found:
        if contents.has_event_triggers(found, prefix, schema):
            if side.admin is None:
                raise AdministratorNeeded(
                    f"The event triggers of {prefix} belong to a superuser of the master ({side.info.place}). Give "
                    "that log-in with --admin master=LOGIN."
                )
            with sides.session(side.admin) as administrator:
                contents.remove_event_triggers(administrator, prefix, schema)
        # Not as the administrator: an account that he does not trust would run code with his rights.
        return uninstall(found, prefix, schema)


def _users(side: Side, wish: Wish, where: Where) -> list[str]:
    """What else is configured to use the account on that server, as far as connections can be read."""
    found = []
    for one in config.survey(where.folder).replications:
        goes = one.prefix == wish.replication.prefix
        uses = {} if goes and wish.whole else {f"the master of {one.prefix}": (one.master.conn_id, one.master.vendor)}
        for name, other in one.slaves.items():
            if not (goes and name in wish.slaves):
                uses[f"{one.prefix} → {name}"] = (other.conn_id, other.vendor)
        for use, (conn_id, vendor) in uses.items():
            with suppress(SluiceError):
                info = where.connections(conn_id, vendor)
                if (info.host, info.port, info.user) == side.server:
                    found.append(use)
    return found


def _revoke(side: Side, console: Console) -> None:
    """Prints what takes the account's privileges back and, with an administrator's log-in, runs it."""
    accounts = side.accounts
    with sides.session(side.admin or side.info) as found:
        statements = accounts.revokes(found, side.account)
    if not statements:
        console.say(f"{side.name}: {side.account} has no privilege of its own in {side.info.database}")
        return
    console.script(f"{side.name}: {side.info.host}:{side.info.port}, database {side.info.database}", statements)
    if side.admin is None:
        console.say(f"An administrator of {side.name} may run this; with --admin it is run here.")
    elif console.confirm(f"Run this as {side.admin.user} on {side.name}?"):
        with sides.session(side.admin) as found, found.transaction():
            accounts.run(found, statements)
        console.say(f"{side.name}: done; the account {side.account} itself stays")


def _forget(wish: Wish, console: Console, where: Where) -> None:
    if where.store_url is None:
        console.say(f"Redis is not known here: delete its keys sluice:{wish.replication.prefix}:* by hand")
        return
    with closing(redis_store.connect(where.store_url)) as client:
        names: list[str | None] = [None] if wish.whole else list(wish.slaves)
        count = sum(forget(client, wish.replication.prefix, name) for name in names)
    console.say(f"Redis: {counted(count, 'key')} deleted")


def _leave_airflow(parties: Sequence[Side], console: Console, where: Where) -> None:
    for side in parties:
        if where.api is None:
            console.say(f"  airflow connections delete {side.conn_id}")
        elif airflow.delete_connection(where.api, side.conn_id):
            console.say(f"Airflow's connection {side.conn_id} is deleted")
        elif airflow.connection(where.api, side.conn_id) is not None:
            console.say(f"Airflow's connection {side.conn_id} stays: a person made it")
