"""Changes applied one by one in REPL_KEY order, in the caller's transaction.

For windows whose net changes collide (`merge.Collision`), and for the policies of `on_conflict`: `reject` sets aside
each change that does not fit, `overwrite` is safe mode.

| change | normal mode, each must touch one row | safe mode |
|---|---|---|
| INSERT | INSERT | REPLACE |
| UPDATE | UPDATE by key and, where they are known, former values | DELETE by the old key, REPLACE |
| DELETE | DELETE, likewise | DELETE by key |

REPLACE deletes every row that holds a unique value of the new one. Those of another key are found before, and named in
`displaced`: the caller restores those that the master has. A table with columns of its own gets UPDATE, and INSERT
where no row is there, in place of REPLACE, which would forget them. A row without a key is named by all its columns,
and one copy is meant.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sluice.database.apply import DisplacedRow, Replayed
from sluice.database.conflicts import ChangeRefused, Conflict, Drift, RuleUndecidable, ValueTaken, decide, rows_found
from sluice.database.errors import StatementFailed, UniqueViolation
from sluice.database.session import Session
from sluice.model.change import Action, RowChange
from sluice.model.conflict_rule import NO_RULES, ConflictRule, Decision, Winner, already_applied
from sluice.model.names import TableName
from sluice.model.reject import Rejected
from sluice.vendors.mysql.connection import native
from sluice.vendors.mysql.errors import OF_ROWS, refusal
from sluice.vendors.mysql.target.rows_in import ValueUnfit
from sluice.vendors.mysql.target.slave_tables import SlaveTable, SlaveTables

_CHUNK = 500


@dataclass
class Statement:
    """A text and its parameters."""

    text: str
    values: dict[str, str | None] = field(default_factory=dict)
    counted: bool = False
    """It must touch one row."""


class _Words:
    """Conditions and values of one statement; collects its parameters."""

    def __init__(self, target: SlaveTable):
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
        return ", ".join(f"{self._name(name)} = {self.value(name, text)}" for name, text in self._written(row).items())

    def row(self, row: Mapping[str, str | None]) -> str:
        """Columns and values, as INSERT and REPLACE take them."""
        written = self._written(row)
        names = ", ".join(self._name(name) for name in written)
        return f"({names}) VALUES ({', '.join(self.value(name, text) for name, text in written.items())})"

    def _name(self, name: str) -> str:
        return self.target.column(name).quoted.replace("%", "%%")

    def _written(self, row: Mapping[str, str | None]) -> dict[str, str | None]:
        return {name: text for name, text in row.items() if not self.target.column(name).generated}


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
        """See `sluice.database.apply.Replayer`. Nothing is deferred here."""
        changes = (
            RowChange.of(item, keys[TableName(item["schema"], item["table"])], self.targets.mask)
            for batch in items.to_batches(max_chunksize=_CHUNK)
            for item in batch.to_pylist()
        )
        done = Replayed(rejects=list(earlier_rejects))
        return self._replay(changes, _Work(done, safe, frozenset(images), reject, rules))

    def replay_changes(self, changes: Sequence[RowChange], *, safe: bool = False, deferrable: bool = False) -> Replayed:
        """The same of changes that are no items."""
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
            try:
                with self.session.transaction():
                    self._overwrite(change)
            except Conflict as refused:
                reason = f"the master's row does not fit. {refused.finding}"
                raise RuleUndecidable(conflict, rule, reason) from None
        return decision

    def _overwrite(self, change: RowChange) -> None:
        """The row becomes the change's; no other one goes. Raises `Conflict`."""
        target = self.targets[change.table]
        if target.has_own(tuple(change.new)) or not change.new:
            statements = safe(change, target)
        else:
            statements = [_delete(target, change.key_of(row), counted=False) for row in (change.old, change.new) if row]
            statements += strict(replace(change, action=Action.INSERT), target, images=False)
        for statement in statements:
            try:
                self._run_one(statement)
            except StatementFailed as error:
                raise self._refused(change, target, error) from None

    def _one(self, change: RowChange, work: _Work) -> None:
        target = self.targets[change.table]
        if work.safe and change.key:
            for each in self._displaced(change, target):
                work.done.displaced[each.table, each.key] = each
        images = change.table in work.images
        for statement in safe(change, target) if work.safe else strict(change, target, images=images):
            try:
                found = self.session.run(statement.text, statement.values)
            except StatementFailed as error:
                raise self._refused(change, target, error) from None
            if statement.counted and found.rowcount != 1:
                raise self._drift(change, target, images)

    def _displaced(self, change: RowChange, target: SlaveTable) -> list[DisplacedRow]:
        """The rows of another key that hold a unique value of the new row; they are deleted here."""
        if not change.new:
            return []
        key = change.key_of(change.new)
        mine = change.key_of(change.old) if change.old else key
        found: dict[tuple[str | None, ...], DisplacedRow] = {}
        for index in target.uniques_beside(change.key):
            if any(change.new.get(name) is None for name in index.columns):
                continue
            words = _Words(target)
            meets = words.equal({name: change.new[name] for name in index.columns})
            texts = ", ".join(target.column(name).text("t").replace("%", "%%") for name in change.key)
            other = f"NOT ({words.equal(key)}) AND NOT ({words.equal(mine)})"
            place = target.place.replace("%", "%%")
            text = f"SELECT {texts} FROM {place} t WHERE {meets} AND {other}"
            for row in self.session.run(text, words.values).fetchall():
                shown = tuple(target.column(name).shown(text) for name, text in zip(change.key, row, strict=True))
                found[shown] = DisplacedRow(change, shown)
        for each in found.values():
            self._run_one(_delete(target, each.row, counted=False))
        return list(found.values())

    def _run_one(self, statement: Statement) -> None:
        self.session.run(statement.text, statement.values)

    # What is wrong with a change

    def _refused(self, change: RowChange, target: SlaveTable, error: StatementFailed) -> Exception:
        said = refusal(error)
        reason = f"error {said.number}; its text may hold values of masked columns" if target.hidden else said.text
        if isinstance(error, UniqueViolation):
            if change.action is Action.INSERT and change.key and self._rows_under(target, change.key_of(change.new)):
                return Drift(change.table, change.shown, str(change.action), "none", "one")
            return ValueTaken(change, reason)
        if said.number in (1644, 3819, 4025, 1451, 1452):
            return ChangeRefused(change, reason)
        return ValueUnfit(change.table, reason) if said.number in OF_ROWS else error

    def _drift(self, change: RowChange, target: SlaveTable, images: bool) -> Drift:
        """The row that a change should have found."""
        row = change.old or change.new
        rows = self._rows_under(target, change.key_of(row))
        if len(rows) != 1 or not change.key or not images:
            return Drift(change.table, change.shown, str(change.action), "one", rows_found(len(rows)))
        former = {name: text for name, text in change.old.items() if name not in change.key}
        words = _Words(target)
        same = {name: words.equal({name: text}) for name, text in former.items()}
        where = words.equal(change.key_of(row))
        selected = []
        for name, condition in same.items():
            selected += [target.column(name).text("t").replace("%", "%%"), f"NOT ({condition})"]
        place = target.place.replace("%", "%%")
        found = self.session.run(f"SELECT {', '.join(selected)} FROM {place} t WHERE {where}", words.values).fetchone()
        values = {}
        for number, name in enumerate(former):
            now, differs = found[2 * number : 2 * number + 2] if found else (None, False)
            if differs:
                values[name] = (target.column(name).shown(now), former[name])
        return Drift.of_values(change.table, change.shown, str(change.action), values, self.targets.mask)

    def _rows_under(self, target: SlaveTable, key: Mapping[str, str | None]) -> list[tuple[Any, ...]]:
        """The rows with these values; two at most. None where the values themselves are what is wrong."""
        words = _Words(target)
        place = target.place.replace("%", "%%")
        text = f"SELECT 1 FROM {place} t WHERE {words.equal(key)} LIMIT 2"
        try:
            return list(self.session.run(text, words.values).fetchall())
        except StatementFailed:
            return []

    def _held(self, change: RowChange) -> dict[str, str | None] | None:
        """The row of that key on the slave, of the columns that are replicated."""
        target = self.targets[change.table]
        names = [name for name in (change.new or change.old) if target.has(name)]
        if not change.key or not names:
            return None
        texts = ", ".join(target.column(name).text("t").replace("%", "%%") for name in names)
        place = target.place.replace("%", "%%")
        for row in (change.old, change.new):
            if not row:
                continue
            words = _Words(target)
            text = f"SELECT {texts} FROM {place} t WHERE {words.equal(change.key_of(row))} LIMIT 1"
            try:
                found = self.session.run(text, words.values).fetchone()
            except StatementFailed:
                continue
            if found is not None:
                return {name: target.column(name).shown(text) for name, text in zip(names, found, strict=True)}
        return None


def strict(change: RowChange, target: SlaveTable, *, images: bool) -> list[Statement]:
    """Normal mode. `images`: the row must also look as the master's did. Raises `ColumnMissing`."""
    place = target.place.replace("%", "%%")
    words = _Words(target)
    if change.action is Action.INSERT:
        return [Statement(f"INSERT INTO {place} {words.row(change.new)}", words.values, counted=True)]
    old = change.old if images or not change.key else change.key_of(change.old)
    old = {name: text for name, text in old.items() if not target.column(name).generated or name in change.key}
    limit = "" if change.key else " LIMIT 1"
    if change.action is Action.DELETE:
        return [_delete(target, old, counted=True, limit=limit)]
    text = f"UPDATE {place} SET {words.sets(change.new)} WHERE {words.equal(old)}{limit}"
    return [Statement(text, words.values, counted=True)]


def safe(change: RowChange, target: SlaveTable) -> list[Statement]:
    """Safe mode: afterwards the row is as the change says. Raises `ColumnMissing`."""
    place = target.place.replace("%", "%%")
    if not change.key:
        return _safe_keyless(change, target)
    if change.action is Action.DELETE:
        return [_delete(target, change.key_of(change.old), counted=False)]
    new_key = change.key_of(change.new)
    moved = bool(change.old) and change.key_of(change.old) != new_key
    if change.partial:
        # What it does not name stays as it is; a row that is not there is not made up.
        renamed = [_rename(target, change.key_of(change.old), new_key)] if moved else []
        words = _Words(target)
        text = f"UPDATE {place} SET {words.sets(change.new)} WHERE {words.equal(new_key)}"
        return [*renamed, Statement(text, words.values, counted=True)]
    if target.has_own(tuple(change.new)):
        # Where the old key's row is there it takes the new key, with the columns of its own.
        statements = [_rename(target, change.key_of(change.old), new_key)] if moved else []
        words, more = _Words(target), _Words(target)
        update = f"UPDATE {place} SET {words.sets(change.new)} WHERE {words.equal(new_key)}"
        row = more.row(change.new)
        names, values = row.split(" VALUES ", 1)
        insert = (
            f"INSERT INTO {place} {names} SELECT {values[1:-1]} FROM (SELECT 1 AS one) AS once "
            f"WHERE NOT EXISTS (SELECT 1 FROM {place} WHERE {more.equal(new_key)})"
        )
        return [*statements, Statement(update, words.values), Statement(insert, more.values)]
    words = _Words(target)
    put = Statement(f"REPLACE INTO {place} {words.row(change.new)}", words.values)
    if change.action is Action.UPDATE:
        return [_delete(target, change.key_of(change.old), counted=False), put]
    return [put]


def _safe_keyless(change: RowChange, target: SlaveTable) -> list[Statement]:
    statements = []
    if change.old:
        statements.append(_delete(target, change.old, counted=False, limit=" LIMIT 1"))
    if change.new:
        words = _Words(target)
        place = target.place.replace("%", "%%")
        statements.append(Statement(f"INSERT INTO {place} {words.row(change.new)}", words.values))
    return statements


def _delete(target: SlaveTable, row: Mapping[str, str | None], *, counted: bool, limit: str = "") -> Statement:
    words = _Words(target)
    place = target.place.replace("%", "%%")
    return Statement(f"DELETE FROM {place} WHERE {words.equal(row)}{limit}", words.values, counted=counted)


def _rename(target: SlaveTable, old: Mapping[str, str | None], new: Mapping[str, str | None]) -> Statement:
    """The row at the old key takes the new one, where that is free."""
    words = _Words(target)
    place = target.place.replace("%", "%%")
    taken = f"NOT EXISTS (SELECT 1 FROM (SELECT * FROM {place}) AS other WHERE {words.equal(new)})"
    return Statement(f"UPDATE {place} SET {words.sets(new)} WHERE {words.equal(old)} AND {taken}", words.values)
