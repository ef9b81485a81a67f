"""The statements of Oracle that apply changes one by one, for `sluice.vendors.common.replay`.

| change | normal mode, each must change one row | safe mode |
|---|---|---|
| INSERT | INSERT | UPDATE by key; INSERT if there is no row |
| UPDATE | UPDATE by key and by known old values | the old key's row gets the new key, or is deleted; as INSERT |
| DELETE | DELETE by key and by known old values | DELETE by key |

Rows of another key that have a unique value of the new row are deleted before, and returned as `displaced`: the caller
restores those that the master has. A row without a key is identified by all its columns, and one copy is changed.
"""

from collections.abc import Mapping, Sequence

from sluice.database.apply import DisplacedRow
from sluice.database.conflicts import Conflict
from sluice.database.digests import Texts
from sluice.database.errors import ForeignKeyViolation, StatementFailed
from sluice.database.session import Session
from sluice.model.change import Action, RowChange
from sluice.vendors.common.replay import Replayer, Statement
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.errors import of_row, of_trigger
from sluice.vendors.oracle.session import native
from sluice.vendors.oracle.target.slave_tables import SlaveTable, SlaveTables, Words, count_under, differing, unfit


class OracleReplayer(Replayer[SlaveTable]):
    """Replays changes into one slave over one session."""

    def __init__(self, connection: Session, targets: SlaveTables):
        super().__init__(connection, targets)
        self.session = native(connection)

    def run(self, statement: Statement) -> int:
        return self.session.run(statement.text, statement.values).rowcount

    def strict(self, change: RowChange, target: SlaveTable, *, images: bool) -> list[Statement]:
        if change.action is Action.INSERT:
            return [_insert(target, change.new, counted=True)]
        old = change.old if images or not change.key else change.key_of(change.old)
        old = {name: text for name, text in old.items() if not target.column(name).generated or name in change.key}
        if change.action is Action.DELETE:
            return [_delete(target, old, counted=True, one=not change.key)]
        words = Words(target)
        one = "" if change.key else " AND ROWNUM <= 1"
        text = f"UPDATE {target.place} t SET {words.sets(change.new)} WHERE {words.equal(old)}{one}"
        return [Statement(text, words.values, counted=True)]

    def idempotent(self, change: RowChange, target: SlaveTable) -> list[Statement]:
        if not change.key:
            statements = [_delete(target, change.old, counted=False, one=True)] if change.old else []
            return [*statements, _insert(target, change.new)] if change.new else statements
        if change.action is Action.DELETE:
            return [_delete(target, change.key_of(change.old), counted=False)]
        new_key, statements = change.key_of(change.new), []
        old_key = change.key_of(change.old) if change.old else new_key
        if old_key != new_key:
            # A row that gets the new key keeps its own columns. If the key is taken, the old key's row is deleted.
            words = Words(target)
            text = f"UPDATE {target.place} t SET {words.sets(new_key)} WHERE {words.equal(old_key)} AND NOT EXISTS "
            text += f"(SELECT 1 FROM {target.place} t WHERE {words.equal(new_key)})"
            gone = None if change.partial else _delete(target, old_key, counted=False)
            statements.append(Statement(text, words.values, otherwise=gone))
        words = Words(target)
        update = f"UPDATE {target.place} t SET {words.sets(change.new)} WHERE {words.equal(new_key)}"
        if change.partial:
            # Columns that the change omits keep their values; a missing row cannot be inserted.
            return [*statements, Statement(update, words.values, counted=True)]
        return [*statements, Statement(update, words.values, otherwise=_insert(target, change.new))]

    def unfit(self, change: RowChange, target: SlaveTable, error: StatementFailed) -> Conflict | None:
        by_rule = isinstance(error, ForeignKeyViolation) or error.server_code == "ORA-2290" or of_trigger(error)
        return unfit(change.table, target.reason_shown(error)) if of_row(error) and not by_rule else None

    def displaced(self, change: RowChange, target: SlaveTable) -> list[DisplacedRow]:
        if not change.new:
            return []
        key = change.key_of(change.new)
        old_key = change.key_of(change.old) if change.old else key
        displaced: dict[Texts, DisplacedRow] = {}
        for index in target.uniques_beside(change.key):
            values = {name: change.new.get(name) for name in index.columns}
            if not any(values.values()):
                continue  # an index has no entry for a row with NULL in all of its columns
            words = Words(target)
            texts = ", ".join(target.column(name).text("t") for name in change.key)
            where = f"{words.equal(values)} AND NOT ({words.equal(key)}) AND NOT ({words.equal(old_key)})"
            for row in self.session.run(f"SELECT {texts} FROM {target.place} t WHERE {where}", words.values).fetchall():
                key_texts = tuple(map(ColumnTexts.shown, row))
                displaced[key_texts] = DisplacedRow(change, key_texts)
        for each in displaced.values():
            self.run(_delete(target, each.row, counted=False))
        return list(displaced.values())

    def count(self, target: SlaveTable, row: Mapping[str, str | None]) -> int:
        return count_under(self.session, target, row)

    def one_row(
        self, target: SlaveTable, key: Mapping[str, str | None], names: Sequence[str]
    ) -> dict[str, str | None] | None:
        words, texts = Words(target), ", ".join(target.column(name).text("t") for name in names)
        text = f"SELECT {texts} FROM {target.place} t WHERE {words.equal(key)}"
        row = self.session.run(text, words.values).fetchone()
        if row is None:
            return None
        return {name: ColumnTexts.shown(text) for name, text in zip(names, row, strict=True)}

    def differing(
        self, target: SlaveTable, key: Mapping[str, str | None], former: Mapping[str, str | None]
    ) -> dict[str, tuple[str | None, str | None]]:
        return differing(self.session, target, key, former)


def _insert(target: SlaveTable, row: Mapping[str, str | None], *, counted: bool = False) -> Statement:
    words = Words(target)
    columns, values = words.row(row)
    return Statement(f"INSERT INTO {target.place} ({columns}) VALUES ({values})", words.values, counted=counted)


def _delete(target: SlaveTable, row: Mapping[str, str | None], *, counted: bool, one: bool = False) -> Statement:
    words = Words(target)
    text = f"DELETE FROM {target.place} t WHERE {words.equal(row)}{' AND ROWNUM <= 1' if one else ''}"
    return Statement(text, words.values, counted=counted)
