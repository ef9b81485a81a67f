"""What a failover needs from a PostgreSQL database (`sluice.database.failover.FailoverSupport`): definitions,
sequences, changed rows, and its record on the slave."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import psycopg

from sluice import sql_files
from sluice.control.checkpoint import CheckpointStore
from sluice.database.digests import Compared, Method, Texts
from sluice.database.failover import ChangedRows, FailoverTable
from sluice.database.session import Rows, Session
from sluice.model import content
from sluice.model.failover import Action, Made, Phase, Record, SequenceValue, Sheet, Switch, switches_of
from sluice.model.guid import key_values
from sluice.model.issue import Issue, Severity
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position, Window
from sluice.model.schema_definitions import Definition, Difference
from sluice.model.shape import TableShape
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres import catalog, digest, own_schema, privileges, sequences, sessions
from sluice.vendors.postgres.connection import application_name, literal, native, quoted
from sluice.vendors.postgres.digest import Digest
from sluice.vendors.postgres.errors import in_one_line
from sluice.vendors.postgres.expressions import Examiner
from sluice.vendors.postgres.issues import issue
from sluice.vendors.postgres.own_schema import OwnSchema
from sluice.vendors.postgres.privileges import Account
from sluice.vendors.postgres.sessions import be_durable, limit_lock_waits
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from sluice.vendors.postgres.source.window_condition import Condition
from sluice.vendors.postgres.source.write_guard import Guard as Guard
from sluice.vendors.postgres.target import constraints

PAST_TRIGGERS = "as a session with session_replication_role = replica does"
_LEFT_OUT = ("42", "23", "0A", "22", "2B", "3F")
"""Errors that a person can correct or ignore: a missing object, a name that is taken, a missing privilege."""
_NOT_GRANTED = "01007"
"""A GRANT without the right to grant: for PostgreSQL a warning, not an error."""
LOCK_SECONDS = 10.0
"""How long a statement that completes the slave may wait for a lock."""
_OF_ROWS = ("INSERT", "UPDATE", "DELETE")
_WHOLE_NUMBERS = ("smallint", "integer", "bigint", "numeric")


class FailoverStore:
    """The row of `<prefix>FAILOVER` of one slave. The caller commits; psycopg's errors rise as they are."""

    def __init__(self, connection: Session, prefix: Prefix, schema: str, slave: str):
        self.connection = connection
        self.slave = slave
        self._names = {"prefix": prefix.lower, "schema": quoted(schema)}
        self._own = OwnSchema.of_slave(prefix, schema, slave)

    def exists(self) -> bool:
        """Whether the slave has a record. Raises `NotOwned`."""
        return own_schema.has(self.connection, self._own.table("failover"))

    def ensure(self) -> None:
        """Makes the table if it is absent. Raises `SchemaUnsafe`, `NotOwned`."""
        if not self._current():
            with self.connection.transaction():
                sessions.lock_transaction(self.connection, "slave resources")
                own_schema.secure(self.connection, self._own)
                self.connection.execute(sql_files.render("postgres", "slave_resources_failover", **self._names))

    def _current(self) -> bool:
        """Whether the table is there, with the columns of this release."""
        row = self.connection.execute(
            "SELECT FROM pg_catalog.pg_attribute WHERE attrelid = to_regclass(%s) AND attname = 'compared'",
            [self._own.table("failover")],
        ).fetchone()
        return self.exists() and row is not None

    def keep(self, sheet: Sheet) -> None:
        """Keeps the master's definitions, and how it became the master."""
        self._execute("failover_keep", sheet=sheet.text(), time=sheet.time, switches=_as_json(sheet.switches))

    def sheet(self) -> Sheet | None:
        """The stored definitions of the master; None without any."""
        if not self.exists():
            return None
        name = self._own.table("failover")
        row = self.connection.execute(
            f"SELECT sheet FROM {name} WHERE slave = %(slave)s".encode(), {"slave": self.slave}
        ).fetchone()
        return Sheet.parse(row[0]) if row and row[0] else None

    def read(self, *, lock: bool = False) -> Record | None:
        """The failover under way, or the last one; None if there never was one."""
        if not lock and not self.exists():
            return None
        row = self._execute("failover_read", {"lock": "FOR UPDATE" if lock else ""}).fetchone()
        if row is None or row[0] is None:
            return None
        made = tuple(Made(one["what"], tuple(one["undo"])) for one in row[9])
        failover_id, action, phase, reverse, by, begun_at, last, start, verified, _, guarded_at, compared = row
        return Record(
            failover_id, Action(action), Phase(phase), reverse, by, begun_at, last, start, verified, made, guarded_at,
            compared,
        )  # fmt: skip

    def begin(self, failover_id: str, action: Action, reverse: bool, by: str) -> None:
        self._execute("failover_begin", id=failover_id, action=str(action), reverse=reverse, by=by)

    def learn(self, switches: Sequence[Switch]) -> None:
        """Adds changes of the master that another database knows of."""
        self._execute("failover_keep", sheet=None, time=None, switches=_as_json(switches))

    def switches(self) -> tuple[Switch, ...]:
        """All changes of the master that this database knows of, oldest first."""
        if not self.exists():
            return ()
        return switches_of(*(row[0] for row in self._execute("failover_switches")))

    def move(
        self,
        phase: Phase,
        *,
        last: str | None = None,
        start: str | None = None,
        verified: str | None = None,
        compared: str | None = None,
        switch: Switch | None = None,
    ) -> None:
        """The failover has come to `phase`. Call it with the row's lock."""
        values: dict[str, Any] = {"last": last, "start": start, "verified": verified, "compared": compared}
        self._execute("failover_move", phase=str(phase), switch=_as_json([switch]) if switch else None, **values)

    def note_made(self, made: Made | None) -> None:
        """Records a change in the transaction that makes it; None: the last one was undone."""
        text = json.dumps({"what": made.what, "undo": made.undo}, ensure_ascii=False) if made else None
        self._execute("failover_made", made=text)

    def _execute(self, name: str, placeholders: dict[str, str] | None = None, **values: object) -> Rows:
        statement = sql_files.render("postgres", name, **self._names, **(placeholders or {}))
        return self.connection.execute(statement, {"slave": self.slave, **values})


def _as_json(switches: Sequence[Switch]) -> str:
    return json.dumps([one.to_dict() for one in switches], ensure_ascii=False)


def definitions(
    connection: Session, prefix: Prefix, tables: Sequence[TableName], *, all_roles: bool = False
) -> tuple[Definition, ...]:
    """The definitions of `tables` and their database other than rows. Raises psycopg's errors."""
    rows = connection.execute(
        sql_files.render("postgres", "failover_definitions", prefix=prefix.lower),
        {**catalog.pairs(tables), "all_roles": all_roles},
    ).fetchall()
    # An index and a check may have one name.
    evaluated: dict[tuple[str, str, str], tuple[str, ...]] = {}
    for index in constraints.indexes(connection, tables):
        evaluated[index.table.schema, index.table.name, index.name] = tuple(index.expressions)
    for one in constraints.constraints(connection, tables):
        names = one.table.schema, one.table.name, one.name
        evaluated[names] = (*evaluated.get(names, ()), *one.expressions)
    return tuple(
        Definition(
            kind, schema, name, thing, text, tuple(make), tuple(remove), evaluated.get((schema, name, thing), ())
        )
        for kind, schema, name, thing, text, make, remove in rows
    )


def sequence_values(connection: Session, prefix: Prefix, tables: Sequence[TableName]) -> tuple[SequenceValue, ...]:
    """The values of sequences of columns of `tables`, and of those that applications call. Raises psycopg's errors."""
    behind = [
        SequenceValue(one.table, one.column, one.schema, one.name, one.increment, one.minimum, one.maximum, one.last)
        for one in sequences.read(connection, tables)
    ]
    called = [
        SequenceValue(None, "", one.name.schema, one.name.name, one.increment, one.minimum, one.maximum, one.last)
        for one in sequences.free(connection, prefix, {table.schema for table in tables})
    ]
    return tuple(behind + called)


def server_time(connection: Session) -> str:
    """The server's clock, ISO 8601, UTC."""
    row = connection.execute(
        """SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
    ).fetchone()
    assert row is not None
    return str(row[0])


def sheet(connection: Session, prefix: Prefix, schema: str, server: str, tables: Sequence[TableName]) -> Sheet:
    """Everything that a failover needs from a master. `schema`: of the resources. Raises psycopg's errors."""
    replicated = set(tables)
    others = [
        table
        for table in catalog.tables(connection)
        if table not in replicated and not table.name.startswith(prefix.lower)
    ]
    return Sheet(
        server,
        server_time(connection),
        definitions(connection, prefix, tables),
        sequence_values(connection, prefix, tables),
        tuple(others),
        tuple(tables),
        FailoverStore(connection, prefix, schema, "").switches(),
    )


def sessions_of(connection: Session, application: str) -> int:
    """How many other sessions of this account call themselves so in the database."""
    row = connection.execute(
        "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid() "
        "AND datname = current_database()",
        [application_name(application)],
    ).fetchone()
    return int(row[0]) if row else 0


def make(connection: Session, store: FailoverTable, difference: Difference, *, trusted: bool = False) -> str:
    """Creates a definition on the slave, and records what undoes it, in one transaction; returns why that was refused.

    `trusted`: with any expressions that are evaluated for existing rows. Raises psycopg's errors for what a retry may
    resolve, mostly locks.
    """
    ungranted: list[str] = []

    def listen(notice: psycopg.errors.Diagnostic) -> None:
        if notice.sqlstate == _NOT_GRANTED:
            ungranted.append(str(notice.message_primary))

    native(connection).add_notice_handler(listen)
    try:
        with connection.transaction():
            if reason := _untrusted(Examiner(connection, trusted=trusted), difference.wanted):
                return reason
            settings = (
                f"SET LOCAL lock_timeout = '{int(LOCK_SECONDS * 1000)}ms'",
                "SET LOCAL client_min_messages = warning",
            )
            statements = [*settings, *difference.statements]
            if difference.kind == "schema owner":
                # What is in it is still to be made.
                schema, role = quoted(difference.definition.schema), privileges.role(connection)
                statements.append(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
            # At once: the application waits for a hundred of these.
            connection.execute(";\n".join(statements).encode())
            if ungranted:
                raise psycopg.Rollback
            store.note_made(Made(str(difference), difference.undo))
    except psycopg.Error as error:
        if not (error.sqlstate or "").startswith(_LEFT_OUT):
            raise
        return in_one_line(error)
    finally:
        native(connection).remove_notice_handler(listen)
    return "; ".join(ungranted)


def missing_rights(connection: Session, differences: Sequence[Difference]) -> list[Issue]:
    """The missing rights for creating some of `differences`. Raises psycopg's errors."""
    automatic = [one for one in differences if one.automatic]
    owners = [(_owner(one), one.definition.schema) for one in automatic if one.kind == "owner"]
    owners += [(one.definition.name, "") for one in automatic if one.kind == "default privilege"]
    spaces = [one.definition for one in automatic if one.kind == "schema owner"]
    settings = {_of_role(one) for one in automatic if one.kind == "setting"}
    rows = connection.execute(
        sql_files.render("postgres", "failover_rights"),
        {
            "granted": [one.definition.schema for one in automatic if _on_schema(one)],
            "owners": [owner for owner, _ in owners],
            "spaces": [schema for _, schema in owners],
            "given": [one.schema for one in spaces],
            "givers": [one.text for one in spaces],
            "database": False in settings,
            "roles": True in settings,
        },
    ).fetchall()
    account = privileges.account(connection)
    return [_right(kind, name, schema, account, automatic) for kind, name, schema in rows]


def _right(kind: str, name: str, schema: str, account: Account, automatic: Sequence[Difference]) -> Issue:
    role, made = account.role, list[Difference]()
    if kind == "member":
        what, statements = f"membership in the role {name}", [f"GRANT {name} TO {role}"]
        why = f"what belongs to {name} stays with {role}"
    elif kind == "create":
        space = quoted(schema)
        what, statements = f"CREATE on the schema {space} for {name}", [f"GRANT CREATE ON SCHEMA {space} TO {name}"]
        why = f"nothing in it can be given to {name}"
    elif kind == "schemas":
        what = f"CREATE on the database {account.database}"
        statements = [f"GRANT CREATE ON DATABASE {account.database} TO {role}"]
        why = "no schema can be given to its owner"
    else:
        if kind == "superuser":
            what, why = f"the rights of {name}, a superuser", f"what belongs to {name} stays with {role}"
            made = [one for one in automatic if one.kind in ("owner", "schema owner") and _owner(one) == schema]
        elif kind == "schema":
            what, why = f"the ownership of the schema {name}", "only its owner gives it to another one"
            made = [one for one in automatic if one.kind == "schema owner" and one.definition.schema == schema]
        elif kind == "grant":
            what, why = f"the right to grant on the schema {name}", "others' privileges on it are not made"
            made = [one for one in automatic if _on_schema(one) and one.definition.schema == schema]
        else:
            of_roles = kind == "roles"
            what = "CREATEROLE" if of_roles else "the ownership of the database"
            why = f"settings of {'roles in this database' if of_roles else 'it'} are not made"
            made = [one for one in automatic if one.kind == "setting" and _of_role(one) == of_roles]
        statements = [statement.strip(" ;") for one in made for statement in one.statements]
    return issue(what, f"a failover cannot make all as on the master: {why}", ";\n".join(statements), Severity.WARNING)


def _owner(difference: Difference) -> str:
    """The owner on the master; further lines tell of partitions, see failover_definitions."""
    return difference.definition.text.partition("\n")[0]


def _on_schema(difference: Difference) -> bool:
    return difference.kind == "privilege" and not difference.definition.name


def _of_role(difference: Difference) -> bool:
    return " of role " in difference.definition.object


def _untrusted(examiner: Examiner, definition: Definition | None) -> str:
    """Why a definition of the master must not be created here automatically; empty if it may be."""
    if definition is None or examiner.trusted:
        return ""
    if definition.expressions is None:
        evaluated = definition.kind in ("index", "check", "unique constraint", "exclusion constraint")
        return "an earlier release kept it, and what it calls is not known" if evaluated else ""
    return constraints.untrusted(examiner, TableName(definition.schema, definition.name), definition.expressions)


def undo(connection: Session, store: FailoverTable, made: Made) -> None:
    """Undoes the last recorded change, in one transaction. Raises psycopg's errors."""
    with connection.transaction():
        limit_lock_waits(connection, LOCK_SECONDS)
        for statement in made.undo:
            connection.execute(statement.encode())
        store.note_made(None)


def set_sequence(connection: Session, master: SequenceValue, gap: int, *, search: bool = True) -> int | None:
    """Sets the slave's sequence beyond all that is known to be used, never back; the value, None if nothing was ever
    drawn. `search`: looks for the farthest value in the column. Raises `LookupError` if the slave has no such
    sequence, psycopg's errors."""
    own, used = (master.schema, master.name), None
    if master.table is not None:
        behind = {one.column: one for one in sequences.read(connection, [master.table])}
        if master.column not in behind:
            raise LookupError(str(master))
        own = behind[master.column].schema, behind[master.column].name
        used = _used(connection, master) if search else None
    name = quoted(*own)
    if not catalog.exists(connection, name):
        raise LookupError(str(master))
    value = master.beyond(used, gap)
    if value is None:
        return None
    row = connection.execute(f"SELECT last_value FROM {name} WHERE is_called".encode()).fetchone()
    ahead = row is not None and (row[0] >= value if master.increment > 0 else row[0] <= value)
    if not ahead:
        connection.execute(f"SELECT setval({literal(name)}::regclass, {value})".encode())
    return value


def _used(connection: Session, master: SequenceValue) -> int | None:
    """The farthest value in the column, in the direction of the sequence."""
    assert master.table is not None
    shape = catalog.shape(connection, master.table)
    if shape is None or not shape.column(master.column).type.startswith(_WHOLE_NUMBERS):
        return None
    farthest = "max" if master.increment > 0 else "min"
    row = connection.execute(
        f"SELECT trunc({farthest}({quoted(master.column)})) "
        f"FROM {quoted(master.table.schema, master.table.name)}".encode()
    ).fetchone()
    return int(row[0]) if row and row[0] is not None else None


def changed_since(connection: Session, prefix: Prefix, schema: str, last: Position, now: Position) -> bool:
    """Whether ITEMS has any change that was committed after `last`, up to `now`."""
    window = Condition.of(Window(last, now)).sql
    names = {"prefix": prefix.lower, "schema": quoted(schema)}
    statement = sql_files.render("postgres", "queue_items", window=window, old="false", largest="0", **names)
    return connection.execute(f"SELECT FROM ({statement}) AS s LIMIT 1".encode()).fetchone() is not None


def follow(connection: Session, prefix: Prefix, schema: str, slave: str, start: Position) -> None:
    """Makes the database a slave in state NORMAL at `start`; creates its CHECKPOINT and other tables if they are
    missing."""
    store = CheckpointStore(connection, prefix, schema, slave)
    with connection.transaction():
        be_durable(connection)
        store.ensure()
        record = store.read(lock=True)
        if record is not None and record.state is SlaveState.NORMAL and _follows(record.position, start):
            return
        connection.execute(
            sql_files.render("postgres", "checkpoint_follow", prefix=prefix.lower, schema=quoted(schema)),
            {"slave": slave, "position": start.text(), "time": start.time or None},
        )


def _follows(position: Position | None, start: Position) -> bool:
    """Whether a slave at `position` has begun to follow from `start` on."""
    if position is None:
        return False
    reached, begun = SnapshotPosition.of(position), SnapshotPosition.of(start)
    if reached.origin is None or begun.origin is None:
        return False
    return reached.origin.system == begun.origin.system and position.covers_all_of(start)


def validate_constraints(connection: Session, tables: Sequence[TableName]) -> list[str]:
    """Validates constraints that were created without checking rows, while the application works. Returns those that
    rows violate, and how."""
    violated = []
    for one in constraints.constraints(connection, list(tables)):
        if not one.validated:
            table = quoted(one.table.schema, one.table.name)
            try:
                connection.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {quoted(one.name)}".encode())
            except psycopg.errors.IntegrityError as error:
                violated.append(f"{one.name} of {one.table}: {in_one_line(error)}")
    return violated


# Compared within a failover: the rows of a window of ITEMS by their keys, and digests of rows by keys.


def changed_rows(
    connection: Session, prefix: Prefix, schema: str, window: Window, shapes: Iterable[TableShape], most: int
) -> tuple[dict[TableName, ChangedRows], int]:
    """See `sluice.database.failover.FailoverSupport`. Only keys leave the server, and the images of rows that got
    another key. Raises psycopg's errors."""
    names = {"prefix": prefix.lower, "schema": quoted(schema)}
    statement = sql_files.render(
        "postgres", "failover_changed", window=Condition.of(window).sql, most=str(int(most)), **names
    )
    keys = {shape.table: [column.name for column in shape.key] for shape in shapes}
    found: dict[TableName, ChangedRows] = {}
    rows = connection.execute(statement.encode()).fetchall()
    for _, table_schema, name, guid, action, after, before in rows:
        table = TableName(table_schema, name)
        if table not in keys:
            continue
        of_table, key = found.setdefault(table, ChangedRows()), keys[table]
        if action not in _OF_ROWS:
            of_table.others.add(action)
        elif after is not None:
            new = dict(content.parse(after))
            for row in (new, new | dict(content.parse(before or ""))):
                of_table.keys.add(tuple(row[column] for column in key))
        elif key:
            of_table.keys.add(tuple(key_values(guid, len(key))))
        else:
            of_table.keys.add(())
    return found, rows[0][0] if rows else 0


def row_digests(
    connection: Session, shape: TableShape, columns: tuple[Compared, ...], keys: Sequence[Texts]
) -> list[int | None]:
    """See `sluice.database.failover.FailoverSupport`. Raises psycopg's errors."""
    key = tuple(column.name for column in shape.key)
    return digest.digests_of_keys(connection, Digest(shape, columns, key, Method.MD5), keys)
