"""Proves, before anything is changed, that servers and accounts have everything that a replication needs.

    lacks = of_master(session, replication) + of_slave(session, replication, slave, master=session)
    settle(str(replication.prefix), lacks)     # logs warnings; raises NotReady with every error at once

The checks concern the session's `current_user`: an administrator's session checks another account after `SET ROLE`,
except for what only that account's own tables and functions show. They change nothing and wait for no lock of a table.
"""

import json
import logging
import pwd
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from uuid import uuid4

import redis

from sluice.configuration.model import Replication, SlaveConfig
from sluice.configuration.placement import Placement
from sluice.coordination import redis_check, redis_store
from sluice.coordination.redis_store import StoreRefuses
from sluice.database import lock_waits
from sluice.database.errors import LockNotAvailable
from sluice.database.load import LoadTarget
from sluice.database.placed import placed
from sluice.database.preflight import Requirements
from sluice.database.registry import master_of, vendor_of
from sluice.database.schema import TableDefinition
from sluice.database.session import Session
from sluice.database.translation import Translator, allows
from sluice.errors import SluiceError, Terminal
from sluice.model.connection import ConnectionInfo, stays_on_machine
from sluice.model.issue import MASTER, Issue, Severity, errors, slave_side
from sluice.model.names import TableName
from sluice.transform.table_transform import TransformationInvalid
from sluice.transform.transforms import Transforms
from sluice.user_function import FunctionMissing, imported

# Checks whether the network between here and a database or Redis can be read or changed by others, and whether Redis
# lets us do what we need and keeps what we write.

REDIS = "Redis"


def of_database(side: str, info: ConnectionInfo) -> Iterator[Issue]:
    """A warning if the connection uses a network and its `sslmode` does not verify the server."""
    if not stays_on_machine(info.host) and info.tls_mode != "verify-full":
        yield Issue(
            side,
            f"sslmode verify-full (the connection says {info.tls_mode})",
            "somebody between could pose as the server, and read or change all rows and the password",
            None,
            Severity.WARNING,
            remedy="Remove the connection's extra sslmode; docs/connections.md says what the server needs.",
            server=info.server,
        )


def of_redis(address: str) -> list[Issue]:
    """Commands that Redis refuses, as errors; warnings if it is reached in clear over a network, accepts clients
    without a password, or may lose what is written.

    Raises `redis-not-configured`, `StoreUnreachable`.
    """
    with closing(redis_store.connect(address)) as client:
        client.ping()
        way = redis_store.address_of(address)
        issues = list(_commands(client))
        if not way.secure and not stays_on_machine(way.host):
            issues.append(
                _warning(
                    "TLS",
                    "passwords, leases and gates cross the network in clear",
                    "Let Redis listen with TLS and set SLUICE_REDIS_URL to rediss://….",
                )
            )
        if redis_store.serves_anonymous_clients(address):
            issues.append(
                _warning(
                    "a password",
                    "everybody who reaches it may close gates, take leases and move positions that are kept there",
                    "Set requirepass, or ACL SETUSER default off, and put the login into SLUICE_REDIS_URL.",
                )
            )
        issues += _memory(client)
    return [issue.at(REDIS, way.server) for issue in issues]


def _commands(client: "redis.Redis") -> Iterator[Issue]:
    if refused := redis_check.refused_commands(client):
        reason = next(iter(refused.values())).rstrip(".")
        yield Issue(
            REDIS,
            f"the {'command' if len(refused) == 1 else 'commands'} {', '.join(refused)}",
            f"without them nothing says who applies and which gates are closed ({reason})",
            None,
            remedy="Run on Redis: ACL SETUSER <user> ~sluice:* &sluice:* +@read +@write +@scripting +@transaction "
            "+@connection +@pubsub",
        )


def _memory(client: "redis.Redis") -> Iterator[Issue]:
    """Warnings about keys that Redis may evict, refuse or forget; none if it does not let us ask."""
    info = redis_check.memory(client)
    policy, limit = info.get("maxmemory_policy", ""), int(info.get("maxmemory", 0))
    if limit and policy != "noeviction":
        yield _warning(
            "maxmemory-policy noeviction",
            f"with {policy} it may delete leases, gates and positions when its memory is full",
            "Run on Redis: CONFIG SET maxmemory-policy noeviction",
        )
    if limit and (used := int(info.get("used_memory", 0))) > redis_check.NEARLY * limit:
        yield _warning(
            "memory",
            f"{used:,} of {limit:,} bytes are in use; once they are, it refuses what applies write",
            "Raise maxmemory, or find what else fills it.",
        )
    for failing, what in (("rdb_last_bgsave_status", "snapshot"), ("aof_last_write_status", "log")):
        if info.get(failing, "ok") != "ok":
            yield _warning(
                f"a {what} that can be written",
                f"its last {what} failed; by default it then refuses every write",
                "Its log says why: mostly its disk is full.",
            )


def _warning(what: str, why: str, remedy: str) -> Issue:
    return Issue(REDIS, what, why, None, Severity.WARNING, remedy=remedy)


def of_capture_host(accounts: Iterable[pwd.struct_passwd], uid: int) -> Iterator[Issue]:
    """A warning if people other than the user `uid` can log in to the machine that reads redo logs."""
    others = sorted(
        each.pw_name
        for each in accounts
        if _PEOPLE <= each.pw_uid < _NOBODY and each.pw_uid != uid and not each.pw_shell.endswith(_NO_SHELLS)
    )
    if others:
        some = ", ".join(others[:5]) + (", …" if len(others) > 5 else "")
        yield Issue(
            MASTER,
            f"a capture host without other users ({some} can log in)",
            "OpenLogReplicator asks nobody who connects to its port: every user of this machine can read there all "
            "changes of the database, those of tables that are not replicated, too",
            None,
            Severity.WARNING,
            remedy="Run capture_redo on a machine, or in a container, where only its own user runs programs.",
        )


_PEOPLE, _NOBODY = 1000, 65534
"""Accounts of people have uids from the first one on; the second one is nobody's."""
_NO_SHELLS = ("/nologin", "/false", "/sync")


def no_redis(error: SluiceError) -> Issue:
    """Redis is not configured, does not answer or refuses us; an outage is a warning, as tasks that need it wait."""
    severity = Severity.ERROR if isinstance(error, StoreRefuses) else Severity.WARNING
    return Issue(REDIS, "an answer", str(error).rstrip("."), None, severity)


log = logging.getLogger("sluice.preflight")

LOCK_TRIES = 5
"""How often definitions are read again, since meanwhile another table was locked."""


class NotReady(Terminal):
    """A replication cannot begin yet; `issues` holds all errors, in order."""

    def __init__(self, subject: str, issues: Sequence[Issue], so: str = "nothing was changed"):
        count = "1 thing is lacking" if len(issues) == 1 else f"{len(issues)} things are lacking"
        listed = "\n".join(f"- {issue}" for issue in issues)
        super().__init__(f"{subject}: {count}, and {so}:\n{listed}\nThen start again.")
        self.issues = tuple(issues)


def of_master(session: Session, replication: Replication, *, light: bool = False) -> list[Issue]:
    """What the master lacks. Raises the errors of `session`.

    `light`: only what a running replication needs, in less time.
    """
    issues = master_of(replication.master.vendor).preflight.of_master(session, replication, light=light)
    if not light:
        issues = issues + _lines_without_tables(session, replication)
    return [issue.at(MASTER) for issue in issues]


def of_slave(
    session: Session,
    replication: Replication,
    slave: SlaveConfig,
    *,
    master: Session | None = None,
    covers: Callable[[TableName], bool] | None = None,
    light: bool = False,
) -> list[Issue]:
    """What a slave lacks for the master's tables. Raises the errors of the sessions.

    `master`: None if it cannot be reached; then no tables are checked. `covers`: chooses the tables if only a part is
    to be loaded. `light`: as for the master.

    Tables of the master that a session has locked, or waits to, are named and left out.
    """
    part, chosen = covers is not None, covers or (lambda _: True)
    if master is None:
        return _of_slave(session, replication, slave, None, chosen, part=part, light=light)
    vendor, tried = master_of(replication.master.vendor), 1
    while True:
        locked = vendor.schemas.locked(master, _resolved(master, replication, chosen))
        try:
            with master.transaction():
                vendor.sessions.limit_lock_waits(master, lock_waits.READ_SECONDS)
                readable = partial(_readable, chosen, locked)
                issues = _of_slave(session, replication, slave, master, readable, part=part, light=light)
        except LockNotAvailable:
            if tried == LOCK_TRIES:
                raise
            tried += 1
        else:
            return issues + [issue.at(slave_side(slave.name)) for issue in _unread(locked)]


def _readable(covers: Callable[[TableName], bool], locked: Collection[TableName], table: TableName) -> bool:
    return table not in locked and covers(table)


def _unread(locked: Collection[TableName]) -> Iterator[Issue]:
    if locked:
        yield Issue(
            "",
            f"definitions of {', '.join(map(str, sorted(locked)))} that can be read on the master",
            "a session has locked it, or waits to behind another one, so that it was not checked",
            None,
            Severity.WARNING,
            remedy="Check again when that session is through, or end the transaction that it waits for.",
        )


def _of_slave(
    session: Session,
    replication: Replication,
    slave: SlaveConfig,
    master: Session | None,
    covers: Callable[[TableName], bool],
    *,
    part: bool,
    light: bool,
) -> list[Issue]:
    requirements, numbers = None, []
    if master is not None:
        of_master = master_of(replication.master.vendor).preflight
        requirements = of_master.requirements(master, replication, covers)
        transforms = Transforms(replication, slave)
        numbers = _numbers_of_large_objects(requirements, transforms, master)
        definitions, _ = transforms.definitions(requirements.definitions, master)
        requirements = replace(requirements, definitions=definitions)
    placement = replication.placement(slave)
    preflight = placed(vendor_of(slave.vendor), placement).preflight
    issues = preflight.of_slave(session, replication, slave, requirements, part=part, light=light)
    issues += [issue.softened() for issue in numbers] if light else numbers
    if master is not None:
        issues += _transformations(master, replication, slave, covers)
    if master is not None and not light:
        issues += _same_database(master, session, replication, slave)
        tables = _resolved(master, replication, covers)
        issues += _places_taken(placement, tables)
        issues += _losses(master, session, replication, slave, tables)
    issues += _user_functions(replication, slave)
    return [issue.at(slave_side(slave.name)) for issue in issues]


def _numbers_of_large_objects(requirements: Requirements, transforms: Transforms, master: Session) -> list[Issue]:
    """Columns that would hold the numbers of large objects on the slave, which does not have the objects."""
    columns: list[str] = []
    for definition in requirements.definitions:
        table, names = definition.table, requirements.large_objects.get(definition.table, ())
        if not names:
            continue
        with suppress(TransformationInvalid):  # `_transformations` reports it.
            if (transform := transforms.of(definition.shape, master)) is not None:
                copied = {
                    source for _, source in transform.sources([column.name for column in definition.shape.columns])
                }
                names = [name for name in names if name in copied]
        names = [name for name in names if not allows(transforms.slave.lossy_columns, table, name)]
        columns += [f"{table.schema}.{table.name}.{name}" for name in names]
    if not columns:
        return []
    return [
        Issue(
            "",
            "contents of large objects",
            f"{', '.join(columns)} hold numbers of large objects, whose contents are not replicated",
            None,
            remedy="Keep the contents in columns of the type bytea, or leave the columns out by `columns`. "
            f"To have the numbers alone, {_accepting(transforms.slave, columns)}",
            in_file=True,
        )
    ]


def of_transformations(master: Session, replication: Replication) -> list[Issue]:
    """Transformations of any slave that do not fit the master's tables; asks no slave."""
    return [
        issue.at(slave_side(slave.name))
        for slave in replication.slaves.values()
        for issue in _transformations(master, replication, slave, lambda _: True)
    ]


def _lines_without_tables(master: Session, replication: Replication) -> list[Issue]:
    """Wildcards under `tables` that match no table of the master: a typing error, or tables to be created later."""
    existing = master_of(replication.master.vendor).rows.tables(master)
    wildcards = [rule.pattern for rule in replication.tables if rule.replicate and rule.pattern.wildcard]
    idle = [str(pattern) for pattern in wildcards if not any(pattern.matches(table) for table in existing)]
    remedy = "Correct the line under tables, unless such tables are yet to be made."
    why = "no table there has such a name"
    return [Issue("", f"tables named {name}", why, None, Severity.WARNING, remedy=remedy) for name in idle]


def _resolved(master: Session, replication: Replication, covers: Callable[[TableName], bool]) -> list[TableName]:
    """The replicated tables among those that `covers` chooses."""
    existing = master_of(replication.master.vendor).rows.tables(master)
    try:
        return [each.table for each in replication.resolve(existing) if covers(each.table)]
    except Terminal:
        return []  # `of_master` reports it


def _places_taken(placement: Placement, tables: Sequence[TableName]) -> list[Issue]:
    """Tables that would share a name on the slave."""
    taken = placement.taken(tables)
    why = "; ".join(f"{table} would be {holder}'s table there" for table, holder in taken.items())
    remedy = "Name another target for one of the two."
    return [Issue("", "a separate name for each table", why, None, remedy=remedy)] if taken else []


def _transformations(
    master: Session, replication: Replication, slave: SlaveConfig, covers: Callable[[TableName], bool]
) -> Iterator[Issue]:
    """Transformations of the configuration that do not fit their tables. Reads nothing if there are none."""
    if all(rule.transformation is None for rule in (*slave.tables, *replication.tables)):
        return
    rows, transforms = master_of(replication.master.vendor).rows, Transforms(replication, slave)
    tables = _resolved(master, replication, covers)
    changed = [table for table in tables if replication.transformation(table, slave) is not None]
    for shape in rows.shapes(master, changed).values():
        try:
            transforms.of(shape, master)
        except TransformationInvalid as invalid:
            why = "; ".join(invalid.problems)
            yield Issue("", "a transformation that fits", why, None, remedy=f"Fix {invalid.rule.place}.")


def _losses(
    master: Session, session: Session, replication: Replication, slave: SlaveConfig, tables: Sequence[TableName]
) -> Iterator[Issue]:
    """Columns of tables to be created that a slave of another vendor cannot have, or only with losses."""
    of_master, of_slave = (
        master_of(replication.master.vendor),
        placed(vendor_of(slave.vendor), replication.placement(slave)),
    )
    if slave.vendor == replication.master.vendor:
        return
    on_slave = of_slave.rows.shapes(session, tables)
    on_master = of_master.schemas.tables(master, [table for table in tables if table not in on_slave])
    definitions, _ = Transforms(replication, slave).definitions(on_master, master)
    types = of_master.schemas.types(master, [definition.table for definition in definitions])
    translator = Translator(of_master, of_slave, master, session, types)
    refused: list[str] = []
    lossy: dict[str, str] = {}
    creatable: list[TableDefinition] = []
    for definition in definitions:
        translated = translator.translate(definition.shape)
        refused += [f"{definition.table}.{name} cannot be there: {why}" for name, why in translated.refused.items()]
        lossy |= translated.lossy(slave.lossy_columns)
        if not translated.refused:
            creatable.append(replace(definition, shape=translated.shape))
    if refused:
        remedy = "Take the tables out of `tables`, or leave the columns out by `columns`."
        yield Issue("", "types that it can hold", "; ".join(refused), None, remedy=remedy, in_file=True)
    if faults := _uncreated(of_slave.load_target, session, tables, creatable):
        why = ". ".join(f"{table} {fault}" for table, fault in faults.items())
        remedy = "Tables of other names are made by `target`."
        yield Issue("", "tables that it can create", why, None, remedy=remedy, in_file=True)
    if lossy:
        remedy = f"To have it so, {_accepting(slave, lossy)}"
        why = "; ".join(lossy.values())
        yield Issue("", "types that lose nothing", why, None, remedy=remedy, in_file=True)


def _accepting(slave: SlaveConfig, columns: Iterable[str]) -> str:
    """What to write in the file to accept what these columns lose, in addition to those that it names."""
    named = ", ".join(json.dumps(each, ensure_ascii=False) for each in [*slave.lossy_columns, *columns])
    return f"write for the slave {slave.name}: lossy_columns: [{named}]"


def _uncreated(
    target: LoadTarget, session: Session, tables: Sequence[TableName], definitions: Sequence[TableDefinition]
) -> dict[TableName, str]:
    """Why the server cannot create tables, or cannot use those of these names."""
    faults = {table: f"is {fault} on the slave" for table, fault in target.not_tables(session, tables).items()}
    created = [definition for definition in definitions if definition.table not in faults]
    return faults | {table: f"cannot be made: {why}" for table, why in target.refusals(session, created).items()}


def _same_database(master: Session, session: Session, replication: Replication, slave: SlaveConfig) -> list[Issue]:
    """Whether both connections lead to the same database: a load would empty the master's own tables.

    A server may have many addresses, and its copies have the same identifiers, so both sides try to take the same lock.
    """
    if slave.vendor != replication.master.vendor:
        return []
    sessions, name = vendor_of(slave.vendor).sessions, f"sluice {uuid4()}"
    try:
        with sessions.named_lock(master, name), sessions.named_lock(session, name):
            return []
    except LockNotAvailable:
        why = "its connection leads to the master's own database, whose tables a load would empty"
        remedy = f"Let the connection {slave.conn_id} name another database."
        return [Issue("", "a separate database", why, None, remedy=remedy)]


def _user_functions(replication: Replication, slave: SlaveConfig) -> Iterator[Issue]:
    """Functions of the configuration, but those of transformations, that cannot be imported here."""
    functions = {f"conflict_rules for {pattern}": rule.exit for pattern, rule in slave.conflict_rules}
    functions["verify.accept"] = replication.verify.accept
    for of_what, name in functions.items():
        try:
            if name is not None:
                imported(name)
        except FunctionMissing as missing:
            yield Issue("", f"the function of {of_what}", str(missing), None, remedy="Fix it.")


def of_refusal(side: str, info: ConnectionInfo, error: Terminal) -> Issue:
    """A refused connection as a lack; `error`: the reason."""
    return vendor_of(info.vendor).preflight.of_refusal(info, str(error)).at(side, info.server)


def require_ready(subject: str, issues: Iterable[Issue]) -> None:
    """Logs warnings and notes; raises `NotReady` with all errors. `subject`: names the replication."""
    all_issues = list(issues)
    for issue in all_issues:
        if issue.severity is Severity.WARNING:
            log.warning("%s: %s", subject, issue)
        elif issue.severity is Severity.NOTE:
            log.info("%s: %s", subject, issue)
    if wrong := errors(all_issues):
        raise NotReady(subject, wrong)
