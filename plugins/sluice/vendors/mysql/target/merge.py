"""Net changes of a window to the slave: a few statements a table, in the caller's transaction.

The server checks unique values row by row, so all that goes goes first: rows that are deleted, and the old places of
rows whose key or unique values change. Then rows that stay are updated, and rows that come are inserted. In normal mode
every statement must touch exactly the rows it names; former values are compared by `<=>`, to which NULL is a value. In
safe mode rows that should be there replace those that have their keys.

Raises, with everything it did undone and the transaction still usable: `Drift`, `Collision`, `ValueUnfit`,
`ColumnMissing`, `SlaveTableMissing`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice.counted import counted
from sluice.database.apply import Staged
from sluice.database.conflicts import Collision, Drift, rows_found
from sluice.database.errors import DatabaseError, StatementFailed, UniqueViolation
from sluice.database.net_changes import NetChanges
from sluice.database.session import Session
from sluice.model.mask import NO_PATTERNS, Mask
from sluice.model.names import TableName
from sluice.vendors.mysql.column_texts import ColumnTexts
from sluice.vendors.mysql.connection import native, quoted
from sluice.vendors.mysql.errors import OF_ROWS, refusal
from sluice.vendors.mysql.target import stage
from sluice.vendors.mysql.target.rows_in import ValueUnfit
from sluice.vendors.mysql.target.slave_tables import SlaveTable, SlaveTables
from sluice.vendors.mysql.target.stage import Rows, StagedHere

_ACTIONS = {"deletes": "DELETE", "updates": "UPDATE", "moves": "UPDATE", "inserts": "INSERT"}


@dataclass(frozen=True)
class _Set:
    """Rows of one kind of one table, staged."""

    kind: str
    rows: Rows
    target: SlaveTable
    columns: tuple[str, ...]
    key: tuple[str, ...]
    compared: bool
    """Each of the slave's rows must look as it did on the master."""

    @property
    def key_places(self) -> list[str]:
        """Where in a row the key is under which the slave has it."""
        if "k1" in self.rows.columns:
            return [f"k{number}" for number in range(1, len(self.key) + 1)]
        return [f"c{self.columns.index(name) + 1}" for name in self.key]

    @property
    def same_key(self) -> str:
        pairs = zip(self.key, self.key_places, strict=True)
        return " AND ".join(f"t.{quoted(name)} = s.{place}" for name, place in pairs)

    @property
    def images(self) -> Sequence[tuple[ColumnTexts, str]]:
        """The columns that are compared, and where their former values stand: what did not change has no place."""
        if not self.compared or self.kind == "inserts":
            return []
        found = []
        for number, name in enumerate(self.columns, start=1):
            own = self.target.column(name)
            if name in self.key or own.generated:
                continue
            place = f"b{number}" if f"b{number}" in self.rows.columns else f"c{number}"
            if place in self.rows.columns:
                found.append((own, place))
        return found

    @property
    def match(self) -> str:
        """The row is under its key, and as it was."""
        images = "".join(f" AND t.{own.quoted} <=> s.{place}" for own, place in self.images)
        return self.same_key + images

    def values(self) -> list[tuple[str, str]]:
        """Quoted columns of the table, and where their new values stand."""
        return [
            (self.target.column(name).quoted, f"c{number}")
            for number, name in enumerate(self.columns, start=1)
            if not self.target.column(name).generated
        ]


class Merger:
    """Merges into one slave over one session. Foreign keys do not act there, triggers do."""

    def __init__(self, connection: Session, *, cascades: bool, mask: Mask = NO_PATTERNS):
        self.connection = connection
        self.session = native(connection)
        self.cascades = cascades
        self.targets = SlaveTables(connection, mask)

    def begin(self, at_once: Collection[str] = ()) -> None:
        """Nothing is deferred here."""
        assert not at_once, at_once

    def merge(self, changes: Iterable[NetChanges | Staged], *, safe: bool = False) -> None:
        """Applies the net changes of a window (or slice). Several of one table must not share keys."""
        wanted = [change for change in changes if isinstance(change, Staged) or change.rows]
        if not wanted:
            return
        self.targets.load(change.table for change in wanted)
        # Staging outside of the savepoint: temporary tables come and go without a commit.
        sets = [found for number, change in enumerate(wanted) for found in self._sets(change, number, safe)]
        try:
            with self.session.transaction():
                self._apply(sets, safe, self._anew(sets, safe))
        except _Trouble as trouble:
            raise self._meaning(sets, trouble, safe) from None

    # What to do

    def _sets(self, change: NetChanges | Staged, number: int, safe: bool) -> list[_Set]:
        target = self.targets[change.table]
        if isinstance(change, NetChanges):
            kinds = {kind: getattr(change, kind) for kind in stage.KINDS}
            staged = {
                kind: stage.temporary(self.session, f"sluice_{number}_{kind}", change, kind, target)
                for kind, rows in kinds.items()
                if rows.num_rows
            }
        else:
            assert isinstance(change, StagedHere), "staged on another vendor's slave"
            staged = dict(change.sets)
        compared = change.compared and not safe and bool(change.key)
        return [_Set(kind, rows, target, change.columns, change.key, compared) for kind, rows in staged.items()]

    def _anew(self, sets: Sequence[_Set], safe: bool) -> set[TableName]:
        """Tables whose changed rows are deleted and inserted: others may need the unique values that they had."""
        anew = set()
        for each in sets:
            if safe and each.kind == "moves" and each.target.has_own(each.columns):
                raise Collision(each.target.table, "keys of its rows change, which have values that live only here")
            changed = each.kind in ("updates", "moves")
            if changed and not safe and self._unique_changes(each):
                if each.target.watched or each.target.has_own(each.columns):
                    raise Collision(
                        each.target.table, "unique values of its rows change, and these may not go and come"
                    )
                anew.add(each.target.table)
        return anew

    def _unique_changes(self, each: _Set) -> bool:
        """Whether the set may change a value that another row needs; without old images nobody knows."""
        watched = {name for index in each.target.uniques_beside(each.key) for name in index.columns}
        if each.kind == "moves":
            watched |= set(each.key)
        if not watched:
            return False
        if not each.compared:
            return True
        changed = {each.columns[int(place[1:]) - 1] for place in each.rows.columns if place[0] == "b"}
        return each.kind == "moves" or bool(watched & changed)

    # Doing it

    def _apply(self, sets: Sequence[_Set], safe: bool, anew: Collection[TableName]) -> None:
        gone = [each for each in sets if each.kind == "deletes"]
        changed = [each for each in sets if each.kind in ("updates", "moves")]
        for each in gone:
            if each.key:
                self._delete(each, counted=not safe)
            else:
                self._remove(each)
        for each in changed:
            if each.target.table in anew or (safe and each.kind == "moves"):
                self._delete(each, counted=not safe)
        for each in changed:
            if each.target.table in anew:
                self._insert(each)
            elif safe:
                self._put(each)
            else:
                self._update(each)
        for each in sets:
            if each.kind == "inserts":
                if safe and each.key:
                    self._put(each)
                else:
                    self._insert(each)

    def _delete(self, each: _Set, *, counted: bool) -> None:
        match = each.match if counted else each.same_key
        text = f"DELETE t FROM {each.rows.place} s STRAIGHT_JOIN {each.target.place} t ON {match}"
        self._run(each, text, counted=counted)

    def _remove(self, each: _Set) -> None:
        """Copies of rows of a table without a key."""
        columns = [each.target.column(name) for name in each.columns]
        places = ", ".join(f"s.c{number}" for number in range(1, len(columns) + 1))
        variables = ", ".join(f"@c{number}" for number in range(1, len(columns) + 1))
        match = " AND ".join(f"{own.quoted} <=> @c{number}" for number, own in enumerate(columns, start=1))
        staged = self.session.run(f"SELECT row_no, copies FROM {each.rows.place} s").fetchall()
        for number, copies in staged:
            # A statement with a limit joins no tables; the values stay in the server.
            where = f"WHERE s.row_no = {number}"
            self.session.run(f"SELECT {places} INTO {variables} FROM {each.rows.place} s {where}")
            found = self.session.run(f"DELETE FROM {each.target.place} WHERE {match} LIMIT {copies}")
            if found.rowcount != copies:
                raise _Trouble(each, None, found.rowcount)

    def _update(self, each: _Set) -> None:
        sets = ", ".join(f"t.{name} = s.{place}" for name, place in each.values())
        text = f"UPDATE {each.rows.place} s STRAIGHT_JOIN {each.target.place} t ON {each.match} SET {sets}"
        self._run(each, text, counted=True)

    def _insert(self, each: _Set) -> None:
        columns = ", ".join(name for name, _ in each.values())
        places = ", ".join(f"s.{place}" for _, place in each.values())
        text = f"INSERT INTO {each.target.place} ({columns}) SELECT {places} FROM {each.rows.place} s"
        self._run(each, text, counted=True)

    def _put(self, each: _Set) -> None:
        """Safe mode: the row is there afterwards, whatever had its key. Raises `Collision` where another row has a
        unique value of it."""
        key = {name: f"c{each.columns.index(name) + 1}" for name in each.key}
        same = " AND ".join(f"t.{quoted(name)} = s.{place}" for name, place in key.items())
        for index in each.target.uniques_beside(each.key):
            meets = " AND ".join(f"t.{quoted(name)} = s.c{each.columns.index(name) + 1}" for name in index.columns)
            look = f"SELECT 1 FROM {each.target.place} t JOIN {each.rows.place} s ON {meets} WHERE NOT ({same}) LIMIT 1"
            if set(index.columns) <= set(each.columns) and self.session.run(look).fetchone():
                raise Collision(each.target.table, f"another row has a unique value ({index.name})", unique=True)
        columns = ", ".join(name for name, _ in each.values())
        places = ", ".join(f"s.{place}" for _, place in each.values())
        if each.target.has_own(each.columns):
            # REPLACE would take the values that live only here.
            sets = ", ".join(f"t.{name} = s.{place}" for name, place in each.values())
            self._run(each, f"UPDATE {each.rows.place} s STRAIGHT_JOIN {each.target.place} t ON {same} SET {sets}")
            first = next(iter(key.values()))
            text = (
                f"INSERT INTO {each.target.place} ({columns}) SELECT {places} FROM {each.rows.place} s "
                f"LEFT JOIN {each.target.place} t ON {same} "
                f"WHERE t.{quoted(each.key[0])} IS NULL AND s.{first} IS NOT NULL"
            )
            self._run(each, text)
        else:
            self._run(each, f"REPLACE INTO {each.target.place} ({columns}) SELECT {places} FROM {each.rows.place} s")

    def _run(self, each: _Set, text: str, *, counted: bool = False) -> None:
        try:
            found = self.session.run(text)
        except StatementFailed as error:
            raise _Trouble(each, error) from None
        if counted and found.rowcount != each.rows.expected:
            raise _Trouble(each, None, found.rowcount)

    # When it went wrong

    def _meaning(self, sets: Sequence[_Set], trouble: "_Trouble", safe: bool) -> Exception:
        each, error = trouble.each, trouble.error
        table = each.target.table
        if error is None:
            return self._drift(each, trouble.count)
        if isinstance(error, UniqueViolation):
            there = self._already_there(sets, each) if each.kind == "inserts" and each.key and not safe else None
            return there or Collision(table, self._said(each, error), unique=True)
        if refusal(error).number in OF_ROWS:
            return ValueUnfit(table, self._said(each, error))
        return error

    def _said(self, each: _Set, error: DatabaseError) -> str:
        said = refusal(error)
        return f"error {said.number}; its text may hold values of masked columns" if each.target.hidden else said.text

    def _already_there(self, sets: Sequence[_Set], each: _Set) -> Drift | None:
        """The row that an insert found in its place, which no earlier step would have taken."""
        goes = [other for other in sets if other.target is each.target and other.kind in ("deletes", "moves")]
        alone = ""
        for number, other in enumerate(goes):
            pairs = zip(other.key, other.key_places, strict=True)
            same = " AND ".join(f"t.{quoted(name)} = o{number}.{place}" for name, place in pairs)
            alone += f" AND NOT EXISTS (SELECT 1 FROM {other.rows.place} o{number} WHERE {same})"
        row = self._key_of(each, f"JOIN {each.target.place} t ON {each.same_key} WHERE 1 = 1{alone}")
        return Drift(each.target.table, row, "INSERT", "none", "one") if row is not None else None

    def _drift(self, each: _Set, count: int) -> Drift:
        """Which row it is that is not as it should be."""
        table, action = each.target.table, _ACTIONS[each.kind]
        if each.key:
            row = self._key_of(each, f"LEFT JOIN {each.target.place} t ON {each.same_key} WHERE {self._absent(each)}")
            if row is not None:
                return Drift(table, row, action, "one", rows_found(0))
            if each.images:
                other = " OR ".join(f"NOT (t.{own.quoted} <=> s.{place})" for own, place in each.images)
                where = f"JOIN {each.target.place} t ON {each.same_key} WHERE {other}"
                row = self._key_of(each, where)
                if row is not None:
                    return Drift.of_values(table, row, action, self._differing(each, where), self.targets.mask)
        return Drift(
            table, {}, action, counted(each.rows.expected, "row"), f"{count} (a trigger of the slave interferes)"
        )

    def _absent(self, each: _Set) -> str:
        return f"t.{quoted(each.key[0])} IS NULL"

    def _key_of(self, each: _Set, rest: str) -> dict[str, str | None] | None:
        """The key of the first staged row that meets a condition."""
        own = [
            ColumnTexts(place, each.target.column(name).type)
            for name, place in zip(each.key, each.key_places, strict=True)
        ]
        texts = ", ".join(column.text("s") for column in own)
        row = self.session.run(f"SELECT {texts} FROM {each.rows.place} s {rest} LIMIT 1").fetchone()
        if row is None:
            return None
        shown = {name: column.shown(text) for name, column, text in zip(each.key, own, row, strict=True)}
        return self.targets.mask.row(each.target.table, shown)

    def _differing(self, each: _Set, rest: str) -> Mapping[str, tuple[str | None, str | None]]:
        selected = []
        for own, place in each.images:
            staged = ColumnTexts(place, own.type)
            selected += [own.text("t"), staged.text("s"), f"NOT (t.{own.quoted} <=> s.{place})"]
        row = self.session.run(f"SELECT {', '.join(selected)} FROM {each.rows.place} s {rest} LIMIT 1").fetchone()
        values: dict[str, tuple[str | None, str | None]] = {}
        for number, (own, _) in enumerate(each.images):
            now, before, differs = (row or ())[3 * number : 3 * number + 3] if row else (None, None, 0)
            if differs:
                values[own.name] = own.shown(now), own.shown(before)
        return values


class _Trouble(Exception):
    """A statement failed, or touched another number of rows than it should."""

    def __init__(self, each: _Set, error: StatementFailed | None, count: int = 0):
        self.each = each
        self.error = error
        self.count = count
