"""One change of a row as statements, in normal and in safe mode.

| change | normal mode, each must touch one row | safe mode |
|---|---|---|
| INSERT | insert | displace, update by key, insert if absent |
| UPDATE, key kept | update by key | displace, update by key, insert if absent |
| UPDATE, key changed | update by old key, key included | displace, rename, update by new key, insert if absent |
| DELETE | delete by key | delete by key |
| partial UPDATE: some columns are not known | as above | rename, update by new key; a missing row is told |

*Displace* removes other rows that hold a unique value which the new row needs, and tells their keys:
most were changed later on the master, and that change brings them back; the caller of a replay restores
the others. Unique values that are checked at the commit displace nobody, unless that check has failed.
REPLACE is an update where the row is there. *Rename* gives the row at the old key the new one; where
that is taken, the old row is a leftover and goes.

A row that lives on is never deleted and inserted again while foreign keys or triggers act on the delete: a
change that would need that is refused with the reason.

A keyless row is named by all its columns, and one copy is meant. In safe mode an UPDATE of one changes
a copy where there is one, else inserts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sluice import sql_files
from sluice.model.change import Action, RowChange
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.target import merge_statements
from sluice.vendors.postgres.target.slave_tables import SlaveColumn, SlaveTable
from sluice.vendors.postgres.target.unique import Unique

Row = Mapping[str, str | None]

_HELD = "row {} holds a unique value that it needs, and cannot go and come back"
_LEFTOVER = "its new key is taken, and the row under its former one, {}, cannot go"
_IDENTITY = "it changes an identity column that is GENERATED ALWAYS, and row {} cannot go and come back with the value"


@dataclass(frozen=True)
class Statement:
    """A text with `$1`… and its parameters."""

    text: str
    parameters: tuple[Any, ...]
    counted: bool
    """It must touch exactly one row."""
    displaces: bool = False
    """Its result are the keys, arrays of texts, of rows that it took away and that must come back."""
    refuses: str = ""
    """Why the change is refused when there is any result: `{}` stands for the key of that row."""


def _affects_statement(column: SlaveColumn) -> bool:
    """Whether it matters for the statements that a change leaves the column as it is."""
    return column.identity == "a" or column.follows


class Rewriter:
    """Rewrites changes, one mode and one table definition long; texts are made once for each form of change."""

    def __init__(self, *, safe: bool, cascades: bool, deferrable: bool = False):
        """`deferrable`: whether unique values that are checked at the commit displace as well."""
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
            # Values stand for themselves: `n` or `o`, new or old, and the column's name.
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
    """Normal mode. `images`: the row must also look as the master's did. Raises `ColumnMissing`."""
    if change.action is Action.INSERT:
        return [_insert(target, change.new)]
    old = change.old if not change.key else compared(change, target, cascades) if images else change.key_of(change.old)
    if change.action is Action.DELETE:
        if cascades and target.owned:
            # A foreign key may have taken it along already.
            return [_delete(change, target, change.key_of(old), counted=False)]
        return [_delete(change, target, old)]
    if _sets_identity(change, target):
        # Only the database itself may update such a column; an insert may bring any value.
        refused = [_found(change, target, change.key_of(old), _IDENTITY)] if _stays(change, target, cascades) else []
        return [*refused, _delete(change, target, old), _insert(target, change.new)]
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


def compared(change: RowChange, target: SlaveTable, cascades: bool, row: Row | None = None) -> dict[str, str | None]:
    """What of the row's former values (or of `row`) the slave must hold: its key, and what no other hand may change."""
    return {
        name: value
        for name, value in (change.old if row is None else row).items()
        if name in change.key or target.column(name).comparable(cascades)
    }


def _sets_identity(change: RowChange, target: SlaveTable) -> bool:
    """Whether it gives another value to a column that only the database itself may update."""
    return any(
        target.column(name).identity == "a" and change.old.get(name, value) != value
        for name, value in change.new.items()
    )


def _stays(change: RowChange, target: SlaveTable, cascades: bool) -> bool:
    """Whether a row may not go and come instead: others would act on that, or values of its own not come back."""
    return (cascades and target.watched) or target.has_own(tuple(change.new))


def safe(change: RowChange, target: SlaveTable, uniques: Sequence[Unique], *, cascades: bool) -> list[Statement]:
    """Safe mode: whatever of it was applied before, the end is the same. Raises `ColumnMissing`.

    `uniques`: of those that displace.
    """
    if change.action is Action.DELETE:
        return [_delete(change, target, change.key_of(change.old), counted=False)]
    if not change.key:
        if not change.old:
            return [_insert(target, change.new)]
        if not _sets_identity(change, target):
            return [_update_or_insert(change, target)]
        if _stays(change, target, cascades):
            return [_found(change, target, change.old, _IDENTITY), _insert(target, change.new)]
        return [_delete(change, target, change.old, counted=False), _insert(target, change.new)]
    new_key = change.key_of(change.new)
    guarded = cascades and target.watched
    if change.partial:
        return _safe_partial(change, target, new_key, guarded=guarded)
    found = [_displace(change, target, unique, guarded=guarded) for unique in uniques if not unique.is_key(change.key)]
    for name, value in change.new.items():
        if name not in change.key and target.column(name).identity == "a":
            which = {**new_key, name: value}
            if _stays(change, target, cascades):
                found.append(_found(change, target, which, _IDENTITY, unless=name))
            else:
                found.append(_delete(change, target, which, counted=False, unless=name))
    old_key = change.key_of(change.old) if change.old else new_key
    if old_key != new_key:
        found += _rename(change, target, old_key, new_key, guarded=guarded)
    return [
        *found,
        _update(change, target, change.new, new_key, counted=False),
        _insert_absent(target, change.new, new_key),
    ]


def _safe_partial(change: RowChange, target: SlaveTable, new_key: Row, *, guarded: bool) -> list[Statement]:
    """Of a row that is not there only a part is known: the caller finds out whether it must be."""
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
        # Both sub-selects take the same first copy: nothing changes in between.
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
        # Nothing but the key, or an identity that only the database sets: the row must be there all the same.
        return parameters.done(f"SELECT FROM {target.only} t WHERE {where}", counted=counted)
    return parameters.done(f"UPDATE {target.only} t SET {', '.join(assignments)} WHERE {where}", counted=counted)


def _update_unless_done(change: RowChange, target: SlaveTable, old: Row, *, images: bool) -> Statement:
    """The slave's own foreign key may have led the row to its new key already: then that is the row, and must look so.

    Of the two keys one is taken and one free, whichever came first.
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

    waits = f"{_row_condition(change, parameters, old)} AND {free(new_key)}"
    done = f"{_row_condition(change, parameters, new)} AND {free(old_key)}"
    text = f"UPDATE {target.only} t SET {assignments} WHERE {waits} OR {done}"
    return parameters.done(text, counted=True)


def _update_or_insert(change: RowChange, target: SlaveTable) -> Statement:
    """One copy of a keyless row becomes the new one, or that comes: so rows that refer to it keep it."""
    parameters = Parameters(target)
    chosen = [column for _, column in merge_statements.writable(target, tuple(change.new))]
    values = [parameters.add(column.name, change.new[column.name]) for column in chosen]
    assignments = ", ".join(
        f"{column.quoted} = {value}" for column, value in zip(chosen, values, strict=True) if column.identity != "a"
    )
    where = _row_condition(change, parameters, change.old)
    found = (
        f"UPDATE {target.only} t SET {assignments} WHERE {where} RETURNING 1"
        if assignments
        else f"SELECT FROM {target.only} t WHERE {where}"
    )
    text = (
        f"WITH found AS ({found}) INSERT INTO {target.quoted} ({', '.join(column.quoted for column in chosen)}) "
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


def _found(change: RowChange, target: SlaveTable, which: Row, refuses: str, *, unless: str | None = None) -> Statement:
    """Instead of deleting a row that must stay: the change is refused where there is one."""
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
    """The row at the old key goes to the new one; where that is taken already, it is a leftover and goes.

    `guarded`: it may not go.
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
    # Two texts may be one key (1.0 and 1.00): then it is the row itself.
    where = f"{parameters.equal(old_key)} AND NOT ({parameters.equal(new_key)})"
    if guarded:
        text = f"SELECT {_key_texts(change, target)} FROM {target.only} t WHERE {where}"
        result.append(parameters.done(text, counted=False, refuses=_LEFTOVER if assignments else _IDENTITY))
    else:
        result.append(parameters.done(f"DELETE FROM {target.only} t WHERE {where}", counted=False))
    return result


def _displace(change: RowChange, target: SlaveTable, unique: Unique, *, guarded: bool) -> Statement:
    """`guarded`: rows in the way may not go."""
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
        own=mine,
    )
    return parameters.done(text, counted=False, displaces=not guarded, refuses=_HELD if guarded else "")
