"""The statements of MySQL and MariaDB that apply changes one by one, for `sluice.vendors.common.replay`.

| change | normal mode, each must change one row | safe mode |
|---|---|---|
| INSERT | INSERT | REPLACE |
| UPDATE | UPDATE by key and by known old values | DELETE by the old key, REPLACE |
| DELETE | DELETE by key and by known old values | DELETE by key |

REPLACE deletes every row that has a unique value of the new one. Those of another key are deleted before, and
returned as `displaced`: the caller restores those that the master has. A table with columns of its own gets UPDATE,
or INSERT if there is no row, instead of REPLACE, which would lose the values of these columns. A row without a key is
identified by all its columns, and one copy is changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sluice.database.apply import DisplacedRow
from sluice.database.conflicts import Conflict, ValueUnfit
from sluice.database.digests import Texts
from sluice.database.errors import StatementFailed
from sluice.database.session import Session
from sluice.model.change import Action, RowChange
from sluice.vendors.common.replay import Replayer, Statement
from sluice.vendors.mysql.catalog import MySQLSlaveTables, MySQLTable
from sluice.vendors.mysql.connection import native
from sluice.vendors.mysql.errors import of_value


class _Words:
    """Conditions and values of one statement; collects its parameters."""

    def __init__(self, target: MySQLTable):
        self.target = target
        self.values: dict[str, str | None] = {}

    def value(self, name: str, text: str | None) -> str:
        """A value of a column. Raises `ColumnMissing`."""
        place = f"v{len(self.values)}"
        self.values[place] = text
        return self.target.column(name).value(f"%({place})s")

    def equal(self, row: Mapping[str, str | None]) -> str:
        """The columns have these values, NULL being one."""
        return " AND ".join(f"{self._name(name)} <=> {self.value(name, text)}" for name, text in row.items()) or "1 = 1"

    def sets(self, row: Mapping[str, str | None]) -> str:
        written = self.target.written(row)
        return ", ".join(f"{self._name(name)} = {self.value(name, text)}" for name, text in written.items())

    def row(self, row: Mapping[str, str | None]) -> str:
        """Columns and values, as INSERT and REPLACE take them."""
        written = self.target.written(row)
        names = ", ".join(self._name(name) for name in written)
        return f"({names}) VALUES ({', '.join(self.value(name, text) for name, text in written.items())})"

    def _name(self, name: str) -> str:
        return self.target.column(name).quoted.replace("%", "%%")


class MySQLReplayer(Replayer[MySQLTable]):
    """Replays changes into one slave over one session."""

    def __init__(self, connection: Session, targets: MySQLSlaveTables):
        super().__init__(connection, targets)
        self.session = native(connection)

    def run(self, statement: Statement) -> int:
        return self.session.run(statement.text, statement.values).rowcount

    def strict(self, change: RowChange, target: MySQLTable, *, images: bool) -> list[Statement]:
        words = _Words(target)
        if change.action is Action.INSERT:
            return [Statement(f"INSERT INTO {_place(target)} {words.row(change.new)}", words.values, counted=True)]
        old = change.old if images or not change.key else change.key_of(change.old)
        old = {name: text for name, text in old.items() if not target.column(name).generated or name in change.key}
        limit = "" if change.key else " LIMIT 1"
        if change.action is Action.DELETE:
            return [_delete(target, old, counted=True, limit=limit)]
        text = f"UPDATE {_place(target)} SET {words.sets(change.new)} WHERE {words.equal(old)}{limit}"
        return [Statement(text, words.values, counted=True)]

    def idempotent(self, change: RowChange, target: MySQLTable) -> list[Statement]:
        if not change.key:
            return _safe_keyless(change, target)
        if change.action is Action.DELETE:
            return [_delete(target, change.key_of(change.old), counted=False)]
        new_key = change.key_of(change.new)
        moved = bool(change.old) and change.key_of(change.old) != new_key
        if change.partial:
            # Columns that the change omits keep their values; a missing row cannot be inserted.
            renamed = [_rename(target, change.key_of(change.old), new_key)] if moved else []
            words = _Words(target)
            text = f"UPDATE {_place(target)} SET {words.sets(change.new)} WHERE {words.equal(new_key)}"
            return [*renamed, Statement(text, words.values, counted=True)]
        if target.has_own(tuple(change.new)):
            # The row with the old key, if any, gets the new key and keeps its own columns.
            statements = [_rename(target, change.key_of(change.old), new_key)] if moved else []
            words, more = _Words(target), _Words(target)
            update = f"UPDATE {_place(target)} SET {words.sets(change.new)} WHERE {words.equal(new_key)}"
            row = more.row(change.new)
            names, values = row.split(" VALUES ", 1)
            insert = (
                f"INSERT INTO {_place(target)} {names} SELECT {values[1:-1]} FROM (SELECT 1 AS one) AS once "
                f"WHERE NOT EXISTS (SELECT 1 FROM {_place(target)} WHERE {more.equal(new_key)})"
            )
            return [*statements, Statement(update, words.values), Statement(insert, more.values)]
        words = _Words(target)
        put = Statement(f"REPLACE INTO {_place(target)} {words.row(change.new)}", words.values)
        if change.action is Action.UPDATE:
            return [_delete(target, change.key_of(change.old), counted=False), put]
        return [put]

    def overwriting(self, change: RowChange, target: MySQLTable) -> list[Statement]:
        if target.has_own(tuple(change.new)) or not change.new:
            return self.idempotent(change, target)
        statements = [_delete(target, change.key_of(row), counted=False) for row in (change.old, change.new) if row]
        return statements + self.strict(replace(change, action=Action.INSERT), target, images=False)

    def unfit(self, change: RowChange, target: MySQLTable, error: StatementFailed) -> Conflict | None:
        return ValueUnfit(change.table, target.reason_shown(error)) if of_value(error) else None

    def displaced(self, change: RowChange, target: MySQLTable) -> list[DisplacedRow]:
        if not change.new:
            return []
        key = change.key_of(change.new)
        old_key = change.key_of(change.old) if change.old else key
        displaced: dict[Texts, DisplacedRow] = {}
        for index in target.uniques_beside(change.key):
            if any(change.new.get(name) is None for name in index.columns):
                continue
            words = _Words(target)
            equal = words.equal({name: change.new[name] for name in index.columns})
            other = f"NOT ({words.equal(key)}) AND NOT ({words.equal(old_key)})"
            text = f"SELECT {_texts(target, change.key)} FROM {_place(target)} t WHERE {equal} AND {other}"
            for row in self.session.run(text, words.values).fetchall():
                shown = tuple(target.column(name).shown(text) for name, text in zip(change.key, row, strict=True))
                displaced[shown] = DisplacedRow(change, shown)
        for each in displaced.values():
            self.run(_delete(target, each.row, counted=False))
        return list(displaced.values())

    def count(self, target: MySQLTable, row: Mapping[str, str | None]) -> int:
        words = _Words(target)
        text = f"SELECT 1 FROM {_place(target)} t WHERE {words.equal(row)} LIMIT 2"
        return len(self.session.run(text, words.values).fetchall())

    def one_row(
        self, target: MySQLTable, key: Mapping[str, str | None], names: Sequence[str]
    ) -> dict[str, str | None] | None:
        words = _Words(target)
        text = f"SELECT {_texts(target, names)} FROM {_place(target)} t WHERE {words.equal(key)} LIMIT 1"
        row = self.session.run(text, words.values).fetchone()
        if row is None:
            return None
        return {name: target.column(name).shown(text) for name, text in zip(names, row, strict=True)}

    def differing(
        self, target: MySQLTable, key: Mapping[str, str | None], former: Mapping[str, str | None]
    ) -> dict[str, tuple[str | None, str | None]]:
        words = _Words(target)
        same = {name: words.equal({name: text}) for name, text in former.items()}
        selected = ", ".join(f"{_texts(target, [name])}, NOT ({condition})" for name, condition in same.items())
        text = f"SELECT {selected} FROM {_place(target)} t WHERE {words.equal(key)}"
        row = self.session.run(text, words.values).fetchone()
        values: dict[str, tuple[str | None, str | None]] = {}
        for number, name in enumerate(former):
            now, differs = row[2 * number : 2 * number + 2] if row else (None, False)
            if differs:
                values[name] = (target.column(name).shown(now), former[name])
        return values


def _safe_keyless(change: RowChange, target: MySQLTable) -> list[Statement]:
    statements = []
    if change.old:
        statements.append(_delete(target, change.old, counted=False, limit=" LIMIT 1"))
    if change.new:
        words = _Words(target)
        statements.append(Statement(f"INSERT INTO {_place(target)} {words.row(change.new)}", words.values))
    return statements


def _delete(target: MySQLTable, row: Mapping[str, str | None], *, counted: bool, limit: str = "") -> Statement:
    words = _Words(target)
    return Statement(f"DELETE FROM {_place(target)} WHERE {words.equal(row)}{limit}", words.values, counted=counted)


def _rename(target: MySQLTable, old: Mapping[str, str | None], new: Mapping[str, str | None]) -> Statement:
    """Gives the row with the old key the new one, if that is free."""
    words = _Words(target)
    taken = f"NOT EXISTS (SELECT 1 FROM (SELECT * FROM {_place(target)}) AS other WHERE {words.equal(new)})"
    text = f"UPDATE {_place(target)} SET {words.sets(new)} WHERE {words.equal(old)} AND {taken}"
    return Statement(text, words.values)


def _place(target: MySQLTable) -> str:
    """The table's quoted name in a statement with parameters."""
    return target.place.replace("%", "%%")


def _texts(target: MySQLTable, names: Sequence[str]) -> str:
    """The columns' texts in a statement with parameters."""
    return ", ".join(target.column(name).text("t").replace("%", "%%") for name in names)
