"""Turns one change of a row into statements, in normal and in safe mode.

| change | normal mode, each must touch one row | safe mode |
|---|---|---|
| INSERT | insert | displace, update by key, insert if absent |
| UPDATE, key kept | update by key | displace, update by key, insert if absent |
| UPDATE, key changed | update by old key, key included | displace, rename, update by new key, insert if absent |
| DELETE | delete by key | delete by key |
| partial UPDATE: some columns are not known | as above | rename, update by new key; a missing row is reported |

*Displace* deletes other rows that have a unique value which the new row needs, and returns their keys: most were
changed later on the master, and that change inserts them again; the caller of a replay restores the others. Unique
values that the commit checks displace no rows, unless that check has failed. *Rename* gives the row at the old key the
new one; where another row has that, the row at the old key is obsolete and is deleted.

A row that the master has is never deleted and inserted again while foreign keys or triggers act on the delete: a change
that would need that is refused with the reason.

A keyless row is named by all its columns, and one copy is meant. In safe mode an UPDATE changes a copy where there is
one, and inserts otherwise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from sluice import sql_files
from sluice.database.session import Session
from sluice.model.change import Action, RowChange
from sluice.model.names import TableName
from sluice.vendors.postgres.connection import native, quoted
from sluice.vendors.postgres.target import merge_statements
from sluice.vendors.postgres.target.slave_tables import SlaveColumn, SlaveTable


@dataclass(frozen=True)
class Unique:
    """A unique index or exclusion constraint."""

    expressions: tuple[str, ...]
    """Columns or expressions over unqualified column names."""
    operators: tuple[str, ...]
    """`OPERATOR(schema.=)` of each."""
    predicate: str | None
    nulls_equal: bool
    columns: tuple[str, ...] | None
    """The columns, if it has no expressions."""
    deferrable: bool
    """Whether the commit checks it, if the session defers constraints."""

    def is_key(self, key: Sequence[str]) -> bool:
        return self.columns is not None and self.predicate is None and set(self.columns) == set(key)

    @property
    def named(self) -> str:
        return ", ".join(f"{expression} AS e{number}" for number, expression in enumerate(self.expressions, start=1))

    @property
    def equal(self) -> str:
        """The condition that the rows `o` and `n` cannot both be in the table."""
        terms = []
        for number, operator in enumerate(self.operators, start=1):
            term = f"o.e{number} {operator} n.e{number}"
            terms.append(f"({term} OR o.e{number} IS NULL AND n.e{number} IS NULL)" if self.nulls_equal else term)
        return " AND ".join(terms)


def unique_keys(connection: Session, table: TableName) -> list[Unique]:
    """All unique indexes and exclusion constraints of `table`, oldest first."""
    rows = psycopg.RawCursor(native(connection)).execute(
        sql_files.render("postgres", "unique_keys"), [table.schema, table.name]
    )
    return [
        Unique(
            tuple(expressions),
            tuple(operators),
            predicate,
            nulls_equal,
            tuple(columns) if columns else None,
            deferrable,
        )
        for expressions, operators, predicate, nulls_equal, columns, deferrable in rows
    ]


Row = Mapping[str, str | None]

_VALUE_TAKEN = "row {} holds a unique value that it needs, and cannot be deleted and inserted again"
_KEY_TAKEN = "its new key is taken, and the row under its former one, {}, cannot be deleted"
_IDENTITY = (
    "it changes an identity column that is GENERATED ALWAYS, and row {} cannot be deleted and inserted with the value"
)


@dataclass(frozen=True)
class Statement:
    """A statement with `$1`… and its parameters."""

    text: str
    parameters: tuple[Any, ...]
    counted: bool
    """It must touch exactly one row."""
    displaces: bool = False
    """It returns the keys, as arrays of texts, of rows that it deleted and that must be restored."""
    refuses: str = ""
    """Where it returns a row, the change is refused for this reason; `{}` stands for the row's key."""


def _affects_statement(column: SlaveColumn) -> bool:
    """Whether the statements differ if a change leaves the column as it is."""
    return column.identity == "a" or column.follows


class Rewriter:
    """Makes the statements of changes, in one mode and under one definition; each form of change is made once."""

    def __init__(self, *, safe: bool, cascades: bool, deferrable: bool = False):
        """`deferrable`: whether unique values that the commit checks displace rows as well."""
        self._safe = safe
        self._cascades = cascades
        self._deferrable = deferrable
        self._forms: dict[tuple[object, ...], list[Statement]] = {}

    def statements(
        self, change: RowChange, target: SlaveTable, uniques: Sequence[Unique], *, images: bool
    ) -> list[Statement]:
        """Raises `ColumnMissing`. `uniques` matter in safe mode alone, `images` in normal mode."""
        new, old = change.new, change.old
        kept = frozenset(
            name
            for name in new
            if name in old
            and old[name] == new[name]
            and (name in change.key or _affects_statement(target.column(name)))
        )
        form = (change.table, change.action, tuple(new), tuple(old), kept, images)
        if form not in self._forms:
            # Symbols instead of values: `n` or `o`, for new or old, and the column's name.
            symbolic = replace(
                change,
                new={name: f"n{name}" for name in new},
                old={name: f"{'n' if name in kept else 'o'}{name}" for name in old},
            )
            self._forms[form] = (
                safe(
                    symbolic,
                    target,
                    [unique for unique in uniques if self._deferrable or not unique.deferrable],
                    cascades=self._cascades,
                )
                if self._safe
                else strict(symbolic, target, images=images, cascades=self._cascades)
            )
        return [
            replace(
                statement, parameters=tuple((new if text[0] == "n" else old)[text[1:]] for text in statement.parameters)
            )
            for statement in self._forms[form]
        ]


def strict(change: RowChange, target: SlaveTable, *, images: bool, cascades: bool) -> list[Statement]:
    """The statements of normal mode. `images`: the row must have the old image's values. Raises `ColumnMissing`."""
    if change.action is Action.INSERT:
        return [_insert(target, change.new)]
    old = change.old if not change.key else compared(change, target, cascades) if images else change.key_of(change.old)
    if change.action is Action.DELETE:
        if cascades and target.owned:
            # A foreign key may have deleted the row already.
            return [_delete(change, target, change.key_of(old), counted=False)]
        return [_delete(change, target, old)]
    if _sets_identity(change, target):
        # Only the database itself may update such a column; an insert may bring any value.
        refused = (
            [_refuse_if_found(change, target, change.key_of(old), _IDENTITY)]
            if _stays(change, target, cascades)
            else []
        )
        return [*refused, _delete(change, target, old), _insert(target, change.new)]
    if cascades:
        # A foreign key may already have set columns that this change leaves alone; their change follows.
        new = {
            name: value
            for name, value in change.new.items()
            if name in change.key or not target.column(name).follows or change.old.get(name, ...) != value
        }
        change = replace(change, new=new)
    if cascades and any(target.column(name).follows and change.old[name] != change.new[name] for name in change.key):
        return [_update_unless_done(change, target, old, images=images)]
    return [_update(change, target, change.new, old)]


def compared(change: RowChange, target: SlaveTable, cascades: bool, row: Row | None = None) -> dict[str, str | None]:
    """The former values (or those of `row`) that the slave's row must have: the key, and columns no cascade sets."""
    return {
        name: value
        for name, value in (change.old if row is None else row).items()
        if name in change.key or target.column(name).comparable(cascades)
    }


def _sets_identity(change: RowChange, target: SlaveTable) -> bool:
    """Whether it changes a column that only the database itself may update."""
    return any(
        target.column(name).identity == "a" and change.old.get(name, value) != value
        for name, value in change.new.items()
    )


def _stays(change: RowChange, target: SlaveTable, cascades: bool) -> bool:
    """Whether the row must not be deleted and inserted again: something would notice, or the slave's own values are
    lost."""
    return (cascades and target.watched) or target.has_own(tuple(change.new))


def safe(change: RowChange, target: SlaveTable, uniques: Sequence[Unique], *, cascades: bool) -> list[Statement]:
    """The statements of safe mode: their result is the same wherever the slave is. Raises `ColumnMissing`.

    `uniques`: those that displace rows.
    """
    if change.action is Action.DELETE:
        return [_delete(change, target, change.key_of(change.old), counted=False)]
    if not change.key:
        if not change.old:
            return [_insert(target, change.new)]
        if not _sets_identity(change, target):
            return [_update_or_insert(change, target)]
        if _stays(change, target, cascades):
            return [_refuse_if_found(change, target, change.old, _IDENTITY), _insert(target, change.new)]
        return [_delete(change, target, change.old, counted=False), _insert(target, change.new)]
    new_key = change.key_of(change.new)
    guarded = cascades and target.watched
    if change.partial:
        return _safe_partial(change, target, new_key, guarded=guarded)
    statements = [
        _displace(change, target, unique, guarded=guarded) for unique in uniques if not unique.is_key(change.key)
    ]
    for name, value in change.new.items():
        if name not in change.key and target.column(name).identity == "a":
            which = {**new_key, name: value}
            if _stays(change, target, cascades):
                statements.append(_refuse_if_found(change, target, which, _IDENTITY, unless=name))
            else:
                statements.append(_delete(change, target, which, counted=False, unless=name))
    old_key = change.key_of(change.old) if change.old else new_key
    if old_key != new_key:
        statements += _rename(change, target, old_key, new_key, guarded=guarded)
    return [
        *statements,
        _update(change, target, change.new, new_key, counted=False),
        _insert_absent(target, change.new, new_key),
    ]


def _safe_partial(change: RowChange, target: SlaveTable, new_key: Row, *, guarded: bool) -> list[Statement]:
    """A missing row is returned, as only a part of it is known: the caller decides whether the slave must have it."""
    old_key = change.key_of(change.old)
    parameters = Parameters(target)
    texts = ", ".join(f"{parameters.add(name, value)}::text" for name, value in new_key.items())
    absent = merge_statements.absent(target, parameters.equal(new_key))
    missing = f"SELECT ARRAY[{texts}]::text[] WHERE {absent}"
    return [
        *(_rename(change, target, old_key, new_key, guarded=guarded) if old_key != new_key else ()),
        _update(change, target, change.new, new_key, counted=False),
        parameters.done(missing, counted=False, displaces=True),
    ]


class Parameters:
    """Numbers the parameters of one statement, each cast to its column's type."""

    def __init__(self, target: SlaveTable):
        self.target = target
        self.values: list[str | None] = []

    def add(self, name: str, value: str | None) -> str:
        self.values.append(value)
        return f"${len(self.values)}::{self.target.column(name).plain}"

    def equal(self, row: Row, letter: str = "t") -> str:
        """The condition that the key of `letter` is that of `row`."""
        terms = []
        for name, value in row.items():
            column = self.target.column(name)
            operator = column.equals or "OPERATOR(pg_catalog.=)"
            terms.append(f"{letter}.{column.quoted} {operator} {self.add(name, value)}")
        return " AND ".join(terms)

    def same(self, row: Row) -> str:
        """The condition that `t` equals `row` in all its columns, by text."""
        settable = {name: value for name, value in row.items() if not self.target.column(name).generated}
        present = ", ".join(f"t.{column.quoted}::{column.plain}" for column in map(self.target.column, settable))
        given = ", ".join(
            f"{self.add(name, value)}::{self.target.column(name).sized}" for name, value in settable.items()
        )
        return f'(ROW({present})::text) COLLATE "C" = (ROW({given})::text) COLLATE "C"'

    def differences(self, row: Row) -> list[str]:
        """For each column of `row` the condition that `t` has another value."""
        return [
            f"NOT ({merge_statements.same_value(self.target.column(name), self.add(name, value))})"
            for name, value in row.items()
        ]

    def done(self, text: str, *, counted: bool, displaces: bool = False, refuses: str = "") -> Statement:
        return Statement(text, tuple(self.values), counted, displaces, refuses)


def _row_condition(change: RowChange, parameters: Parameters, row: Row) -> str:
    """The condition that names the row: its key, more columns where given, or one copy of a keyless row."""
    target = parameters.target
    if not change.key:
        match = parameters.same(row)
        # Both sub-selects take the same first copy, as they are in one statement.
        first = f"FROM {target.only} t WHERE {match} ORDER BY t.tableoid, t.ctid LIMIT 1"
        return " AND ".join(f"t.{system} = ANY (ARRAY(SELECT t.{system} {first}))" for system in ("tableoid", "ctid"))
    key = parameters.equal(change.key_of(row))
    rest = [
        merge_statements.same_value(target.column(name), parameters.add(name, value))
        for name, value in row.items()
        if name not in change.key
    ]
    return " AND ".join([key, *rest])


def _insert(target: SlaveTable, row: Row) -> Statement:
    return _inserted(target, row, lambda parameters: "true", counted=True)


def _insert_absent(target: SlaveTable, row: Row, key: Row) -> Statement:
    def absent(parameters: Parameters) -> str:
        return merge_statements.absent(target, parameters.equal(key))

    return _inserted(target, row, absent, counted=False)


def _inserted(target: SlaveTable, row: Row, condition: Callable[[Parameters], str], *, counted: bool) -> Statement:
    parameters = Parameters(target)
    chosen = [column for _, column in merge_statements.writable(target, tuple(row))]
    values = ", ".join(parameters.add(column.name, row[column.name]) for column in chosen)
    text = (
        f"INSERT INTO {target.quoted} ({', '.join(column.quoted for column in chosen)}) OVERRIDING SYSTEM VALUE "
        f"SELECT {values} WHERE {condition(parameters)}"
    )
    return parameters.done(text, counted=counted)


def _update(change: RowChange, target: SlaveTable, row: Row, which: Row, *, counted: bool = True) -> Statement:
    parameters = Parameters(target)
    chosen = [column for _, column in merge_statements.writable(target, tuple(row)) if column.identity != "a"]
    keep = set(change.key) if counted and change.key and change.key_of(change.old) == change.key_of(row) else set()
    assignments = [
        f"{column.quoted} = {parameters.add(column.name, row[column.name])}"
        for column in chosen
        if column.name not in keep
    ]
    where = _row_condition(change, parameters, which)
    if not assignments:
        # No column to set but the key, or an identity that only the database sets: only check that the row exists.
        return parameters.done(f"SELECT FROM {target.only} t WHERE {where}", counted=counted)
    return parameters.done(f"UPDATE {target.only} t SET {', '.join(assignments)} WHERE {where}", counted=counted)


def _update_unless_done(change: RowChange, target: SlaveTable, old: Row, *, images: bool) -> Statement:
    """Updates the row at the old key, or at the new one if the slave's foreign key has changed it already.

    Exactly one of the two keys must have a row.
    """
    parameters = Parameters(target)
    chosen = [column for _, column in merge_statements.writable(target, tuple(change.new)) if column.identity != "a"]
    assignments = ", ".join(
        f"{column.quoted} = {parameters.add(column.name, change.new[column.name])}" for column in chosen
    )
    old_key, new_key = change.key_of(change.old), change.key_of(change.new)
    new = compared(change, target, True, change.new) if images else new_key

    def free(key: Row) -> str:
        return f"NOT EXISTS (SELECT FROM {target.only} n WHERE {parameters.equal(key, 'n')})"

    not_yet = f"{_row_condition(change, parameters, old)} AND {free(new_key)}"
    already = f"{_row_condition(change, parameters, new)} AND {free(old_key)}"
    text = f"UPDATE {target.only} t SET {assignments} WHERE {not_yet} OR {already}"
    return parameters.done(text, counted=True)


def _update_or_insert(change: RowChange, target: SlaveTable) -> Statement:
    """Updates one copy of a keyless row, or inserts it. An update keeps the row for those that refer to it."""
    parameters = Parameters(target)
    chosen = [column for _, column in merge_statements.writable(target, tuple(change.new))]
    values = [parameters.add(column.name, change.new[column.name]) for column in chosen]
    assignments = ", ".join(
        f"{column.quoted} = {value}" for column, value in zip(chosen, values, strict=True) if column.identity != "a"
    )
    where = _row_condition(change, parameters, change.old)
    matching = (
        f"UPDATE {target.only} t SET {assignments} WHERE {where} RETURNING 1"
        if assignments
        else f"SELECT FROM {target.only} t WHERE {where}"
    )
    text = (
        f"WITH found AS ({matching}) INSERT INTO {target.quoted} ({', '.join(column.quoted for column in chosen)}) "
        f"OVERRIDING SYSTEM VALUE SELECT {', '.join(values)} WHERE NOT EXISTS (SELECT FROM found)"
    )
    return parameters.done(text, counted=False)


def _delete(
    change: RowChange, target: SlaveTable, which: Row, *, counted: bool = True, unless: str | None = None
) -> Statement:
    """`unless`: a column of `which` that the row must not have: an identity that no UPDATE may set."""
    parameters = Parameters(target)
    where = _unless(change, parameters, which, unless)
    return parameters.done(f"DELETE FROM {target.only} t WHERE {where}", counted=counted)


def _refuse_if_found(
    change: RowChange, target: SlaveTable, which: Row, refuses: str, *, unless: str | None = None
) -> Statement:
    """Finds a row that must not be deleted; if there is one, the change is refused."""
    parameters = Parameters(target)
    where = _unless(change, parameters, which, unless)
    text = f"SELECT {_key_texts(change, target)} FROM {target.only} t WHERE {where}"
    return parameters.done(text, counted=False, refuses=refuses)


def _unless(change: RowChange, parameters: Parameters, which: Row, unless: str | None) -> str:
    if unless is None:
        return _row_condition(change, parameters, which)
    return f"{parameters.equal(change.key_of(which))} AND NOT ({parameters.equal({unless: which[unless]})})"


def _key_texts(change: RowChange, target: SlaveTable) -> str:
    return f"ARRAY[{', '.join(f't.{target.column(name).quoted}::text' for name in change.key)}]::text[]"


def _rename(change: RowChange, target: SlaveTable, old_key: Row, new_key: Row, *, guarded: bool) -> list[Statement]:
    """Gives the row at the old key the new one; if that is taken, deletes the row at the old key.

    `guarded`: it must not be deleted.
    """
    parameters = Parameters(target)
    assignments = ", ".join(
        f"{target.column(name).quoted} = {parameters.add(name, value)}"
        for name, value in new_key.items()
        if target.column(name).identity != "a"
    )
    old = parameters.equal(old_key)
    taken = f"EXISTS (SELECT FROM {target.only} n WHERE {parameters.equal(new_key, 'n')})"
    result = []
    if assignments:
        text = f"UPDATE {target.only} t SET {assignments} WHERE {old} AND NOT {taken}"
        result.append(parameters.done(text, counted=False))
    parameters = Parameters(target)
    # Two texts may be the same key (1.0 and 1.00): then it is the row itself.
    where = f"{parameters.equal(old_key)} AND NOT ({parameters.equal(new_key)})"
    if guarded:
        text = f"SELECT {_key_texts(change, target)} FROM {target.only} t WHERE {where}"
        result.append(parameters.done(text, counted=False, refuses=_KEY_TAKEN if assignments else _IDENTITY))
    else:
        result.append(parameters.done(f"DELETE FROM {target.only} t WHERE {where}", counted=False))
    return result


def _displace(change: RowChange, target: SlaveTable, unique: Unique, *, guarded: bool) -> Statement:
    """Deletes other rows that have a unique value of the new row. `guarded`: they must not be deleted."""
    parameters = Parameters(target)
    row = ", ".join(
        f"{parameters.add(name, value)} AS {quoted(name)}"
        for name, value in change.new.items()
        if not target.column(name).generated
    )
    keys = ", ".join(f"{quoted(name)} AS k{number}" for number, name in enumerate(change.key, start=1))

    def own(key: Row) -> str:
        return " AND ".join(
            f"o.k{number} {target.column(name).equals or 'OPERATOR(pg_catalog.=)'} {parameters.add(name, key[name])}"
            for number, name in enumerate(change.key, start=1)
        )

    own_row = own(change.key_of(change.new))
    if change.old:
        own_row = f"{own_row} OR {own(change.key_of(change.old))}"
    keys_of = _key_texts(change, target)
    text = sql_files.render(
        "postgres",
        "replay_displace",
        begin=f"SELECT {keys_of} FROM {target.only} t," if guarded else f"DELETE FROM {target.only} t USING",
        end="" if guarded else f"RETURNING {keys_of}",
        target=target.only,
        alias=quoted(target.table.name),
        row=row,
        expressions=unique.named,
        predicate=unique.predicate or "true",
        key=keys,
        equal=unique.equal,
        own=own_row,
    )
    return parameters.done(text, counted=False, displaces=not guarded, refuses=_VALUE_TAKEN if guarded else "")
