"""One change of a row as statements, in normal and in safe mode (seed 002).

| change | normal mode, each must touch one row | safe mode |
|---|---|---|
| INSERT | insert | displace, update by key, insert if absent |
| UPDATE, key kept | update by key | displace, update by key, insert if absent |
| UPDATE, key changed | update by old key, key included | displace, rename, update by new key, insert if absent |
| DELETE | delete by key | delete by key |

*Displace* removes other rows that hold a unique value which the new row needs: they were changed
later on the master, and that later change brings them back. A row that lives on is never deleted,
because deleting it could cascade: REPLACE is an update where the row is there. *Rename* gives the
row at the old key the new one; where that is taken, the old row is a leftover and goes.

A keyless row is named by all its columns, and one copy is meant.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sluice import sql_files
from sluice.domain.change import Action, RowChange
from sluice.vendors.postgres import statements
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.target import Target, TargetColumn
from sluice.vendors.postgres.unique import Unique

Row = Mapping[str, str | None]


@dataclass(frozen=True)
class Statement:
    """A text with `$1`… and its parameters; `counted` when it must touch exactly one row."""

    text: str
    parameters: tuple[Any, ...]
    counted: bool


def _minded(column: TargetColumn) -> bool:
    """Whether it matters for the statements that a change leaves the column as it is."""
    return column.identity == "a" or column.follows


class Rewriter:
    """Rewrites changes, one mode and one table definition long; texts are made once for each form of change."""

    def __init__(self, *, safe: bool, cascades: bool):
        self._safe = safe
        self._cascades = cascades
        self._forms: dict[tuple[Any, ...], list[Statement]] = {}

    def statements(
        self, change: RowChange, target: Target, uniques: Sequence[Unique], *, images: bool
    ) -> list[Statement]:
        """Raises `ColumnMissing`. `uniques` matter in safe mode alone, `images` in normal mode."""
        new, old = change.new, change.old
        kept = frozenset(
            name
            for name in new
            if name in old and old[name] == new[name] and (name in change.key or _minded(target.column(name)))
        )
        form = (change.table, change.action, tuple(new), tuple(old), kept, images)
        if form not in self._forms:
            # Values stand for themselves: `n` or `o`, new or old, and the column's name.
            symbolic = replace(
                change,
                new={name: f"n{name}" for name in new},
                old={name: f"{'n' if name in kept else 'o'}{name}" for name in old},
            )
            self._forms[form] = (
                safe(symbolic, target, uniques)
                if self._safe
                else strict(symbolic, target, images=images, cascades=self._cascades)
            )
        return [
            replace(
                statement, parameters=tuple((new if text[0] == "n" else old)[text[1:]] for text in statement.parameters)
            )
            for statement in self._forms[form]
        ]


def strict(change: RowChange, target: Target, *, images: bool, cascades: bool) -> list[Statement]:
    """Normal mode. `images`: the row must also look as the master's did. Raises `ColumnMissing`."""
    if change.action is Action.INSERT:
        return [_insert(target, change.new)]
    old = change.old if not change.key else compared(change, target, cascades) if images else change.key_of(change.old)
    if change.action is Action.DELETE:
        if cascades and target.owned:
            # A foreign key may have taken it along already.
            return [_delete(change, target, change.key_of(old), counted=False)]
        return [_delete(change, target, old)]
    if any(
        target.column(name).identity == "a" and change.old.get(name, value) != value
        for name, value in change.new.items()
    ):
        # Only the database itself may update such a column; an insert may bring any value.
        return [_delete(change, target, old), _insert(target, change.new)]
    if cascades:
        # What it leaves as it is a foreign key may have changed already; the change that tells of it follows.
        new = {
            name: value
            for name, value in change.new.items()
            if name in change.key or not target.column(name).follows or change.old.get(name, ...) != value
        }
        change = replace(change, new=new)
    if cascades and any(target.column(name).follows and change.old[name] != change.new[name] for name in change.key):
        return [_update_unless_done(change, target, old, images=images)]
    return [_update(change, target, change.new, old)]


def compared(change: RowChange, target: Target, cascades: bool, row: Row | None = None) -> dict[str, str | None]:
    """What of the row's former values (or of `row`) the slave must hold: its key, and what no other hand may change."""
    return {
        name: value
        for name, value in (change.old if row is None else row).items()
        if name in change.key or target.column(name).comparable(cascades)
    }


def safe(change: RowChange, target: Target, uniques: Sequence[Unique]) -> list[Statement]:
    """Safe mode: whatever of it was applied before, the end is the same. Raises `ColumnMissing`."""
    if not change.key:
        gone = [_delete(change, target, change.old, counted=False)] if change.old else []
        return gone + ([_insert(target, change.new)] if change.new else [])
    if change.action is Action.DELETE:
        return [_delete(change, target, change.key_of(change.old), counted=False)]
    new_key = change.key_of(change.new)
    found = [_displace(change, target, unique) for unique in uniques if not unique.is_key(change.key)]
    found += [
        _delete(change, target, {**new_key, name: value}, counted=False, unless=name)
        for name, value in change.new.items()
        if name not in change.key and target.column(name).identity == "a"
    ]
    old_key = change.key_of(change.old) if change.old else new_key
    if old_key != new_key:
        found += _rename(change, target, old_key, new_key)
    return [
        *found,
        _update(change, target, change.new, new_key, counted=False),
        _insert_absent(target, change.new, new_key),
    ]


class Parameters:
    """Numbers the parameters of one statement, each cast to its column's type."""

    def __init__(self, target: Target):
        self.target = target
        self.values: list[str | None] = []

    def add(self, name: str, value: str | None) -> str:
        self.values.append(value)
        return f"${len(self.values)}::{self.target.column(name).plain}"

    def equal(self, row: Row, letter: str = "t") -> str:
        """The key of `letter` is `row`'s."""
        terms = []
        for name, value in row.items():
            column = self.target.column(name)
            operator = column.equals or "OPERATOR(pg_catalog.=)"
            terms.append(f"{letter}.{column.quoted} {operator} {self.add(name, value)}")
        return " AND ".join(terms)

    def same(self, row: Row) -> str:
        """`t` equals `row` in all its columns, by text."""
        known = {name: value for name, value in row.items() if not self.target.column(name).generated}
        ours = ", ".join(f"t.{column.quoted}::{column.plain}" for column in map(self.target.column, known))
        theirs = ", ".join(
            f"{self.add(name, value)}::{self.target.column(name).sized}" for name, value in known.items()
        )
        return f'(ROW({ours})::text) COLLATE "C" = (ROW({theirs})::text) COLLATE "C"'

    def differences(self, row: Row) -> list[str]:
        """For each column of `row` the condition that `t` holds another value."""
        return [
            f"NOT ({statements.same_value(self.target.column(name), self.add(name, value))})"
            for name, value in row.items()
        ]

    def done(self, text: str, *, counted: bool) -> Statement:
        return Statement(text, tuple(self.values), counted)


def _which(change: RowChange, parameters: Parameters, row: Row) -> str:
    """The condition that names the row: its key, more columns where given, or one copy of a keyless row."""
    target = parameters.target
    if not change.key:
        match = parameters.same(row)
        # Both sub-selects take the same first copy: nothing changes in between.
        first = f"FROM {target.only} t WHERE {match} ORDER BY t.tableoid, t.ctid LIMIT 1"
        return " AND ".join(f"t.{system} = ANY (ARRAY(SELECT t.{system} {first}))" for system in ("tableoid", "ctid"))
    key = parameters.equal(change.key_of(row))
    rest = [
        statements.same_value(target.column(name), parameters.add(name, value))
        for name, value in row.items()
        if name not in change.key
    ]
    return " AND ".join([key, *rest])


def _insert(target: Target, row: Row) -> Statement:
    return _inserted(target, row, lambda parameters: "true", counted=True)


def _insert_absent(target: Target, row: Row, key: Row) -> Statement:
    def absent(parameters: Parameters) -> str:
        return statements.absent(target, parameters.equal(key))

    return _inserted(target, row, absent, counted=False)


def _inserted(target: Target, row: Row, condition: Callable[[Parameters], str], *, counted: bool) -> Statement:
    parameters = Parameters(target)
    chosen = [column for _, column in statements.writable(target, tuple(row))]
    values = ", ".join(parameters.add(column.name, row[column.name]) for column in chosen)
    text = (
        f"INSERT INTO {target.quoted} ({', '.join(column.quoted for column in chosen)}) OVERRIDING SYSTEM VALUE "
        f"SELECT {values} WHERE {condition(parameters)}"
    )
    return parameters.done(text, counted=counted)


def _update(change: RowChange, target: Target, row: Row, which: Row, *, counted: bool = True) -> Statement:
    parameters = Parameters(target)
    chosen = [column for _, column in statements.writable(target, tuple(row)) if column.identity != "a"]
    keep = set(change.key) if counted and change.key and change.key_of(change.old) == change.key_of(row) else set()
    assignments = [
        f"{column.quoted} = {parameters.add(column.name, row[column.name])}"
        for column in chosen
        if column.name not in keep
    ]
    where = _which(change, parameters, which)
    if not assignments:
        # Nothing but the key, or an identity that only the database sets: the row must be there all the same.
        return parameters.done(f"SELECT FROM {target.only} t WHERE {where}", counted=counted)
    return parameters.done(f"UPDATE {target.only} t SET {', '.join(assignments)} WHERE {where}", counted=counted)


def _update_unless_done(change: RowChange, target: Target, old: Row, *, images: bool) -> Statement:
    """The slave's own foreign key may have led the row to its new key already: then that is the row, and must look so.

    Of the two keys one is taken and one free, whichever came first.
    """
    parameters = Parameters(target)
    chosen = [column for _, column in statements.writable(target, tuple(change.new)) if column.identity != "a"]
    assignments = ", ".join(
        f"{column.quoted} = {parameters.add(column.name, change.new[column.name])}" for column in chosen
    )
    old_key, new_key = change.key_of(change.old), change.key_of(change.new)
    new = compared(change, target, True, change.new) if images else new_key

    def free(key: Row) -> str:
        return f"NOT EXISTS (SELECT FROM {target.only} n WHERE {parameters.equal(key, 'n')})"

    waits = f"{_which(change, parameters, old)} AND {free(new_key)}"
    done = f"{_which(change, parameters, new)} AND {free(old_key)}"
    text = f"UPDATE {target.only} t SET {assignments} WHERE {waits} OR {done}"
    return parameters.done(text, counted=True)


def _delete(
    change: RowChange, target: Target, which: Row, *, counted: bool = True, unless: str | None = None
) -> Statement:
    """`unless`: a column of `which` that the row must not have: an identity that no UPDATE may set."""
    parameters = Parameters(target)
    if unless is None:
        where = _which(change, parameters, which)
    else:
        where = f"{parameters.equal(change.key_of(which))} AND NOT ({parameters.equal({unless: which[unless]})})"
    return parameters.done(f"DELETE FROM {target.only} t WHERE {where}", counted=counted)


def _rename(change: RowChange, target: Target, old_key: Row, new_key: Row) -> list[Statement]:
    """The row at the old key goes to the new one; where that is taken already, it is a leftover and goes."""
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
    # Two texts may be one key (1.0 and 1.00): then it is the row itself.
    text = f"DELETE FROM {target.only} t WHERE {parameters.equal(old_key)} AND NOT ({parameters.equal(new_key)})"
    result.append(parameters.done(text, counted=False))
    return result


def _displace(change: RowChange, target: Target, unique: Unique) -> Statement:
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

    mine = own(change.key_of(change.new))
    if change.old:
        mine = f"{mine} OR {own(change.key_of(change.old))}"
    text = sql_files.render(
        "postgres",
        "replay_displace",
        target=target.only,
        alias=quoted(target.table.name),
        row=row,
        expressions=unique.named,
        predicate=unique.predicate or "true",
        key=keys,
        equal=unique.equal,
        own=mine,
    )
    return parameters.done(text, counted=False)
