"""Follows changes of definitions on the slave: TRUNCATE, CREATE, ALTER, DROP.

    alterer = Alterer(connection, merger.targets)
    alterer.apply(item)              # CREATE, ALTER, DROP: item.action, .table, .defined, .former
    alterer.truncate(tables)

Everything runs in the caller's transaction. What exists already is left alone, so an item may be applied twice. Columns
are matched by their number in the master's definitions, which a rename keeps, and changed on the slave by name; columns
that only the slave has stay unchanged.

Expressions of the master run on the slave with the rights of Sluice's account there. So none is evaluated for existing
rows unless the slave trusts it (`sluice.vendors.postgres.expressions`): a column is added without its default, its
values arrive as changes, and NOT NULL is set when they have arrived (`complete_columns`).
"""

import contextlib
import logging
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

import psycopg

from sluice import sql_files
from sluice.database.apply import DefinitionChange, DefinitionNotFollowed
from sluice.database.column_types import ColumnTypes
from sluice.database.errors import DatabaseRefused, StatementFailed
from sluice.database.following import defined
from sluice.database.session import Session
from sluice.database.translation import allows
from sluice.errors import RESTART_APPLY, Terminal
from sluice.model.change import Action
from sluice.model.defined import Defined
from sluice.model.logical_type import Fit
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.model.table_definition import EnumType, TableDefinition, key_unknown
from sluice.vendors.postgres import catalog, column_types, errors
from sluice.vendors.postgres.connection import native, quoted
from sluice.vendors.postgres.errors import in_one_line
from sluice.vendors.postgres.expressions import Examiner, ExpressionRefused, hash_key, row_of, type_of
from sluice.vendors.postgres.key_order import value_text
from sluice.vendors.postgres.target import constraints, enums, new_types, tables
from sluice.vendors.postgres.target.alter_plan import (
    altered,
    becoming_not_null,
    column_clause,
    computed_clauses,
    computed_otherwise,
    default_clause,
    defaults,
    emptied_clauses,
    is_retyped,
    key_after,
    not_null_clause,
    old_name,
    plan,
    retyped_clause,
)
from sluice.vendors.postgres.target.not_null import NotNull
from sluice.vendors.postgres.target.slave_tables import SlaveTables
from sluice.vendors.postgres.types import create_schema

log = logging.getLogger("sluice.apply")

_SAVEPOINT, _ATTEMPT = "sluice_alter", "sluice_attempt"
_EXAMINED = "sluice_examined"
_NOT_CONVERTED = re.compile("22...|23514|42846|42804|42883")
"""SQLSTATEs of values that a cast refuses, and of casts that there are not."""
_NULLS_LEFT = re.compile("23502")
"""The SQLSTATE of SET NOT NULL where values that the master gave the rows have not arrived."""


class DefinitionRefused(DefinitionNotFollowed):
    """The slave cannot follow a change of a table's definition."""

    def __init__(self, table: TableName, statement: str, reason: str):
        self.finding = (
            f"{table}: the slave refuses to follow the master's change of its definition: {reason}. The statement was: "
            f"{statement}"
        )
        super().__init__(
            table,
            f"{self.finding}. Remove what is in the way on the slave (a view, a constraint, an extra column) or "
            f"make the change there by hand, then {RESTART_APPLY}.",
        )


class Alterer:
    """Alters tables of one slave over one session, after which `targets` forgets what it knew of them.

    `trusted`: any expression of the master may be run. `of_master`: the master's types; None: the same as the slave's.
    `lossy`: the slave's `lossy_columns`.
    """

    def __init__(
        self,
        connection: Session,
        targets: SlaveTables,
        *,
        trusted: bool = False,
        of_master: ColumnTypes | None = None,
        lossy: Sequence[str] = (),
    ):
        self.connection = connection
        self._of_master = None if of_master is column_types else of_master
        self._lossy = lossy
        self.targets = targets
        self._examiner = Examiner(connection, trusted=trusted)
        self._not_null = NotNull(connection)
        self._postponed: list[tuple[TableDefinition, TableDefinition]] = []
        """Definitions with types that `prepare` could not make, as they consist of one that the item renames."""
        self._aside: list[tuple[TableName, int, str]] = []
        """Indexes and sequences that wait for their names, each with its table, oid and name."""

    def apply(self, item: DefinitionChange, placed: Callable[[], None] = lambda: None) -> None:
        """Makes what the slave does not have of the change. `placed` is not needed in a transaction.

        Raises `DefinitionRefused`, `ExpressionRefused` and errors of the session; the transaction is lost
        then.
        """
        if item.action is Action.CREATE:
            assert item.defined is not None
            self._create(self._translated(item.defined))
        elif item.action is Action.DROP:
            self._drop(item.table)
        elif item.action is Action.ALTER:
            assert item.former is not None and item.defined is not None
            self._alter(self._translated(item.former), self._translated(item.defined))
        else:
            raise ValueError(f"{item.action} is no change of a definition")
        self.targets.forget()

    def attempt(self, item: DefinitionChange) -> str:
        """The same as `apply` for a table that is there, without losing the transaction.

        Returns why nothing was changed, or an empty text.
        """
        if self._shape(item.table) is None:
            return ""
        try:
            with native(self.connection).transaction(_ATTEMPT):
                self.apply(item)
        except Terminal as refused:
            self.targets.forget()
            return str(refused)
        return ""

    def _translated(self, definition: TableDefinition) -> TableDefinition:
        """The master's definition with this server's types. Raises `DefinitionRefused`."""
        # A name that is too long would be cut, and not found again.
        names = (definition.table.schema, definition.table.name)
        if any(len(name.encode()) > tables.LONGEST for name in names):
            raise DefinitionRefused(definition.table, "RENAME", f"a name of a table has at most {tables.LONGEST} bytes")
        if fault := tables.too_long(definition.shape):
            raise DefinitionRefused(definition.table, "ADD COLUMN", fault)
        if self._of_master is None:
            return definition
        columns = []
        for column in definition.shape.replicated:
            made = column_types.column_type(self._of_master.logical(column.type))
            if made.fit is not Fit.EXACT and not allows(self._lossy, definition.table, column.name):
                raise DefinitionRefused(definition.table, f"{column.name} {made.type}", made.lost)
            columns.append(replace(column, type=made.type))
        return replace(definition, shape=replace(definition.shape, columns=tuple(columns)))

    def will_drop(self, item: DefinitionChange) -> Sequence[Defined]:
        """See `sluice.database.apply.Alterer`."""
        return retyped(self.connection, item)

    def prepare(self, items: Sequence[DefinitionChange]) -> None:
        """Makes new types and adds new labels of the items, because a transaction that adds a label may not use it.

        Call it in a transaction before that of the items; a second call does nothing. Raises as `apply`.
        """
        names = enums.Names()
        changes = [item for item in items if item.action in (Action.CREATE, Action.ALTER)]
        for item in changes:
            for enum in (*_enums(item.former), *_enums(item.defined)):
                names.add(enum)
        for item in changes:
            before = enums.numbers_of(_enums(item.former))
            for enum in _enums(item.defined):
                known = [(one, enums.labels(self.connection, one)) for one in names.of_type(enum)]
                existing = next(((one, present) for one, present in known if present is not None), None)
                if existing is None:
                    self._do(item.table, enums.creation(enum))
                else:
                    for statement in enums.additions(*existing, names, before):
                        self._do(item.table, statement)
            if item.defined is not None and self._of_master is None:
                absent = new_types.absent(self.connection, item.defined, changes)
                if self._make_types(item.table, absent):
                    self._postponed.append((item.defined, absent))

    def release(self, table: TableName) -> None:
        """Drops the foreign keys between the table and others, because its rows are no longer replicated."""
        for key in tables.foreign_keys(self.connection, [table]):
            if key.parent != key.child:
                child = quoted(key.child.schema, key.child.name)
                self._do(table, f"ALTER TABLE {child} DROP CONSTRAINT IF EXISTS {quoted(key.name)}")
        self.targets.forget()

    def rename_labels(self, item: DefinitionChange) -> None:
        """Does nothing: `apply` renames labels in the type."""

    def complete_columns(self, changed: Collection[TableName]) -> None:
        """After a window's rows are written: added columns become NOT NULL in the tables `changed` once no row lacks
        its value, and what moved to another schema with its table gets its name again.
        """
        if self._not_null.complete(changed):
            self.targets.forget()
        aside, self._aside = self._aside, []
        for table, moved, called in aside:
            statement = sql_files.render("postgres", "table_names_back")
            for (rename,) in self.connection.execute(statement, {"moved": moved, "name": called}).fetchall():
                self._do(table, rename)

    def truncate(self, tables: Sequence[TableName]) -> None:
        """Empties the tables; by DELETE, children first, where foreign keys or privileges forbid TRUNCATE."""
        order = self.targets.order(dict.fromkeys(tables))
        try:
            self._try(f"TRUNCATE {', '.join(self.targets[table].only for table in order)}")
        except (psycopg.errors.FeatureNotSupported, psycopg.errors.InsufficientPrivilege):
            for table in reversed(order):
                self._do(table, f"DELETE FROM {self.targets[table].only}")

    def delete_where(self, item: DefinitionChange) -> None:
        """Deletes the rows of a dropped partition. Raises as `apply`."""
        condition = self._condition(item)
        if condition is not None:
            self._do(item.table, f"DELETE FROM {self.targets[item.table].only} WHERE {condition}")

    def keys(self, item: DefinitionChange) -> list[tuple[str, ...]]:
        """The key texts of all rows that a TRUNCATE or DELETE WHERE removes."""
        shape = self._shape(item.table)
        texts = ", ".join(value_text(column.type, quoted(column.name)) for column in shape.key) if shape else ""
        condition = self._condition(item)
        if not texts or condition is None:
            return []
        rows = self.connection.execute(
            f"SELECT {texts} FROM {self.targets[item.table].only} WHERE {condition}".encode()
        )
        return [tuple(row) for row in rows]

    def _condition(self, item: DefinitionChange) -> str | None:
        """The condition of the rows to delete; None without the table.

        For hash partitions it uses temporary tables that are partitioned in the same way.
        """
        if self._shape(item.table) is None:
            return None
        if item.action is not Action.DELETE_WHERE:
            return "true"
        assert item.bound is not None
        condition = item.bound.condition
        name = quoted(item.table.schema, item.table.name)
        self._examine_evaluated(
            item.table,
            condition,
            f"DELETE FROM {name} WHERE {condition}",
            [f"LIKE {name}"],
            "boolean",
            by_hand=False,
        )
        for number, key in item.bound.hashes:
            temporary = f"sluice_hash_{number}"
            self._do(item.table, f"DROP TABLE IF EXISTS pg_temp.{temporary}")
            self._do(
                item.table,
                f"CREATE TEMPORARY TABLE {temporary} (LIKE {name}) PARTITION BY {hash_key(key)} ON COMMIT DROP",
            )
            condition = condition.replace(f"'{number}'::oid", f"'pg_temp.{temporary}'::regclass")
        return condition

    def delete(self, table: TableName, keys: Sequence[tuple[str, ...]]) -> int:
        """Deletes the rows with these keys. Returns how many."""
        shape, target = self._shape(table), self.targets[table]
        if shape is None or not shape.key or not keys:
            return 0
        key = [target.column(column.name) for column in shape.key]
        match = " AND ".join(
            f"t.{column.quoted} {column.equals or 'OPERATOR(pg_catalog.=)'} s.c{number}::{column.plain}"
            for number, column in enumerate(key, start=1)
        )
        arrays = ", ".join(f"${number}::text[]" for number in range(1, len(key) + 1))
        names = ", ".join(f"c{number}" for number in range(1, len(key) + 1))
        text = f"DELETE FROM {target.only} t USING unnest({arrays}) AS s ({names}) WHERE {match}"
        parameters = [[texts[number] for texts in keys] for number in range(len(key))]
        return psycopg.RawCursor(native(self.connection)).execute(text, parameters).rowcount

    def _create(self, wanted: TableDefinition) -> None:
        table, shape = wanted.table, wanted.shape
        if self._shape(table) is not None:
            return
        version = native(self.connection).info.server_version
        lines = [column_clause(column, version) for column in shape.columns]
        if shape.key:
            lines.append(f"PRIMARY KEY ({', '.join(quoted(column.name) for column in shape.key)})")
        self._create_schema(table, table.schema)
        statement = f"CREATE TABLE {quoted(table.schema, table.name)} ({', '.join(lines)})"
        self._examine_columns(wanted, shape.columns, statement)
        self._follow_composites(wanted, wanted)
        self._do(table, statement)
        self._set_defaults(TableDefinition(TableShape(table, ())), wanted, TableShape(table, ()))

    def _drop(self, table: TableName) -> None:
        if self._shape(table) is None:
            return
        self.release(table)
        self._keep_sequences(table, None)
        self._do(table, f"DROP TABLE {quoted(table.schema, table.name)}")

    def _alter(self, old: TableDefinition, new: TableDefinition) -> None:
        if old.table != new.table:
            self._rename(old.table, new.table)
        self._follow_enums(old, new)
        self._follow_composites(old, new)
        have = self._shape(new.table)
        if have is None:
            self._create(new)
            return
        version = native(self.connection).info.server_version
        name = quoted(new.table.schema, new.table.name)
        key = [column.name for column in new.shape.key]
        key_changes = [column.name for column in old.shape.key] != [old_name(old, column) for column in new.shape.key]
        # Only a primary key counts: the master may have dropped a unique index that the slave still has.
        primary = catalog.primary_key(self.connection, new.table)
        key_changes = key_changes and key_after(old, new, primary[1] if primary else ()) != key
        if key_changes and key_unknown(old, new):
            self.truncate([new.table])
        if key_changes:
            self._drop_key(new.table, old)
        unconverted = self._examine_changes(old, new, have)
        kept = {column.position for column in new.shape.columns}
        if gone := [column.name for column in old.shape.columns if column.position not in kept]:
            self._keep_sequences(new.table, gone)
        retyped = {retyped_clause(column): column for column in new.shape.replicated if not column.key}
        not_null = {not_null_clause(column): column for column in new.shape.columns}
        for clause in plan(old, new, have, version):
            column = retyped.get(clause)
            if column is not None and column not in unconverted and self._succeeds(new.table, clause, _NOT_CONVERTED):
                continue
            if column is None:
                required = not_null.get(clause)
                if required is None:
                    self._do(new.table, f"ALTER TABLE {name} {clause}")
                elif required not in unconverted and not self._succeeds(new.table, clause, _NULLS_LEFT):
                    self._do(new.table, f"ALTER TABLE {name} {becoming_not_null(required)}")
                continue
            unconverted.append(column)
            for instead in emptied_clauses(column):
                self._do(new.table, f"ALTER TABLE {name} {instead}")
        self._not_null.altered(new.table)
        self._set_defaults(old, new, have)
        if key_changes and key:
            self._do(new.table, f"ALTER TABLE {name} ADD PRIMARY KEY ({', '.join(map(quoted, key))})")

    def _keep_sequences(self, table: TableName, columns: Sequence[str] | None) -> None:
        """Gives sequences that these columns (None: all of the table) own, and that defaults of others use, to one of
        those: the master has done so, or it could not drop the columns either."""
        statement = sql_files.render("postgres", "table_sequences_used")
        parameters = {"table": quoted(table.schema, table.name), "columns": columns}
        for (change,) in self.connection.execute(statement, parameters).fetchall():
            self._do(table, change)

    def _succeeds(self, table: TableName, clause: str, unless: re.Pattern[str]) -> bool:
        """Executes a clause. False if it fails with an SQLSTATE of `unless`. Raises `DefinitionRefused`."""
        statement = f"ALTER TABLE {quoted(table.schema, table.name)} {clause}"
        try:
            self._try(statement)
        except psycopg.Error as error:
            if unless.fullmatch(error.sqlstate or ""):
                return False
            raise self._refused(table, statement, error) from error
        return True

    def _follow_enums(self, old: TableDefinition, new: TableDefinition) -> None:
        """Renames types and labels; `prepare` has made new ones, unless another type had the name."""
        for enum in new.enums:
            present, moved = enums.labels(self.connection, enum), enums.moves(old, enum)
            if moved is not None and (was := enums.labels(self.connection, moved[0])) is not None:
                if present is not None:  # another type had the name; the master took that one away, too
                    self._do(new.table, f"DROP TYPE {quoted(enum.schema, enum.name)}")
                present = was
                self._create_schema(new.table, enum.schema)
                for statement in moved[1]:
                    self._do(new.table, statement)
            elif present is None:  # until now another type had the name
                self._create_schema(new.table, enum.schema)
                self._do(new.table, enums.creation(enum))
            try:
                renamed = enums.renames(old, enum, present or ())
            except enums.LabelsAmbiguous as both:
                raise DefinitionRefused(new.table, both.statement, str(both)) from both
            for statement in renamed:
                self._do(new.table, statement)

    def _follow_composites(self, old: TableDefinition, new: TableDefinition) -> None:
        if self._of_master is None:
            schemas = {composite.schema for composite in new.composites}
            for schema in schemas.union(*((one.schema, one.multirange_schema) for one in new.ranges)):
                self._create_schema(new.table, schema)
            new_types.follow_names(self.connection, old, new, partial(self._do, new.table))
            for absent in (absent for definition, absent in self._postponed if definition == new):
                if missing := self._make_types(new.table, absent):
                    raise self._refused(new.table, "CREATE TYPE", missing)
            try:
                new_types.follow_attributes(self.connection, old, new, partial(self._do, new.table))
            except new_types.AttributesDiffer as differ:
                raise DefinitionRefused(new.table, "ALTER TYPE", str(differ)) from differ

    def _make_types(self, table: TableName, definition: TableDefinition) -> psycopg.Error | None:
        """See `new_types.make`. Raises `DefinitionRefused`."""
        try:
            return new_types.make(self.connection, definition)
        except psycopg.Error as error:
            raise self._refused(table, "CREATE TYPE", error) from error

    def _set_defaults(self, old: TableDefinition, new: TableDefinition, have: TableShape) -> None:
        name = quoted(new.table.schema, new.table.name)
        for column in defaults(old, new, have):
            statement = f"ALTER TABLE {name} {default_clause(column)}"
            try:
                reason = self._examiner.default(str(column.default), column)
                if not reason:
                    self._try(statement)
            except psycopg.ProgrammingError as error:
                # A function or sequence that only the master has. Replicated values do not need the default.
                reason = in_one_line(error)
            if reason:
                # Neither the former default stays, nor the value with which the column was added for older rows.
                with contextlib.suppress(psycopg.ProgrammingError):
                    self._try(f"ALTER TABLE {name} ALTER COLUMN {quoted(column.name)} DROP DEFAULT")
                log.warning(
                    "%s.%s: default left out on the slave: %s. The statement was: %s",
                    new.table,
                    column.name,
                    reason,
                    statement,
                )

    def _examine_changes(self, old: TableDefinition, new: TableDefinition, have: TableShape) -> list[Column]:
        """Raises `ExpressionRefused` where `plan` would evaluate expressions that the slave does not trust.

        Returns the columns with a new type to which the slave cannot convert their values, or must not.
        """
        unconverted: list[Column] = []
        computed = computed_otherwise(old, new)
        before = {column.position: column for column in old.shape.columns}
        present = {column.name: column for column in have.columns}
        name = quoted(new.table.schema, new.table.name)
        version = native(self.connection).info.server_version
        for column in new.shape.columns:
            previous = before.get(column.position)
            own = (present.get(previous.name) if previous else None) or present.get(column.name)
            if own is None:
                statement = f"ALTER TABLE {name} ADD COLUMN {column_clause(column, version)}"
                self._examine_columns(new, [column], statement)
            elif previous is not None:
                clauses = altered(previous, column, own)
                statement = f"ALTER TABLE {name} {', '.join(clauses)}"
                if is_retyped(previous, column, own):
                    self._examine_columns(new, [column], statement)
                    if not column.generated:
                        cast = f"{quoted(own.name)}::{column.type}"
                        try:
                            with native(self.connection).transaction(_EXAMINED):
                                self._examine_evaluated(
                                    new.table, cast, statement, row_of(have.columns), type_of(column)
                                )
                        except (DefinitionRefused, ExpressionRefused):
                            if column.key:
                                raise
                            unconverted.append(column)
                elif column in computed and (
                    # Not done yet by a person; of other columns, the same text may call other functions.
                    previous.default == column.default or self._expression(new.table, column) != column.default
                ):
                    changed = ", ".join(computed_clauses(column, version))
                    self._examine_columns(new, [column], f"ALTER TABLE {name} {changed}")
        return unconverted

    def _examine_columns(self, wanted: TableDefinition, made: Sequence[Column], statement: str) -> None:
        """Examines the checks of the types of columns `made` for `wanted`, and the expressions of generated ones."""
        try:
            reason = self._examiner.types([column.type for column in made])
        except psycopg.Error as error:
            raise self._refused(wanted.table, statement, error) from error
        if reason:
            raise ExpressionRefused(wanted.table, statement, reason)
        row = row_of(column for column in wanted.shape.columns if not column.generated)
        for column in made:
            if column.generated:
                self._examine_evaluated(wanted.table, str(column.default), statement, row, type_of(column))

    def _examine_evaluated(
        self,
        table: TableName,
        expression: str,
        statement: str,
        row: Sequence[str],
        type_: str,
        *,
        by_hand: bool = True,
    ) -> None:
        try:
            reason = self._examiner.evaluated(expression, row, table.name, type_=type_)
        except psycopg.Error as error:
            raise self._refused(table, statement, error) from error
        if reason:
            raise ExpressionRefused(table, statement, reason, by_hand=by_hand)

    def _expression(self, table: TableName, column: Column) -> str | None:
        """The slave's expression of a generated column."""
        rows = self.connection.execute(sql_files.render("postgres", "table_generated"), catalog.pairs([table]))
        return next((text for _, _, name, text in rows if name == column.name), None)

    def _rename(self, old: TableName, new: TableName) -> None:
        if self._shape(old) is None:
            return
        name = old
        if old.name != new.name and old.schema != new.schema:
            # The new name may be another table's in its former schema, as the former one in its new schema.
            name = TableName(old.schema, "sluice_moved")
            self._do(old, f"ALTER TABLE {quoted(old.schema, old.name)} RENAME TO {quoted(name.name)}")
        if old.schema != new.schema:
            self._create_schema(old, new.schema)
            of_table = {"table": quoted(name.schema, name.name), "schema": new.schema}
            for rename, moved, called in self.connection.execute(
                sql_files.render("postgres", "table_names_aside"), of_table
            ).fetchall():
                self._do(old, rename)
                self._aside.append((new, moved, called))
            self._do(old, f"ALTER TABLE {of_table['table']} SET SCHEMA {quoted(new.schema)}")
            name = TableName(new.schema, name.name)
        if name.name != new.name:
            self._do(old, f"ALTER TABLE {quoted(name.schema, name.name)} RENAME TO {quoted(new.name)}")

    def _drop_key(self, table: TableName, old: TableDefinition) -> None:
        """Drops the slave's primary key if it is the master's former one."""
        row = catalog.primary_key(self.connection, table)
        if row is not None and set(row[1]) == {column.name for column in old.shape.key}:
            self._do(table, f"ALTER TABLE {quoted(table.schema, table.name)} DROP CONSTRAINT {quoted(row[0])}")

    def _shape(self, table: TableName) -> TableShape | None:
        return catalog.shape(self.connection, table)

    def _create_schema(self, table: TableName, schema: str) -> None:
        try:
            create_schema(self.connection, schema)
        except psycopg.Error as error:
            raise self._refused(table, f"CREATE SCHEMA {quoted(schema)}", error) from error

    def _do(self, table: TableName, statement: str) -> None:
        try:
            self.connection.execute(statement.encode())
        except psycopg.Error as error:
            raise self._refused(table, statement, error) from error

    def _try(self, statement: str) -> None:
        """Runs a statement in a savepoint: a failure leaves the transaction usable."""
        with native(self.connection).transaction(_SAVEPOINT):
            self.connection.execute(statement.encode())

    def _refused(self, table: TableName, statement: str, error: psycopg.Error) -> Exception:
        if not isinstance(error, StatementFailed | DatabaseRefused):
            return error
        return DefinitionRefused(table, statement, errors.reason(error, hidden=self._hides(table, error)))

    def _hides(self, table: TableName, error: psycopg.Error) -> bool:
        """Whether the error may quote a masked column."""
        return errors.of_rows(error) and self.targets.hides(table)


def _enums(definition: TableDefinition | None) -> tuple[EnumType, ...]:
    return () if definition is None else definition.enums


# The foreign keys of a PostgreSQL slave that are in the way where columns get another type.
#
# The master may have dropped a key, changed both of its sides one after the other, and made it again under the same
# name.


def retyped(connection: Session, item: DefinitionChange) -> list[Defined]:
    """The foreign keys from or to columns that `item` gives another type."""
    if item.action is not Action.ALTER or item.former is None or item.defined is None:
        return []
    table, before = item.former.table, {column.position: column for column in item.former.shape.columns}
    changed = {
        before[column.position].name
        for column in item.defined.shape.columns
        if column.position in before and before[column.position].type != column.type
    }
    if not changed:
        return []
    children = sorted({key.child for key in tables.foreign_keys(connection, [table])})
    return [
        defined(key)
        for key in constraints.constraints(connection, children)
        if (key.table == table and changed.intersection(key.columns or ()) and key.kind == "f")
        or (key.parent == table and changed.intersection(key.parent_columns or ()))
    ]
