"""Changes applied one by one in REPL_KEY order, in the caller's transaction: slower, and never in its own way.

    replayer = Replayer(connection, merger.targets, place)
    done = replayer.replay(items, {table: key}, safe=False)
    done.rejects                                     # with reject=True: the changes set aside, `aside` included

For windows whose net changes collide (`merge.Collision`), and for the policies of `on_conflict`:
`reject` sets aside each change that does not fit; `overwrite` is safe mode.

Statements go to the server in batches without waiting for each answer. Where a batch has trouble it is
undone and taken change by change, so that the one at fault is known. Raises, with everything undone and
the transaction still usable: `Drift`, `ValueUnfit`, `ChangeRefused`, `ColumnMissing`, `TargetMissing`,
`MalformedContent`; else errors of `connection.classify`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg

from sluice.domain.change import Action, RowChange
from sluice.domain.names import TableName
from sluice.errors import Terminal
from sluice.vendors.postgres import connection as connections
from sluice.vendors.postgres import pipeline, rewrite, unique
from sluice.vendors.postgres.drift import Drift, Misfit, rows_found
from sluice.vendors.postgres.rewrite import Rewriter, Statement
from sluice.vendors.postgres.stage import ValueUnfit
from sluice.vendors.postgres.target import Targets
from sluice.vendors.postgres.unique import Unique

_CHUNK = 500
_ALL, _BATCH, _ONE = "sluice_replay", "sluice_replay_batch", "sluice_replay_one"


class ChangeRefused(Misfit):
    """A constraint of the slave refuses a change that the master made."""

    def __init__(self, change: RowChange, reason: str):
        row = ", ".join(f"{name} = {value!r}" for name, value in change.shown.items())
        super().__init__(
            f"{change.table}, row {row}: the slave refuses the {change.action}: {reason}. Replicate the table it "
            "refers to as well, or drop the constraint on the slave, or set on_conflict: reject; then start applying "
            "again."
        )
        self.table = change.table
        self.change = change
        self.reason = reason


@dataclass
class Rejected:
    """A change that was set aside, for `<prefix>REJECTS`."""

    change: RowChange
    reason: str
    held: dict[str, str | None] | None
    """The row of that key on the slave, None for none."""
    newer: int | None = None
    """REPL_KEY of a later change of the same row that was applied."""


@dataclass
class Replayed:
    """What a replay did."""

    changes: int = 0
    rejects: list[Rejected] = field(default_factory=list)

    def passed(self, changes: Iterable[RowChange]) -> None:
        """These were applied after what is set aside by now."""
        rows: dict[tuple[Any, ...], list[Rejected]] = {}
        for reject in self.rejects:
            for row in _rows(reject.change):
                rows.setdefault(row, []).append(reject)
        for change in changes if rows else ():
            for row in _rows(change):
                for reject in rows.get(row, ()):
                    reject.newer = max(reject.newer or 0, change.repl_key)


@dataclass(frozen=True)
class _Waiting:
    """A change that a foreign key refused: what it refers to may follow, or go by a change of its own."""

    change: RowChange
    found: list[Statement]
    problem: Terminal
    former: tuple[Mapping[str, str | None], ...] = ()
    """What the row was before changes that this one stands for as well."""


@dataclass
class _Work:
    """A replay under way."""

    done: Replayed
    rewriter: Rewriter
    images: frozenset[TableName]
    safe: bool
    reject: bool
    waiting: list[_Waiting] = field(default_factory=list)

    def must_wait(self, change: RowChange) -> bool:
        """Whether an earlier change of the same row waits."""
        return any(_rows(change) & _rows(other.change) for other in self.waiting)

    def overtaken(self, change: RowChange) -> list[Mapping[str, str | None]]:
        """In safe mode a row's last change counts: takes out those that wait for what came before; the former rows.

        What the row once referred to may be gone for good, where changes are applied anew onto what came later.
        """
        former: list[Mapping[str, str | None]] = []
        left = []
        for each in self.waiting:
            other = each.change
            if (
                other.table == change.table
                and other.new
                and change.old
                and other.key_of(other.new) == change.key_of(change.old)
            ):
                former += [*each.former, *([other.old] if other.old else [])]
            elif not _rows(other) <= _rows(change):
                left.append(each)
        self.waiting = left
        return former


class Replayer:
    """Replays changes into one slave over one connection. `place` names it in messages."""

    def __init__(self, connection: psycopg.Connection[Any], targets: Targets, place: str, *, cascades: bool = False):
        self.connection = connection
        self.targets = targets
        self.place = place
        self.cascades = cascades
        self._uniques: dict[TableName, list[Unique]] = {}

    def replay(
        self,
        items: Any,
        keys: Mapping[TableName, Sequence[str]],
        *,
        safe: bool = False,
        images: Collection[TableName] = (),
        reject: bool = False,
        aside: Sequence[Rejected] = (),
    ) -> Replayed:
        """Applies `items` (columns of `queue.ITEMS`, rows only, in REPL_KEY order, of one or many tables).

        `keys`: the master's key of each table, empty for keyless ones. `images`: tables whose rows are also
        compared with their former images (normal mode). `reject` sets aside what does not fit instead of raising it;
        `aside` are those that the same window has set aside before.
        """
        batches = (
            [RowChange.of(item, keys[TableName(item["schema"], item["table"])]) for item in batch.to_pylist()]
            for batch in items.to_batches(max_chunksize=_CHUNK)
        )
        return self._replay(batches, safe=safe, images=images, reject=reject, aside=aside)

    def replay_changes(self, changes: Sequence[RowChange], *, safe: bool = False) -> Replayed:
        """The same of changes that are no items."""
        batches = (changes[start : start + _CHUNK] for start in range(0, len(changes), _CHUNK))
        return self._replay(batches, safe=safe, images=(), reject=False, aside=())

    def _replay(
        self, batches: Iterable[Sequence[RowChange]], *, safe: bool, images: Collection[TableName], reject: bool,
        aside: Sequence[Rejected],
    ) -> Replayed:  # fmt: skip
        done = Replayed(rejects=list(aside))
        self._uniques.clear()
        work = _Work(done, Rewriter(safe=safe, cascades=self.cascades), frozenset(images), safe, reject)
        try:
            self.connection.execute(f"SAVEPOINT {_ALL}")
            try:
                for changes in batches:
                    self._batch(changes, work)
                    done.changes += len(changes)
                for each in work.waiting:
                    self._settle(each.change, each.problem, work)
            except Terminal:
                self.connection.execute(f"ROLLBACK TO SAVEPOINT {_ALL}")
                raise
            self.connection.execute(f"RELEASE SAVEPOINT {_ALL}")
        except psycopg.Error as error:
            raise connections.classify(error, self.place) from error
        return done

    def _batch(self, changes: Sequence[RowChange], work: "_Work") -> None:
        self.targets.load(change.table for change in changes)
        steps = [(change, self._statements(change, work)) for change in changes]
        self.connection.execute(f"SAVEPOINT {_BATCH}")
        try:
            fits = not work.waiting and self._fits([statement for _, found in steps for statement in found])
        except psycopg.Error:
            fits = False
        if fits:
            work.done.passed(changes)
        else:
            self.connection.execute(f"ROLLBACK TO SAVEPOINT {_BATCH}")
            for change, found in steps:
                if self._in_turn(change, found, work):
                    self._try_waiting(work)
        self.connection.execute(f"RELEASE SAVEPOINT {_BATCH}")

    def _in_turn(
        self, change: RowChange, found: list[Statement], work: "_Work", former: Sequence[Mapping[str, str | None]] = ()
    ) -> bool:
        """Whether it is applied; otherwise it waits or is set aside, or what is wrong with it is raised."""
        problem: Terminal | None = None
        if work.safe and change.key:
            overtaken = work.overtaken(change)
            former = [*former, *overtaken]
            earlier = [self._statements(replace(change, old=row), work) for row in overtaken]
            found = [*(statement for each in earlier for statement in each), *found]
        if not work.must_wait(change):
            problem = self._one(change, found, images=change.table in work.images)
            if problem is None:
                work.done.passed([change])
                return True
            if not isinstance(problem, ChangeRefused):
                self._settle(change, problem, work)
                return False
        problem = problem or ChangeRefused(change, "an earlier change of the row waits")
        work.waiting.append(_Waiting(change, found, problem, tuple(former)))
        return False

    def _try_waiting(self, work: "_Work") -> None:
        """Those that wait, in their order, as long as one of them succeeds."""
        progress = bool(work.waiting)
        while progress:
            again, work.waiting = work.waiting, []
            done = [self._in_turn(each.change, each.found, work, each.former) for each in again]
            progress = any(done) and bool(work.waiting)

    def _settle(self, change: RowChange, problem: Terminal, work: "_Work") -> None:
        if not work.reject:
            raise problem
        work.done.rejects.append(Rejected(change, str(problem), self._held(change)))

    def _held(self, change: RowChange) -> dict[str, str | None] | None:
        """The row of that key on the slave, of the columns that are replicated."""
        target = self.targets[change.table]
        shown = [name for name in (change.new or change.old) if target.has(name)]
        if not change.key or not shown:
            return None
        parameters = rewrite.Parameters(target)
        texts = ", ".join(f"t.{target.column(name).quoted}::text" for name in shown)
        found: list[Any] = []
        for row in (change.old, change.new):
            if row and not found:
                parameters.values.clear()
                match = parameters.equal(change.key_of(row))
                text = f"SELECT ARRAY[{texts}]::text[] FROM {target.only} t WHERE {match} LIMIT 1"
                found = self._read(text, parameters.values)
        return dict(zip(shown, found[0][0], strict=True)) if found else None

    def _read(self, text: str, parameters: Sequence[Any]) -> list[Any]:
        """Nothing where the values themselves are what is wrong."""
        try:
            with self.connection.transaction():
                return psycopg.RawCursor(self.connection).execute(text, parameters).fetchall()
        except psycopg.DataError:
            return []

    def _statements(self, change: RowChange, work: "_Work") -> list[Statement]:
        uniques = self._unique(change.table) if work.safe else ()
        return work.rewriter.statements(change, self.targets[change.table], uniques, images=change.table in work.images)

    def _one(self, change: RowChange, found: Sequence[Statement], *, images: bool) -> Terminal | None:
        """Applies one change, or undoes it and says what is wrong with it."""
        self.connection.execute(f"SAVEPOINT {_ONE}")
        problem: Terminal | None = None
        try:
            if not self._fits(found):
                self.connection.execute(f"ROLLBACK TO SAVEPOINT {_ONE}")
                problem = self._missing(change, images)
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            self.connection.execute(f"ROLLBACK TO SAVEPOINT {_ONE}")
            problem = _refused(change, error)
        self.connection.execute(f"RELEASE SAVEPOINT {_ONE}")
        return problem

    def _fits(self, found: Sequence[Statement]) -> bool:
        """Sends the statements in one go; whether each counted one touched one row. Raises psycopg's errors."""
        try:
            touched = pipeline.send(self.connection, ((statement.text, statement.parameters) for statement in found))
        except pipeline.StatementsFailed as failed:
            raise failed.error from None
        return all(count == 1 for statement, count in zip(found, touched, strict=True) if statement.counted)

    def _unique(self, table: TableName) -> list[Unique]:
        if table not in self._uniques:
            self._uniques[table] = unique.read(self.connection, table)
        return self._uniques[table]

    def _missing(self, change: RowChange, images: bool) -> Drift:
        """The row that a change should have found."""
        target = self.targets[change.table]
        parameters = rewrite.Parameters(target)
        key = change.key_of(change.old or change.new)
        match = parameters.equal(key) if change.key else parameters.same(key)
        former = rewrite.compared(change, target, self.cascades) if images and change.key else {}
        former = {name: value for name, value in former.items() if name not in change.key}
        shown = ", ".join(f"t.{target.column(name).quoted}::text" for name in former)
        other = ", ".join(parameters.differences(former))
        text = f"SELECT ARRAY[{shown}]::text[], ARRAY[{other}]::boolean[] FROM {target.only} t WHERE {match} LIMIT 2"
        rows = psycopg.RawCursor(self.connection).execute(text, parameters.values).fetchall()
        if len(rows) != 1 or change.action is Action.INSERT or not former:
            expected = "none" if change.action is Action.INSERT else "one"
            return Drift(change.table, change.shown, str(change.action), expected, rows_found(len(rows)))
        found = zip(former, rows[0][0], rows[0][1], strict=True)
        values = {name: (now, former[name]) for name, now, differs in found if differs}
        return Drift.of_values(change.table, change.shown, str(change.action), values)


def _rows(change: RowChange) -> set[tuple[Any, ...]]:
    """What names the rows that a change touches."""
    return {(change.table, *sorted(change.key_of(row).items(), key=repr)) for row in (change.old, change.new) if row}


def _refused(change: RowChange, error: psycopg.Error) -> Terminal:
    reason = error.diag.message_primary or str(error)
    if error.diag.message_detail:
        reason += f" ({error.diag.message_detail})"
    if error.sqlstate in ("23505", "23P01"):
        return Drift(change.table, change.shown, str(change.action), "the value free", reason)
    if error.sqlstate == "23503":
        return ChangeRefused(change, reason)
    return ValueUnfit(change.table, error.diag.column_name, None, reason)
