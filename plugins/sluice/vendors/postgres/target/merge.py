"""Merges the net changes of a window into the slave: a few statements a table, in the caller's transaction.

    merger = Merger(connection, cascades=not replica_role)            # one a session
    merged = merger.merge([net_changes_or_staged, …], safe=False)
    merger.targets.forget(table)                                      # after DDL on the slave

Deletes go first, children before parents; then updates, moves and inserts, parents before children. In normal mode
every statement must touch exactly the rows it names. In safe mode it need not: missing rows are inserted, present ones
updated, and rows to delete may be absent.

Raises, after undoing everything and with the transaction still usable:

- `Drift`: the slave's rows are not the master's former ones (normal mode only);
- `Collision`: the changes do not work as sets; use `replay`;
- `ValueUnfit`, `ColumnMissing`, `SlaveTableMissing`: the slave's definition does not take the changes;
- the errors of the session, after which the transaction is lost.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import psycopg

from sluice.counted import counted
from sluice.database.apply import Staged
from sluice.database.conflicts import Collision, Drift, ValueUnfit, rows_found
from sluice.database.net_changes import KINDS, NetChanges
from sluice.database.session import Session
from sluice.model.mask import NO_PATTERNS, Mask
from sluice.model.names import TableName
from sluice.vendors.postgres import errors, pipeline
from sluice.vendors.postgres.connection import native
from sluice.vendors.postgres.target import merge_statements, stage
from sluice.vendors.postgres.target.conflicts import refuses
from sluice.vendors.postgres.target.slave_tables import SlaveColumn, SlaveTable, SlaveTables
from sluice.vendors.postgres.target.stage import Relation, Rows, Source

SMALL_ROWS = 2_000
SMALL_BYTES = 1 << 20
"""Up to this size rows are sent as parameters of the statement: no stage table, one round trip for all tables."""

# Kinds of steps: first those that delete, children before parents; then the others, parents before children.
FIRST = ("delete", "remove")
THEN = ("update", "move", "upsert", "insert")
# The kind of step that each table of `NetChanges` becomes, in normal and in safe mode.
STRICT = {"deletes": "delete", "updates": "update", "moves": "move", "inserts": "insert"}
SAFE = {"deletes": "delete", "updates": "upsert", "inserts": "upsert"}
# The action in messages.
ACTION = {
    "delete": "DELETE",
    "remove": "DELETE",
    "update": "UPDATE",
    "move": "UPDATE",
    "upsert": "UPDATE",
    "insert": "INSERT",
}


@dataclass(frozen=True)
class MergeStep:
    """One set of rows of one table, applied by one kind of statement."""

    kind: str
    """delete, remove (copies), update, move, upsert (update, then insert what is absent), insert."""
    target: SlaveTable
    columns: tuple[str, ...]
    key: tuple[str, ...]
    rows: Rows
    counted: bool
    """Whether it must touch exactly `rows.count` rows."""
    compared: bool
    """Whether each of those must have the old image's values."""
    cascades: bool
    """Foreign keys of the slave act in this session."""

    @cached_property
    def typed(self) -> list[SlaveColumn | None]:
        return stage.labels(self.target, self.columns, self.key, self.rows.names)

    @property
    def small(self) -> bool:
        rows = self.rows.arrow
        if rows is None or rows.num_rows > SMALL_ROWS or rows.nbytes > SMALL_BYTES:
            return False
        return all(column is None or column.castable for column in self.typed)

    @property
    def key_places(self) -> list[str]:
        """The source's columns with the key under which the slave has the row."""
        if "k1" in self.rows.names:
            return [f"k{number}" for number in range(1, len(self.key) + 1)]
        return [f"c{self.columns.index(name) + 1}" for name in self.key]

    @property
    def images(self) -> list[tuple[SlaveColumn, str]]:
        """The columns that are compared, and the source's columns with their former values."""
        if not self.compared:
            return []
        numbered = ((self.target.column(name), f"b{number}") for number, name in enumerate(self.columns, start=1))
        return [
            (column, self.rows.image(column_of_stage))
            for column, column_of_stage in numbered
            if column.name not in self.key and column.comparable(self.cascades)
        ]

    @property
    def same_key(self) -> str:
        return merge_statements.same_key(self.target, self.key, self.key_places)

    def texts(self, source: Source) -> list[str]:
        """The statements, in order."""
        target, columns, sql = self.target, self.columns, source.sql
        if self.kind == "remove":
            return [merge_statements.remove(target, columns, sql)]
        if self.kind == "insert":
            return [merge_statements.insert(target, columns, sql)]
        match = " AND ".join([self.same_key, *merge_statements.same_images(self.images)])
        if self.kind == "delete":
            return [merge_statements.delete(target, sql, match)]
        if self.kind == "move":
            return [merge_statements.update(target, columns, sql, match)]
        update = merge_statements.update(target, columns, sql, match, skip=self.key)
        if self.kind == "update":
            return [update]
        return [
            update,
            merge_statements.insert(target, columns, sql, merge_statements.absent(target, match), self.key_places),
        ]


_SAVEPOINT = "sluice_merge"
_COLLISIONS = ("23503", "23505", "23P01")
"""Foreign key, unique, exclusion: the order of the changes matters."""
_STALE = ("42703", "42P01", "42804", "42883")
"""Column, table, type, operator: the table was altered since its definition was read."""
_UNFIT = ("22", "23502", "23514")
"""Data exceptions, NOT NULL, CHECK."""

_PREPARED = 4_000
"""Prepared statements kept: a few for each of a thousand tables. Each takes some 33 KB in the slave's session."""
_WIDEST = 1_600
"""The most columns of a stage table (of a sub-select 1,664)."""


class Merger:
    """Merges into one slave over one connection.

    `cascades`: the foreign keys and triggers of the slave act in this session.
    """

    def __init__(self, connection: Session, *, cascades: bool, mask: Mask = NO_PATTERNS):
        self.connection = connection
        self.cascades = cascades
        self.targets = SlaveTables(connection, mask)
        self._raw = psycopg.RawCursor(native(connection))
        self._stages = 0
        self._saved = False
        """Whether this transaction has the savepoint of an earlier merge. The commit releases the last one."""
        self._read_again = False
        """Whether this merge has read the slave's tables twice: what does not exist then, a value names."""
        driver = native(connection)
        driver.prepared_max = max(driver.prepared_max or 0, _PREPARED)

    def begin(self, immediate: Collection[str] = ()) -> None:
        """In a new transaction: defers all constraints but those in `immediate` (quoted names)."""
        self._saved = False
        self.connection.execute("SET CONSTRAINTS ALL DEFERRED")
        for constraint in sorted(immediate):
            self.connection.execute(f"SET CONSTRAINTS {constraint} IMMEDIATE".encode())

    def merge(self, changes: Iterable[NetChanges | Staged], *, safe: bool = False) -> int:
        """Applies the net changes of a window (or slice). Several of one table must not share keys. Returns how many
        rows of the slave were touched."""
        changes = [change for change in changes if isinstance(change, Staged) or change.rows]
        if not changes:
            return 0
        if self.cascades:
            # Foreign keys and triggers may have been added since they were read; no statement would fail because of it.
            self.targets.forget()
        self._read_again = False
        reinserted: set[TableName] = set()
        while True:
            try:
                return self._merge(changes, safe, reinserted)
            except Collision as collision:
                # Rows exchange unique values: delete and insert them instead, where nothing notices that.
                table = collision.table
                if not collision.unique or table in reinserted or not self._may_reinsert(table, changes):
                    raise
                reinserted.add(table)
            except psycopg.Error as error:
                if error.sqlstate not in _STALE or self._read_again:
                    raise
                self.targets.forget()  # the slave's tables were altered: read them again, once
                self._read_again = True

    # Planning the steps

    def _merge(self, changes: Sequence[NetChanges | Staged], safe: bool, reinserted: Collection[TableName]) -> int:
        self.targets.load(change.table for change in changes)
        rank = {table: index for index, table in enumerate(self.targets.order(change.table for change in changes))}
        steps = self._steps(changes, safe, reinserted)
        if self.cascades:
            self._reject_unsafe_cascades(steps, rank)
        late = self._late(steps) if self.cascades else ()
        first = [step for step in steps if step.kind in FIRST]
        then = [step for step in steps if step.kind not in FIRST]
        first.sort(key=lambda step: -rank[step.target.table])
        then.sort(key=lambda step: (rank[step.target.table], THEN.index(step.kind)))
        early = [step for step in first if step.target.table not in late]
        return self._apply([*early, *then, *(step for step in first if step.target.table in late)])

    def _steps(
        self, changes: Sequence[NetChanges | Staged], safe: bool, reinserted: Collection[TableName]
    ) -> list[MergeStep]:
        """`reinserted`: tables whose changed rows are deleted and inserted."""
        shares: dict[TableName, list[NetChanges | Staged]] = {}
        for change in changes:
            shares.setdefault(change.table, []).append(change)
        steps = [step for table, parts in shares.items() for step in self._steps_of(table, parts, safe, reinserted)]
        for step in steps:
            if len(step.rows.names) > _WIDEST:
                reason = "so many columns and their old images are too many for one statement"
                raise Collision(step.target.table, reason)
        return steps

    def _steps_of(
        self,
        table: TableName,
        parts: Sequence[NetChanges | Staged],
        safe: bool,
        reinserted: Collection[TableName],
    ) -> list[MergeStep]:
        """The steps of one table. Raises `Collision` if it needs what foreign keys or triggers would notice."""
        target, columns, key = self.targets[table], _columns(parts), parts[0].key
        compared = bool(key) and not safe and all(part.compared for part in parts)
        sets = _RowSets.of(parts, columns, key, compared)
        kinds = SAFE if safe and key else STRICT
        may_reinsert = self._may_reinsert(table, parts)
        if key:
            if sets.rows["moves"] and may_reinsert:
                sets.reinsert_moves()
            elif sets.rows["moves"] and (safe or any(target.column(name).identity == "a" for name in key)):
                raise Collision(table, "the keys of rows change that others may refer to")
            rewritten = sets.rows["updates"] or (safe and sets.rows["inserts"])
            if table in reinserted or (rewritten and _has_always_identity(target, columns, key)):
                if not may_reinsert:
                    raise Collision(table, "a column changes that only the database itself may update")
                sets.reinsert_updates(safe)
                kinds = STRICT
        elif sets.rows["deletes"] and sets.rows["inserts"] and not may_reinsert:
            raise Collision(table, "rows without a key change, and may not be deleted and inserted instead")
        return [
            MergeStep(
                kinds[kind] if key or kind != "deletes" else "remove",
                target,
                columns,
                key,
                rows,
                not safe,
                compared and kind != "inserts",
                self.cascades,
            )
            for kind, of_kind in sets.rows.items()
            for rows in stage.joined(of_kind)
        ]

    def _reject_unsafe_cascades(self, steps: Sequence[MergeStep], rank: Mapping[TableName, int]) -> None:
        """Raises `Collision` if a cascade may change a key that a later statement looks up.

        Statements find rows by their keys, so no cascade may have changed a key before. And a cascade must set its
        columns before the row gets its last values, not after.
        """
        kinds: dict[TableName, set[str]] = {}
        for step in steps:
            kinds.setdefault(step.target.table, set()).add(step.kind)
        keys = {step.target.table: set(step.key) for step in steps}
        for link in self.targets.foreign_keys(kinds):
            of_parent = kinds.get(link.parent, set())
            # Rows that keep their key may have changed in other columns that the foreign key refers to.
            beyond_key = not set(link.parent_columns) <= keys.get(link.parent, set())
            updated = "move" in of_parent or (beyond_key and bool(of_parent & {"update", "upsert"}))
            changed = link.follows_updates and updated
            deleted = link.follows_deletes and bool(of_parent & set(FIRST))
            changes_key = bool(keys[link.child] & set(link.columns))
            if (changed and (changes_key or rank[link.parent] >= rank[link.child])) or (deleted and changes_key):
                raise Collision(link.child, "rows that its rows refer to change, and these with them")

    def _late(self, steps: Sequence[MergeStep]) -> set[TableName]:
        """Tables whose deletes come last: earlier, a cascade would delete rows that are updated to refer elsewhere.

        Raises `Collision` if several steps delete rows of one table that cascades to itself.
        """
        deleting = [step.target.table for step in steps if step.kind in FIRST]
        updating = {step.target.table for step in steps if step.kind in ("update", "move", "upsert")}
        for table in deleting:
            if deleting.count(table) > 1 and table in self.targets.owners(table):
                raise Collision(table, "several steps delete its rows, and each deletion cascades to others of them")
        return {owner for table in updating for owner in self.targets.owners(table) if owner in deleting}

    def _may_reinsert(self, table: TableName, changes: Sequence[NetChanges | Staged]) -> bool:
        """Whether a row may be deleted and inserted again: nothing notices it, and the changes have all its values."""
        target = self.targets[table]
        columns = _columns([change for change in changes if change.table == table])
        return not (self.cascades and target.watched) and not target.has_own(columns)

    # Executing them

    def _apply(self, steps: list[MergeStep]) -> int:
        return sum(self._run(steps, judge=True, before=self._savepoint()))

    def _savepoint(self) -> list[str]:
        """The statements that make a savepoint, in place of that of an earlier merge."""
        if native(self.connection).info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            self._saved = False
        release = [f"RELEASE SAVEPOINT {_SAVEPOINT}"] if self._saved else []
        self._saved = True
        return [*release, f"SAVEPOINT {_SAVEPOINT}"]

    def _run(self, steps: Sequence[MergeStep], *, judge: bool, before: Sequence[str] = ()) -> list[int]:
        """Executes `before` and the steps; the rows touched by each. `judge`: after a failure, undo all and raise what
        it means."""
        counts: list[int] = []
        at = 0
        if before and not (steps and steps[0].small):
            for text in before:
                self.connection.execute(text.encode())
            before = ()
        try:
            while at < len(steps):
                together = at
                while together < len(steps) and steps[together].small:
                    together += 1
                counts += self._pipelined(steps[at:together], before) if together > at else [self._alone(steps[at])]
                before = ()
                for step, count in zip(steps[at:], counts[at:], strict=False):
                    if step.counted and count != step.rows.count:
                        raise _Miscounted(step, count)
                at = len(counts)
        except _Miscounted as trouble:
            self._undo()
            raise self._drift(trouble.step, trouble.count) from None
        except _Failed as trouble:
            if not judge:
                raise trouble.error from None
            self._undo()
            raise self._meaning(steps, trouble) from trouble.error
        except ValueUnfit:
            self._undo()
            raise
        return counts

    def _pipelined(self, steps: Sequence[MergeStep], before: Sequence[str]) -> list[int]:
        owners: list[int] = []

        def statements() -> Iterator[tuple[str, Sequence[str]]]:
            for text in before:
                yield text, ()
            # A generator: the slave works on the first statement while the next ones are made.
            for index, step in enumerate(steps):
                source = stage.arrays(step.rows.arrow, step.typed)
                for text in step.texts(source):
                    owners.append(index)
                    yield text, source.parameters

        try:
            touched = pipeline.send(self.connection, statements())[len(before) :]
        except pipeline.StatementsFailed as failed:
            if failed.index < len(before):
                raise failed.error from None
            raise _Failed(steps[owners[failed.index - len(before)]], failed.error) from failed.error
        counts = [0] * len(steps)
        for owner, count in zip(owners, touched, strict=True):
            counts[owner] += count
        return counts

    def _alone(self, step: MergeStep) -> int:
        try:
            if step.kind == "insert" and step.rows.arrow is not None:
                return self._copied(step)
            source = self._source(step)
            return sum(self._raw.execute(text, source.parameters).rowcount for text in step.texts(source))
        except psycopg.Error as error:
            raise _Failed(step, error) from error

    def _copied(self, step: MergeStep) -> int:
        """Inserts by COPY directly into the table; new rows need no stage."""
        chosen = merge_statements.writable(step.target, step.columns)
        assert step.rows.arrow is not None
        rows = step.rows.arrow.select([f"c{number}" for number, _ in chosen])
        columns = ", ".join(column.quoted for _, column in chosen)
        return stage.copy(
            self.connection, step.target.quoted, rows, step.target, [column for _, column in chosen], f"({columns})"
        )

    def _source(self, step: MergeStep) -> Source:
        """The rows of a step: staged ones, parameters of the statement, or a temporary table."""
        if step.rows.relation is not None:
            return Relation(step.rows.relation)
        if step.small:
            return stage.arrays(step.rows.arrow, step.typed)
        self._stages += 1
        return stage.temporary(self.connection, f"sluice_{self._stages}", step.rows.arrow, step.target, step.typed)

    # After a failure

    def _undo(self) -> None:
        # Where the connection is lost, the caller gets the first error; undoing fails as well.
        with suppress(psycopg.OperationalError):
            self.connection.execute(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")

    def _meaning(self, steps: Sequence[MergeStep], trouble: "_Failed") -> Exception:
        """What a server's error says about the changes: `Drift`, `Collision`, `ValueUnfit`, or the error itself."""
        step, error = trouble.step, trouble.error
        state = error.sqlstate or ""
        table = step.target.table
        if state in _COLLISIONS:
            drift = self._existing_row(steps, step) if step.kind == "insert" and step.key else None
            return drift or Collision(table, self._reason(step, error), unique=state != "23503")
        if state.startswith(_UNFIT) if state else isinstance(error, psycopg.DataError):
            return self._unfit(step, error)  # without an SQLSTATE it is the driver that refuses a value
        if refuses(error) and (state not in _STALE or self._read_again):
            return Collision(table, self._reason(step, error))  # a replay tells which change it is
        return error

    def _existing_row(self, steps: Sequence[MergeStep], step: MergeStep) -> Drift | None:
        """The row whose key an insert needs, after executing the steps before it again."""
        before = [other for other in steps[: steps.index(step)] if other.target.table == step.target.table]
        try:
            self._run(before, judge=False)
            source = self._source(step)
            shown = step.key_places
            text = merge_statements.existing(step.target, shown, source.sql, step.same_key)
            row = self._raw.execute(text, source.parameters).fetchone()
        except (psycopg.Error, Drift, ValueUnfit):
            row = None
        self._undo()
        if row is None:
            return None
        return Drift(step.target.table, self._shown(step, step.key, row[0]), "INSERT", "none", "one")

    def _shown(self, step: MergeStep, names: Sequence[str], values: Sequence[str | None]) -> dict[str, str | None]:
        """The values that name a row in a message."""
        return self.targets.mask.row(step.target.table, dict(zip(names, values, strict=True)))

    def _reason(self, step: MergeStep, error: psycopg.Error) -> str:
        """The server's reason, without values where columns are masked."""
        return errors.reason(error, hidden=bool(step.target.hidden))

    def _drift(self, step: MergeStep, count: int) -> Drift:
        """Finds the row that differs, after everything was undone."""
        try:
            return self._drifting_row(step) or Drift(
                step.target.table,
                {},
                step.kind.upper(),
                counted(step.rows.count, "row"),
                f"{count} (a trigger or rule of the slave interferes)",
            )
        finally:
            self._undo()

    def _drifting_row(self, step: MergeStep) -> Drift | None:
        table, action = step.target.table, ACTION[step.kind]
        source = self._source(step)
        if step.kind == "insert":
            return None
        keyless = step.kind == "remove"
        shown = list(step.rows.names[:-1]) if keyless else step.key_places
        names = step.columns if keyless else step.key
        match = merge_statements.same_row(step.target, step.columns) if keyless else step.same_key
        text = merge_statements.mismatches(step.target, shown, source.sql, match, copies=keyless)
        row = self._raw.execute(text, source.parameters).fetchone()
        if row is not None:
            expected = "more copies" if keyless else "one"
            return Drift(table, self._shown(step, names, row[0]), action, expected, rows_found(row[1]))
        images = step.images
        if not images:
            return None
        text = merge_statements.differing(step.target, images, shown, source.sql, match)
        row = self._raw.execute(text, source.parameters).fetchone()
        if row is None:
            return None
        values = {
            column.name: (now, before)
            for (column, _), now, before, other in zip(images, row[1], row[2], row[3], strict=True)
            if other
        }
        return Drift.of_values(table, self._shown(step, names, row[0]), action, values, self.targets.mask)

    def _unfit(self, step: MergeStep, error: psycopg.Error) -> Exception:
        """The value that does not fit: COPY into columns of the slave's types names it, other statements do not."""
        if step.rows.arrow is not None and (error.sqlstate or "22").startswith("22"):
            try:
                self._stages += 1
                stage.temporary(self.connection, f"sluice_{self._stages}", step.rows.arrow, step.target, step.typed)
            except ValueUnfit as unfit:
                return unfit
            except psycopg.Error:
                pass
            finally:
                self._undo()
        reason = errors.reason(error, hidden=bool(step.target.hidden))
        return ValueUnfit(step.target.table, reason, column=error.diag.column_name)


def _columns(parts: Sequence[NetChanges | Staged]) -> tuple[str, ...]:
    """The columns of the changes; a part that only deletes may know none."""
    return max((part.columns for part in parts), key=len)


def _has_always_identity(target: SlaveTable, columns: Sequence[str], key: Sequence[str]) -> bool:
    """Whether a column is an identity that only the database itself may update. An insert may give any value."""
    return any(target.column(name).identity == "a" for name in columns if name not in key)


@dataclass
class _RowSets:
    """The changes of one table by kind."""

    rows: dict[str, list[Rows]]
    columns: tuple[str, ...]
    key: tuple[str, ...]
    images: list[str]
    """Labels of the old images that are compared."""

    @classmethod
    def of(
        cls, parts: Sequence[NetChanges | Staged], columns: tuple[str, ...], key: tuple[str, ...], compared: bool
    ) -> "_RowSets":
        sets: dict[str, list[Rows]] = {kind: [] for kind in KINDS}
        for part in parts:
            for kind, rows in stage.sets(part).items():
                sets[kind] += rows if compared else [each.only("kc") for each in rows]
        images = [f"b{number}" for number, name in enumerate(columns, start=1) if compared and name not in key]
        return cls(sets, columns, key, images)

    def reinsert_moves(self) -> None:
        """Deletes the old key and inserts the new row instead of a move: then chains and swaps of keys do no harm."""
        old = [f"k{number}" for number in range(1, len(self.key) + 1)]
        self.rows["deletes"] += [rows.deleted(old, self.images) for rows in self.rows["moves"]]
        self.rows["inserts"] += [rows.only("c") for rows in self.rows["moves"]]
        self.rows["moves"] = []

    def reinsert_updates(self, safe: bool) -> None:
        """Deletes and inserts rows instead of updating them; in safe mode also rows to insert, which may exist."""
        columns = [f"c{self.columns.index(name) + 1}" for name in self.key]
        changed = self.rows["updates"] + (self.rows["inserts"] if safe else [])
        self.rows["deletes"] += [rows.deleted(columns, self.images) for rows in changed]
        self.rows["inserts"] += [rows.only("c") for rows in self.rows["updates"]]
        self.rows["updates"] = []


class _Failed(Exception):
    def __init__(self, step: MergeStep, error: psycopg.Error):
        self.step = step
        self.error = error


class _Miscounted(Exception):
    def __init__(self, step: MergeStep, count: int):
        self.step = step
        self.count = count
