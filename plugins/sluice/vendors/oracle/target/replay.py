"""Changes applied one by one in REPL_KEY order, in the caller's transaction.

For windows whose net changes collide (`merge.Collision`), and for the policies of `on_conflict`: `reject` sets aside
each change that does not fit, `overwrite` is safe mode.

| change | normal mode, each must touch one row | safe mode |
|---|---|---|
| INSERT | INSERT | UPDATE by key, INSERT where no row is there |
| UPDATE | UPDATE by key and, where they are known, former values | the old key's row moves or goes; as INSERT |
| DELETE | DELETE, likewise | DELETE by key |

Rows of another key that hold a unique value of the new row are found before, deleted, and reported as `displaced`: the
caller restores those that the master has. A row without a key is named by all its columns, and one copy is meant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sluice.database.apply import DisplacedRow
from sluice.database.conflicts import ChangeRefused, Drift, ValueTaken
from sluice.database.digests import Texts
from sluice.database.errors import ForeignKeyViolation, StatementFailed, UniqueViolation
from sluice.database.session import Session
from sluice.model.change import Action, RowChange
from sluice.vendors.common import replay
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.errors import refusal
from sluice.vendors.oracle.session import Value, native
from sluice.vendors.oracle.target.drift import differing
from sluice.vendors.oracle.target.slave_tables import SlaveTable, SlaveTables, Words, count_under, unfit


@dataclass
class Statement:
    """A text and its parameters."""

    text: str
    values: dict[str, Value] = field(default_factory=dict)
    counted: bool = False
    """Whether it must change one row."""
    otherwise: "Statement | None" = None
    """The statement that is run if it changed none."""


class Replayer(replay.Replayer[SlaveTable]):
    """Replays changes into one slave over one session."""

    def __init__(self, connection: Session, targets: SlaveTables):
        super().__init__(connection, targets)
        self.session = native(connection)

    def execute(self, change: RowChange, target: SlaveTable, *, safe: bool, images: bool) -> None:
        for statement in safe_statements(change, target) if safe else strict(change, target, images=images):
            if self._do(statement, change, target) != 1 and statement.counted:
                raise self.drift(change, target, images)

    def overwrite(self, change: RowChange, target: SlaveTable) -> None:
        for statement in safe_statements(change, target):
            self._do(statement, change, target)

    def displaced(self, change: RowChange, target: SlaveTable) -> list[DisplacedRow]:
        if not change.new:
            return []
        key = change.key_of(change.new)
        old_key = change.key_of(change.old) if change.old else key
        displaced: dict[Texts, DisplacedRow] = {}
        for index in target.uniques_beside(change.key):
            values = {name: change.new.get(name) for name in index.columns}
            if not any(values.values()):
                continue  # of a unique index too, NULL in all columns is not there
            words = Words(target)
            texts = ", ".join(target.column(name).text("t") for name in change.key)
            where = f"{words.equal(values)} AND NOT ({words.equal(key)}) AND NOT ({words.equal(old_key)})"
            for row in self.session.run(f"SELECT {texts} FROM {target.place} t WHERE {where}", words.values).fetchall():
                key_texts = tuple(map(ColumnTexts.shown, row))
                displaced[key_texts] = DisplacedRow(change, key_texts)
        for each in displaced.values():
            statement = _delete(target, each.row, counted=False)
            self.session.run(statement.text, statement.values)
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

    def _do(self, statement: Statement, change: RowChange, target: SlaveTable) -> int:
        """How many rows the statement touched. Raises `Conflict`."""
        try:
            result = self.session.run(statement.text, statement.values)
            if statement.otherwise is not None and result.rowcount == 0:
                self.session.run(statement.otherwise.text, statement.otherwise.values)
        except StatementFailed as error:
            raise self._refused(change, target, error) from None
        return result.rowcount

    def _refused(self, change: RowChange, target: SlaveTable, error: StatementFailed) -> Exception:
        reason = target.reason_shown(error)
        if isinstance(error, UniqueViolation):
            if change.action is Action.INSERT and change.key and self.rows_under(target, change.key_of(change.new)):
                return Drift(change.table, change.shown, str(change.action), "none", "one")
            return ValueTaken(change, reason)
        refused = refusal(error)
        if isinstance(error, ForeignKeyViolation) or refused.code == "ORA-2290" or refused.of_trigger:
            return ChangeRefused(change, reason)
        return unfit(change.table, reason) if refused.of_row else error


def strict(change: RowChange, target: SlaveTable, *, images: bool) -> list[Statement]:
    """Normal mode. `images`: the row must also look as the master's did. Raises `ColumnMissing`."""
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


def safe_statements(change: RowChange, target: SlaveTable) -> list[Statement]:
    """Safe mode: afterwards the row is as the change says. Raises `ColumnMissing`."""
    if not change.key:
        statements = [_delete(target, change.old, counted=False, one=True)] if change.old else []
        return [*statements, _insert(target, change.new)] if change.new else statements
    if change.action is Action.DELETE:
        return [_delete(target, change.key_of(change.old), counted=False)]
    new_key, statements = change.key_of(change.new), []
    old_key = change.key_of(change.old) if change.old else new_key
    if old_key != new_key:
        # A row that takes the new key keeps the columns of its own; where that is taken the row at the old key goes.
        words = Words(target)
        text = f"UPDATE {target.place} t SET {words.sets(new_key)} WHERE {words.equal(old_key)} AND NOT EXISTS "
        text += f"(SELECT 1 FROM {target.place} t WHERE {words.equal(new_key)})"
        gone = None if change.partial else _delete(target, old_key, counted=False)
        statements.append(Statement(text, words.values, otherwise=gone))
    words = Words(target)
    update = f"UPDATE {target.place} t SET {words.sets(change.new)} WHERE {words.equal(new_key)}"
    if change.partial:
        # What it does not name stays as it is; a row that is not there is not made up.
        return [*statements, Statement(update, words.values, counted=True)]
    return [*statements, Statement(update, words.values, otherwise=_insert(target, change.new))]


def _insert(target: SlaveTable, row: Mapping[str, str | None], *, counted: bool = False) -> Statement:
    words = Words(target)
    columns, values = words.row(row)
    return Statement(f"INSERT INTO {target.place} ({columns}) VALUES ({values})", words.values, counted=counted)


def _delete(target: SlaveTable, row: Mapping[str, str | None], *, counted: bool, one: bool = False) -> Statement:
    words = Words(target)
    text = f"DELETE FROM {target.place} t WHERE {words.equal(row)}{' AND ROWNUM <= 1' if one else ''}"
    return Statement(text, words.values, counted=counted)
