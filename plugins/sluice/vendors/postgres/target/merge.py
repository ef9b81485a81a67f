"""Net changes of a window to the slave: a few statements a table, in the caller's transaction.

    merger = Merger(connection, cascades=not replica_role)     # one a session
    merged = merger.merge([net_changes_or_staged, …], safe=False)
    merger.targets.forget(table)                                      # after DDL on the slave

Deletes go first, children before parents; then updates, moved keys and inserts, parents before
children. In normal mode every statement must touch exactly the rows it names. In safe mode it need
not: rows that should be there are made, rows that should not are gone, whatever was there.

Raises, with everything it did undone and the transaction still usable:

- `Drift`: the slave's rows are not the master's former ones (normal mode only);
- `Collision`: the set-based form does not work here; use `replay`;
- `ValueUnfit`, `ColumnMissing`, `SlaveTableMissing`: the slave's definition does not take the changes;
- the errors of the session; the transaction is lost then.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

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
from sluice.vendors.postgres.target.merge_step import ACTION, FIRST, SAFE, STRICT, THEN, MergeStep
from sluice.vendors.postgres.target.slave_tables import SlaveTable, SlaveTables
from sluice.vendors.postgres.target.stage import Relation, Rows, Source

_SAVEPOINT = "sluice_merge"
_COLLISIONS = ("23503", "23505", "23P01")
"""Foreign key, unique, exclusion: the order of the changes matters."""
_STALE = ("42703", "42P01", "42804", "42883")
"""Column, table, type, operator: the table was altered since it was looked at."""
_UNFIT = ("22", "23502", "23514")
"""Data exceptions, NOT NULL, CHECK."""

_PREPARED = 4_000
"""Statements that stay planned: a few for each of a thousand tables. Each takes some 33 KB of the slave's session."""
_WIDEST = 1_600
"""Columns a stage table may have (a sub-select 1,664)."""


@dataclass(frozen=True)
class Merged:
    """Rows of the slave that were touched."""

    deleted: int = 0
    updated: int = 0
    inserted: int = 0


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
        driver = native(connection)
        driver.prepared_max = max(driver.prepared_max or 0, _PREPARED)

    def begin(self, at_once: Collection[str] = ()) -> None:
        """In a new transaction: constraints are checked at its end, those `at_once` (quoted) with every statement."""
        self.connection.execute("SET CONSTRAINTS ALL DEFERRED")
        for constraint in sorted(at_once):
            self.connection.execute(f"SET CONSTRAINTS {constraint} IMMEDIATE".encode())

    def merge(self, changes: Iterable[NetChanges | Staged], *, safe: bool = False) -> Merged:
        """Applies the net changes of a window (or slice). Several of one table must not share keys."""
        wanted = [change for change in changes if isinstance(change, Staged) or change.rows]
        if not wanted:
            return Merged()
        if self.cascades:
            # Foreign keys and triggers that act may have been made since, and nothing would fail to tell of them.
            self.targets.forget()
        fresh = False
        anew: set[TableName] = set()
        while True:
            try:
                return self._merge(wanted, safe, anew)
            except Collision as collision:
                # Unique values change places: rows may go and come instead, where nothing hangs on them.
                if not collision.unique or collision.table in anew or not self._may_reinsert(collision.table, wanted):
                    raise
                anew.add(collision.table)
            except psycopg.Error as error:
                if error.sqlstate not in _STALE or fresh:
                    raise
                self.targets.forget()  # somebody altered the slave's tables: look again, once
                fresh = True

    # What to do

    def _merge(self, changes: Sequence[NetChanges | Staged], safe: bool, anew: Collection[TableName]) -> Merged:
        self.targets.load(change.table for change in changes)
        rank = {table: place for place, table in enumerate(self.targets.order(change.table for change in changes))}
        steps = self._steps(changes, safe, anew)
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
        self, changes: Sequence[NetChanges | Staged], safe: bool, anew: Collection[TableName]
    ) -> list[MergeStep]:
        """`anew`: tables whose changed rows are deleted and inserted."""
        shares: dict[TableName, list[NetChanges | Staged]] = {}
        for change in changes:
            shares.setdefault(change.table, []).append(change)
        steps = []
        for table, parts in shares.items():
            target, columns, key = self.targets[table], _columns(parts), parts[0].key
            sets: dict[str, list[Rows]] = {kind: [] for kind in KINDS}
            for part in parts:
                for kind, rows in stage.sets(part).items():
                    sets[kind] += rows
            kinds = SAFE if safe and key else STRICT
            compared = bool(key) and not safe and all(part.compared for part in parts)
            if not compared:
                sets = {kind: [rows.only("kc") for rows in found] for kind, found in sets.items()}
            images = [f"b{number}" for number, name in enumerate(columns, start=1) if compared and name not in key]
            if key:
                free = self._may_reinsert(table, parts)
                self._settle_moves(target, key, images, sets, free, safe)
                rewritten = sets["updates"] or (safe and sets["inserts"])
                if table in anew or (rewritten and _has_always_identity(target, columns, key)):
                    self._settle_updates(target, columns, key, images, sets, free, safe)
                    kinds = STRICT
            elif sets["deletes"] and sets["inserts"] and not self._may_reinsert(table, parts):
                raise Collision(table, "rows without a key change, and may not go and come instead")
            steps += [
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
                for kind, found in sets.items()
                for rows in stage.joined(found)
            ]
        for step in steps:
            if len(step.rows.names) > _WIDEST:
                said = "so many columns and their old images are too many for one statement"
                raise Collision(step.target.table, said)
        return steps

    def _reject_unsafe_cascades(self, steps: Sequence[MergeStep], rank: Mapping[TableName, int]) -> None:
        """Raises `Collision` where a cascade may change a key that a later statement looks up.

        A row is found by its key, so no foreign key may have changed that meanwhile; and what one sets must
        be set before the row gets its last values, not after.
        """
        kinds: dict[TableName, set[str]] = {}
        for step in steps:
            kinds.setdefault(step.target.table, set()).add(step.kind)
        keys = {step.target.table: set(step.key) for step in steps}
        for link in self.targets.foreign_keys(kinds):
            above = kinds.get(link.parent, set())
            # Of rows that stay under their key other columns may have changed.
            other = not set(link.parent_columns) <= keys.get(link.parent, set())
            changed = link.follows_updates and ("move" in above or (other and bool(above & {"update", "upsert"})))
            gone = link.follows_deletes and bool(above & set(FIRST))
            mine = bool(keys[link.child] & set(link.columns))
            if (changed and (mine or rank[link.parent] >= rank[link.child])) or (gone and mine):
                raise Collision(link.child, "rows that its rows refer to change, and these with them")

    def _late(self, steps: Sequence[MergeStep]) -> set[TableName]:
        """Tables whose rows go last: foreign keys would take rows along that live on once they refer to others.

        Raises `Collision` where rows of one table that go take each other along.
        """
        goes = [step.target.table for step in steps if step.kind in FIRST]
        stays = {step.target.table for step in steps if step.kind in ("update", "move", "upsert")}
        for table in goes:
            if goes.count(table) > 1 and table in self.targets.owners(table):
                raise Collision(table, "its rows go in several steps, and take each other along")
        return {owner for table in stays for owner in self.targets.owners(table) if owner in goes}

    def _may_reinsert(self, table: TableName, changes: Sequence[NetChanges | Staged]) -> bool:
        """Whether a row may be deleted and inserted again: nobody refers to it, and all its values come along."""
        target = self.targets[table]
        columns = _columns([change for change in changes if change.table == table])
        return not (self.cascades and target.watched) and not target.has_own(columns)

    def _settle_moves(
        self,
        target: SlaveTable,
        key: Sequence[str],
        images: Sequence[str],
        sets: dict[str, list[Rows]],
        free: bool,
        safe: bool,
    ) -> None:
        moves = sets["moves"]
        if not moves:
            return
        if free:
            # The old key goes, the new one comes: no chain or swap of keys can be in the way.
            old = [f"k{number}" for number in range(1, len(key) + 1)]
            sets["deletes"] += [rows.deleted(old, images) for rows in moves]
            sets["inserts"] += [rows.only("c") for rows in moves]
            sets["moves"] = []
        elif safe or any(target.column(name).identity == "a" for name in key):
            raise Collision(target.table, "the keys of rows change that others may refer to")

    def _settle_updates(
        self,
        target: SlaveTable,
        columns: Sequence[str],
        key: Sequence[str],
        images: Sequence[str],
        sets: dict[str, list[Rows]],
        free: bool,
        safe: bool,
    ) -> None:
        if not free:
            raise Collision(target.table, "a column changes that only the database itself may update")
        places = [f"c{columns.index(name) + 1}" for name in key]
        changed = sets["updates"] + (sets["inserts"] if safe else [])
        sets["deletes"] += [rows.deleted(places, images) for rows in changed]
        sets["inserts"] += [rows.only("c") for rows in sets["updates"]]
        sets["updates"] = []

    # Doing it

    def _apply(self, steps: list[MergeStep]) -> Merged:
        self.connection.execute(f"SAVEPOINT {_SAVEPOINT}")
        counts = self._run(steps, judge=True)
        self.connection.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")
        touched = dict.fromkeys(("deleted", "updated", "inserted"), 0)
        for step, count in zip(steps, counts, strict=True):
            word = {"delete": "deleted", "remove": "deleted", "insert": "inserted"}.get(step.kind, "updated")
            touched[word] += count
        return Merged(**touched)

    def _run(self, steps: Sequence[MergeStep], *, judge: bool) -> list[int]:
        """Rows touched by each step. `judge`: on trouble, undo all and raise what it means."""
        counts: list[int] = []
        at = 0
        try:
            while at < len(steps):
                together = at
                while together < len(steps) and steps[together].small:
                    together += 1
                counts += self._pipelined(steps[at:together]) if together > at else [self._alone(steps[at])]
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

    def _pipelined(self, steps: Sequence[MergeStep]) -> list[int]:
        owners: list[int] = []

        def statements() -> Iterator[tuple[str, Sequence[str]]]:
            # One after the other: the slave works on the first while the next are written.
            for place, step in enumerate(steps):
                source = stage.arrays(step.rows.arrow, step.typed)
                for text in step.texts(source):
                    owners.append(place)
                    yield text, source.parameters

        try:
            touched = pipeline.send(self.connection, statements())
        except pipeline.StatementsFailed as failed:
            raise _Failed(steps[owners[failed.index]], failed.error) from failed.error
        counts = [0] * len(steps)
        for place, count in zip(owners, touched, strict=True):
            counts[place] += count
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
        """New rows need no stage: COPY puts them where they belong."""
        chosen = merge_statements.writable(step.target, step.columns)
        assert step.rows.arrow is not None
        rows = step.rows.arrow.select([f"c{number}" for number, _ in chosen])
        columns = ", ".join(column.quoted for _, column in chosen)
        return stage.copy(
            self.connection, step.target.quoted, rows, step.target, [column for _, column in chosen], f"({columns})"
        )

    def _source(self, step: MergeStep) -> Source:
        """What lies here goes into a temporary table, or along with the statement."""
        if step.rows.relation is not None:
            return Relation(step.rows.relation)
        if step.small:
            return stage.arrays(step.rows.arrow, step.typed)
        self._stages += 1
        return stage.temporary(self.connection, f"sluice_{self._stages}", step.rows.arrow, step.target, step.typed)

    # When it went wrong

    def _undo(self) -> None:
        # A lost connection is what the caller is told about; that undoing fails too adds nothing.
        with suppress(psycopg.OperationalError):
            self.connection.execute(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")

    def _meaning(self, steps: Sequence[MergeStep], trouble: "_Failed") -> Exception:
        step, error = trouble.step, trouble.error
        state = error.sqlstate or ""
        table = step.target.table
        if state in _COLLISIONS:
            drift = self._already_there(steps, step) if step.kind == "insert" and step.key else None
            return drift or Collision(table, self._said(step, error), unique=state != "23503")
        if state.startswith(_UNFIT) and state:
            return self._unfit(step, error)
        if refuses(error):
            return Collision(table, self._said(step, error))  # one by one it shows which change it is
        return error

    def _already_there(self, steps: Sequence[MergeStep], step: MergeStep) -> Drift | None:
        """The row that an insert found in its place, once all that should go before is gone."""
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
        """What names a row in a message."""
        return self.targets.mask.row(step.target.table, dict(zip(names, values, strict=True)))

    def _said(self, step: MergeStep, error: psycopg.Error) -> str:
        """What the server says of rows of a step."""
        return errors.reason(error, hidden=True) if step.target.hidden else error.diag.message_primary or str(error)

    def _drift(self, step: MergeStep, count: int) -> Drift:
        """After undoing: which row it is."""
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
        text = merge_statements.found(step.target, shown, source.sql, match, copies=keyless)
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
        """COPY into columns of the slave's types names the value; the statements themselves do not."""
        if step.rows.arrow is not None and (error.sqlstate or "").startswith("22"):
            try:
                self._stages += 1
                stage.temporary(self.connection, f"sluice_{self._stages}", step.rows.arrow, step.target, step.typed)
            except ValueUnfit as found:
                return found
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
    """Whether there is an identity that only the database itself may update. An insert may bring any value."""
    return any(target.column(name).identity == "a" for name in columns if name not in key)


class _Failed(Exception):
    def __init__(self, step: MergeStep, error: psycopg.Error):
        self.step = step
        self.error = error


class _Miscounted(Exception):
    def __init__(self, step: MergeStep, count: int):
        self.step = step
        self.count = count
