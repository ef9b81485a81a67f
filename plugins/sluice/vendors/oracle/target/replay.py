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

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sluice.database.apply import DisplacedRow, Replayed
from sluice.database.conflicts import ChangeRefused, Conflict, Drift, RuleUndecidable, ValueTaken, decide, rows_found
from sluice.database.errors import ForeignKeyViolation, StatementFailed, UniqueViolation
from sluice.database.session import Session
from sluice.model.change import Action, RowChange
from sluice.model.conflict_rule import NO_RULES, ConflictRule, Decision, Winner, already_applied
from sluice.model.names import TableName
from sluice.model.reject import Rejected
from sluice.vendors.oracle.errors import refusal
from sluice.vendors.oracle.session import Value, native
from sluice.vendors.oracle.target.drift import differing
from sluice.vendors.oracle.target.slave_tables import SlaveTable, SlaveTables, ValueUnfit, Words, found_under

_CHUNK = 500


@dataclass
class Statement:
    """A text and its parameters."""

    text: str
    values: dict[str, Value] = field(default_factory=dict)
    counted: bool = False
    """It must touch one row."""
    otherwise: "Statement | None" = None
    """What is run where it touched none."""


@dataclass
class _Work:
    done: Replayed
    safe: bool
    images: frozenset[TableName]
    reject: bool
    rules: Mapping[TableName, ConflictRule] = field(default_factory=lambda: NO_RULES)


class Replayer:
    """Replays changes into one slave over one session."""

    def __init__(self, connection: Session, targets: SlaveTables):
        self.connection = connection
        self.session = native(connection)
        self.targets = targets

    def replay(
        self,
        items: Any,
        keys: Mapping[TableName, Sequence[str]],
        *,
        safe: bool = False,
        images: Collection[TableName] = (),
        reject: bool = False,
        earlier_rejects: Sequence[Rejected] = (),
        deferrable: bool = False,
        rules: Mapping[TableName, ConflictRule] = NO_RULES,
    ) -> Replayed:
        """See `sluice.database.apply.Replayer`. Unique values are never deferred here."""
        del deferrable
        changes = (
            RowChange.of(item, keys[TableName(item["schema"], item["table"])], self.targets.mask)
            for batch in items.to_batches(max_chunksize=_CHUNK)
            for item in batch.to_pylist()
        )
        done = Replayed(rejects=list(earlier_rejects))
        return self._replay(changes, _Work(done, safe, frozenset(images), reject, rules))

    def replay_changes(self, changes: Sequence[RowChange], *, safe: bool = False, deferrable: bool = False) -> Replayed:
        """The same of changes that are no items."""
        del deferrable
        masked = (replace(change, mask=self.targets.mask) for change in changes)
        return self._replay(masked, _Work(Replayed(), safe, frozenset(), reject=False))

    def missing(self, displaced: Iterable[DisplacedRow]) -> list[DisplacedRow]:
        """Those that are not on the slave now."""
        return [each for each in displaced if not self._rows_under(self.targets[each.table], each.row)]

    def _replay(self, changes: Iterable[RowChange], work: _Work) -> Replayed:
        with self.session.transaction():
            for change in changes:
                try:
                    # A statement that fails leaves nothing, but one before it may.
                    with self.session.transaction():
                        self._one(change, work)
                except Conflict as conflict:
                    self._settle(change, conflict, work)
                else:
                    work.done.passed([change])
                work.done.changes += 1
        return work.done

    def _one(self, change: RowChange, work: _Work) -> None:
        target = self.targets[change.table]
        if work.safe and change.key:
            for each in self._displaced(change, target):
                work.done.displaced[each.table, each.key] = each
        images = change.table in work.images
        for statement in safe(change, target) if work.safe else strict(change, target, images=images):
            touched = self._do(statement, change, target)
            if statement.counted and touched != 1:
                raise self._drift(change, target, images)

    def _do(self, statement: Statement, change: RowChange, target: SlaveTable) -> int:
        """How many rows the statement touched. Raises `Conflict`."""
        try:
            found = self.session.run(statement.text, statement.values)
            if statement.otherwise is not None and found.rowcount == 0:
                self.session.run(statement.otherwise.text, statement.otherwise.values)
        except StatementFailed as error:
            raise self._refused(change, target, error) from None
        return found.rowcount

    def _settle(self, change: RowChange, problem: Conflict, work: _Work) -> None:
        held = self._held(change)
        rule = work.rules.get(change.table)
        if rule is not None:
            if already_applied(change, held):
                return
            try:
                decision = self._decide(rule, change, held, problem)
            except RuleUndecidable as undecided:
                problem = undecided
            else:
                work.done.rejects.append(Rejected(change, problem.finding, held, decision=decision))
                return
        if not work.reject:
            raise problem
        work.done.rejects.append(Rejected(change, problem.finding, held))

    def _decide(
        self, rule: ConflictRule, change: RowChange, held: Mapping[str, str | None] | None, conflict: Conflict
    ) -> Decision:
        """Does what the rule says. Raises `RuleUndecidable`, also where the master's row wins and does not fit."""
        decision = decide(rule, change, held, conflict)
        if decision.winner is Winner.MASTER:
            target = self.targets[change.table]
            try:
                with self.session.transaction():
                    # The row becomes the change's; no other one goes.
                    for statement in safe(change, target):
                        self._do(statement, change, target)
            except Conflict as refused:
                reason = f"the master's row does not fit. {refused.finding}"
                raise RuleUndecidable(conflict, rule, reason) from None
        return decision

    def _displaced(self, change: RowChange, target: SlaveTable) -> list[DisplacedRow]:
        """The rows of another key that hold a unique value of the new row; they are deleted here."""
        if not change.new:
            return []
        key = change.key_of(change.new)
        mine = change.key_of(change.old) if change.old else key
        found: dict[tuple[str | None, ...], DisplacedRow] = {}
        for index in target.uniques_beside(change.key):
            values = {name: change.new.get(name) for name in index.columns}
            if not any(values.values()):
                continue  # of a unique index too, NULL in all columns is not there
            words = Words(target)
            texts = ", ".join(target.column(name).text("t") for name in change.key)
            where = f"{words.equal(values)} AND NOT ({words.equal(key)}) AND NOT ({words.equal(mine)})"
            for row in self.session.run(f"SELECT {texts} FROM {target.place} t WHERE {where}", words.values).fetchall():
                shown = tuple(target.column(name).shown(text) for name, text in zip(change.key, row, strict=True))
                found[shown] = DisplacedRow(change, shown)
        for each in found.values():
            statement = _delete(target, each.row, counted=False)
            self.session.run(statement.text, statement.values)
        return list(found.values())

    # What is wrong with a change

    def _refused(self, change: RowChange, target: SlaveTable, error: StatementFailed) -> Exception:
        reason = target.said(error)
        if isinstance(error, UniqueViolation):
            if change.action is Action.INSERT and change.key and self._rows_under(target, change.key_of(change.new)):
                return Drift(change.table, change.shown, str(change.action), "none", "one")
            return ValueTaken(change, reason)
        found = refusal(error)
        if isinstance(error, ForeignKeyViolation) or found.code == "ORA-2290" or found.of_trigger:
            return ChangeRefused(change, reason)
        return ValueUnfit(change.table, reason) if found.of_row else error

    def _drift(self, change: RowChange, target: SlaveTable, images: bool) -> Drift:
        """The row that a change should have found."""
        key = change.key_of(change.old or change.new)
        rows = self._rows_under(target, key)
        if rows != 1 or not change.key or not images:
            return Drift(change.table, change.shown, str(change.action), "one", rows_found(rows))
        former = {name: text for name, text in change.old.items() if name not in change.key}
        values = differing(self.session, target, key, former)
        return Drift.of_values(change.table, change.shown, str(change.action), values, self.targets.mask)

    def _rows_under(self, target: SlaveTable, key: Mapping[str, str | None]) -> int:
        """How many rows have these values, two at most; none where the values themselves are what is wrong."""
        try:
            return found_under(self.session, target, key)
        except StatementFailed:
            return 0

    def _held(self, change: RowChange) -> dict[str, str | None] | None:
        """The row of that key on the slave, of the columns that are replicated."""
        target = self.targets[change.table]
        names = [name for name in (change.new or change.old) if target.has(name)]
        if not change.key or not names:
            return None
        texts = ", ".join(target.column(name).text("t") for name in names)
        for row in (change.old, change.new):
            if not row:
                continue
            words = Words(target)
            text = f"SELECT {texts} FROM {target.place} t WHERE {words.equal(change.key_of(row))}"
            try:
                found = self.session.run(text, words.values).fetchone()
            except StatementFailed:
                continue
            if found is not None:
                return {name: target.column(name).shown(text) for name, text in zip(names, found, strict=True)}
        return None


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


def safe(change: RowChange, target: SlaveTable) -> list[Statement]:
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
