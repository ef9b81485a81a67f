"""Reading ITEMS on an Oracle master: windows as Arrow (`sluice.database.changes.ChangeReader`).

A reader keeps its session and is used by one thread at a time. After a `Transient` error it connects again at the next
call.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa

from sluice import sql_files
from sluice.database.changes import LARGEST_CHANGE, Cut, Share, Survey, TooManyBytes
from sluice.database.digests import Compared, ComparedTable
from sluice.database.errors import Contended, SnapshotTooOld
from sluice.database.items import ITEMS
from sluice.database.registry import vendor_of
from sluice.errors import Transient
from sluice.model import content, table_definition
from sluice.model.change import Action
from sluice.model.connection import ConnectionInfo
from sluice.model.content import is_partial
from sluice.model.logical_type import Kind
from sluice.model.names import Prefix, TableName
from sluice.model.position import Window
from sluice.model.shape import Column
from sluice.model.table_definition import TableDefinition
from sluice.vendors.oracle import catalog
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.column_types import logical
from sluice.vendors.oracle.queue_position import QueuePosition, number_of, trans_key_of
from sluice.vendors.oracle.rows import OracleRows
from sluice.vendors.oracle.session import OracleSession, Value, native

Key = tuple[str | None, ...]
Values = tuple[str | None, ...]


@dataclass(frozen=True)
class UnreadChange:
    """A change whose content lacks the values of columns that no trigger can read: LONG, LONG RAW, XMLTYPE.

    They are read from the row itself, by its key, as of the end of the window. So the last change of a row in a window
    has the right values. Earlier changes of the row have them too early, which nobody sees: a window is one
    transaction, and the slices of a large one are no states of the master. A row that no longer exists then has a later
    change in the window, which deletes it.
    """

    repl_key: int
    table: TableName
    action: str
    content: str


def with_unread_values(
    session: OracleSession, prefix: Prefix, changes: Iterable[UnreadChange], scn: int
) -> dict[int, str]:
    """The contents of `changes`, which are in order, with the values of their rows as of `scn`.

    For a row that no longer exists, an INSERT has empty values, which are deleted with the row; in an UPDATE the
    columns stay unchanged. The values of the last change of a row are stored in LONGS_TABLE: they remain right when
    the row is changed later.
    """
    contents: dict[int, str] = {}
    kept: dict[tuple[TableName, Key], int] = {}
    by_table: dict[TableName, list[UnreadChange]] = {}
    for change in changes:
        by_table.setdefault(change.table, []).append(change)
    for table, changes_of_table in by_table.items():
        shape = catalog.shape(session, table)
        columns = [] if shape is None or not shape.key else [each for each in shape.columns if _own(each).unread]
        rows = {change.repl_key: dict(content.parse(change.content)) for change in changes_of_table}
        key = [] if shape is None else [column.name for column in shape.key]
        keys = {number: tuple(row.get(name) for name in key) for number, row in rows.items()}
        values = _read(session, table, key, columns, sorted(set(keys.values()), key=repr), scn) if columns else {}
        for change in changes_of_table:
            row = values.get(keys[change.repl_key])
            if row is not None:
                kept[table, keys[change.repl_key]] = change.repl_key
            contents[change.repl_key] = _complete(change, columns, row)
    _keep(session, prefix, {number: contents[number] for number in kept.values()})
    return contents


def _own(column: Column) -> ColumnTexts:
    return ColumnTexts(column.name, column.type)


def _read(
    session: OracleSession, table: TableName, key: list[str], columns: list[Column], keys: list[Key], scn: int
) -> Mapping[Key, Values]:
    """The values as of `scn`; if undo does not reach back to it, or the table was altered since, the present values."""
    compared = tuple(Compared(column.name, column.type, logical(column.type)) for column in columns)
    of = ComparedTable(table, compared, tuple(key))
    with suppress(SnapshotTooOld, Contended):
        session.see(scn)
        try:
            return _rows_by_key(session, of, keys)
        finally:
            session.see_now()
    return _rows_by_key(session, of, keys)


def _rows_by_key(session: OracleSession, of: ComparedTable, keys: list[Key]) -> Mapping[Key, Values]:
    rows = OracleRows().rows_under(session, of, keys, alike=True)
    return {each: row for each, row in zip(keys, rows, strict=True) if row is not None}


def _complete(change: UnreadChange, columns: list[Column], values: Values | None) -> str:
    if values is not None:
        former = {column.name: value for column, value in zip(columns, values, strict=True)}
    elif change.action == Action.INSERT:
        former = {column.name: "\\x" if _own(column).kind is Kind.BINARY else "" for column in columns}
    else:
        return change.content
    return content.complete(change.content, former)


def _keep(session: OracleSession, prefix: Prefix, contents: Mapping[int, str]) -> None:
    statement = sql_files.render("oracle", "longs_fill", prefix=str(prefix))
    rows: list[dict[str, Value]] = [
        {"repl_key": number, "content": text, "mark": content.UNCHANGED} for number, text in contents.items()
    ]
    session.run_many(statement, rows)


# Matches columns of a definition with those of the definition before it.
#
# Oracle numbers columns again when one is dropped, so a number does not identify a column, as `Column.position` has
# to.


def with_places(now: TableDefinition, before: TableDefinition) -> TableDefinition:
    """`now` with the column numbers of `before`.

    A column with the same name is the same one. If there are as many columns as before, a column with a new name
    counts as the missing one of its place, which was renamed. All others are new.
    """
    former, present = before.shape.columns, now.shape.columns
    names = {column.name for column in present}
    positions = {column.name: column.position for column in former}
    gone = {column.position for column in former if column.name not in names}
    renamed = len(former) == len(present)
    last = max([column.position for column in former], default=0)
    columns = []
    for column in present:
        position = positions.get(column.name)
        if position is None and renamed and column.position in gone:
            position = column.position
        if position is None:
            last += 1
            position = last
        columns.append(replace(column, position=position))
    return replace(now, shape=replace(now.shape, columns=tuple(columns)))


BY_ROWID = "1R"
"""VERSION of a change whose GUID is a ROWID, because its table has no key."""
_SURVEYED = 50_000
"""The number of rows that are read at once."""
_ENDLESS = 2**62
_CONTENT = ITEMS.get_field_index("content")
_ROWS = "i.DB_ACTION IN ('INSERT', 'UPDATE', 'DELETE')"
_KEY_CHANGES = "(i.DB_ACTION = 'UPDATE' AND i.GUID IS NULL)"


@dataclass(frozen=True)
class Condition:
    """The part of ITEMS that a statement reads."""

    window: Window
    selection: str = "1 = 1"
    """A further condition on a change, `i`."""
    values: Mapping[str, Value] = field(default_factory=dict)
    """The values of the parameters in `selection`."""

    @property
    def binds(self) -> dict[str, Value]:
        """The values of all parameters."""
        former, target = QueuePosition.of(self.window.previous), QueuePosition.of(self.window.target)
        up_to = target.high if self.window.up_to is None else min(self.window.up_to, target.high)
        return {
            "floor": max(self.window.above, former.floor(target)),
            "ceiling": up_to,
            "low": target.low,
            "open": listed(target.open),
            "seen": listed(target.seen),
            "former_low": former.low,
            "former_high": former.high,
            "former_open": listed(former.open),
            "former_seen": listed(former.seen),
            **self.values,
        }

    def statement(self, name: str, prefix: Prefix) -> str:
        """The text of one of the files of the queue."""
        placeholders = {"window": sql_files.render("oracle", "queue_window").strip(), "selection": self.selection}
        if name == "queue_cuts":
            del placeholders["selection"]
        return sql_files.render("oracle", name, prefix=str(prefix), **placeholders)


def listed(transactions: Collection[int]) -> str:
    """A set of transactions in the form of the statements."""
    return json.dumps([trans_key_of(number) for number in sorted(transactions)])


def of_table(table: TableName, number: int = 0) -> tuple[str, dict[str, Value]]:
    """The condition that a change belongs to the table, and its values; `number` makes their names unique."""
    schema, name = f"schema_{number}", f"name_{number}"
    return f"i.DB_SCHEMA = :{schema} AND i.TABLENAME = :{name}", {schema: table.schema, name: table.name}


def _of_share(share: Share) -> tuple[str, dict[str, Value]]:
    # A table without a key is one unit: copies that come and copies that go must meet to cancel out.
    unit = f"CASE WHEN i.VERSION = '{BY_ROWID}' THEN i.DB_SCHEMA || '.' || i.TABLENAME ELSE i.GUID END"
    text = f"{_ROWS} AND NOT {_KEY_CHANGES} AND ORA_HASH({unit}, :last_part) = :part"
    return text, {"last_part": share.of - 1, "part": share.number}


class OracleReader:
    """Reads windows of one prefix's ITEMS. `schema`: the account's own, which has them."""

    def __init__(
        self,
        info: ConnectionInfo,
        prefix: Prefix,
        schema: str,
        *,
        application: str = "sluice",
        largest: int = LARGEST_CHANGE,
    ):
        """`largest` has no effect: changes of any size are read."""
        del schema, largest
        self.info = info
        self.prefix = prefix
        self.application = application
        self._session: OracleSession | None = None

    def items(
        self,
        window: Window,
        *,
        share: Share | None = None,
        images: bool = False,
        max_bytes: int | None = None,
        rows_of: TableName | None = None,
    ) -> pa.Table:
        """The changes of the window in REPL_KEY order, with the columns of `ITEMS` and always with old images.
        Raises `TooManyBytes`, errors of `sluice.database.errors`."""
        del images
        if rows_of is not None:
            text, values = of_table(rows_of)
            chosen = Condition(window, f"{text} AND {_ROWS}", values)
        else:
            chosen = Condition(window) if share is None else Condition(window, *_of_share(share))
        return self._table(chosen, max_bytes)

    def key_changes(
        self,
        window: Window,
        *,
        guids: Mapping[TableName, Collection[str]] | None = None,
        images: bool = False,
    ) -> pa.Table:
        """UPDATEs that change a key, and all changes of the keys `guids`, which no `Share` may apply."""
        del images
        conditions, values = [_KEY_CHANGES], dict[str, Value]()
        for number, (table, keys) in enumerate((guids or {}).items()):
            if keys:
                text, own = of_table(table, number)
                # A list of values has 1,000 of them at most; a JSON array any number.
                among = (
                    f"SELECT g.GUID FROM JSON_TABLE(:guids_{number}, '$[*]' COLUMNS (GUID VARCHAR2(4000) PATH '$')) g"
                )
                conditions.append(f"({text} AND i.GUID IN ({among}))")
                values |= own | {f"guids_{number}": json.dumps(sorted(keys))}
        return self._table(Condition(window, f"({' OR '.join(conditions)})", values))

    def survey(self, window: Window, *, limit: int | None = None, max_bytes: int | None = None) -> Survey:
        """Counts the window, or its first `limit` changes and `max_bytes` of contents, at least one change.

        Bytes are counted as characters: the server does not tell the bytes of a LOB without reading it.
        """
        most = _ENDLESS if limit is None else limit
        changes = size = key_changes = 0
        last: int | None = None
        more = False
        for key, characters, changes_key in self._surveyed(window, most + 1):
            if changes >= most or (changes and max_bytes is not None and size + characters > max_bytes):
                more = True
                break
            changes, size, last = changes + 1, size + characters, key
            key_changes += changes_key
        return Survey(changes, last, size, key_changes, self._cuts(window, last), more)

    def unordered(self, window: Window) -> bool:
        """See `sluice.database.changes.ChangeReader`."""
        chosen = Condition(window, "i.DB_ACTION = :action", {"action": str(Action.DELETE_WHERE), "most": 1})
        return bool(self._rows("queue_survey", chosen))

    def close(self) -> None:
        """Ends the session; the next call opens another one."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def __enter__(self) -> "OracleReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _surveyed(self, window: Window, most: int) -> Iterator[tuple[int, int, int]]:
        above, left = window.above, most
        while left > 0:
            asked = min(left, _SURVEYED)
            rows = self._rows("queue_survey", Condition(window.between(above, window.up_to), values={"most": asked}))
            for key, characters, changes_key in rows:
                yield int(key), int(characters), int(changes_key)
            if len(rows) < asked:
                return
            above, left = int(rows[-1][0]), left - asked

    def _cuts(self, window: Window, last: int | None) -> tuple[Cut, ...]:
        if last is None:
            return ()
        rows = self._rows("queue_cuts", Condition(window.between(window.above, last)))
        return tuple(
            Cut(int(key), number_of(transaction), action, TableName(schema, table))
            for key, transaction, action, schema, table in rows
        )

    def _table(self, chosen: Condition, max_bytes: int | None = None) -> pa.Table:
        columns: list[list[Any]] = [[] for _ in ITEMS]
        unread: dict[int, UnreadChange] = {}  # by place, changes whose content lacks values
        size = 0
        with self._connected() as session:
            stream = session.stream(chosen.statement("queue_items", self.prefix), chosen.binds)
            next(stream)  # names of columns
            for batch in stream:
                for row in batch:
                    item = _item(row)
                    if item.action in (Action.INSERT, Action.UPDATE) and is_partial(item.content or ""):
                        change = UnreadChange(item.repl_key, TableName(*item[2:4]), item.action, item.content or "")
                        unread[len(columns[0])] = change
                    size += _expect_few(size, max_bytes, item.content, item.oldcontent)
                    for column, value in zip(columns, item, strict=True):
                        column.append(value)
            if unread:
                scn = QueuePosition.of(chosen.window.target).scn
                contents = with_unread_values(session, self.prefix, unread.values(), scn)
                _expect_few(size, max_bytes, *contents.values())
                for index, change in unread.items():
                    columns[_CONTENT][index] = contents[change.repl_key]
        return pa.table([pa.array(values, kind.type) for values, kind in zip(columns, ITEMS, strict=True)], ITEMS)

    def _rows(self, name: str, chosen: Condition) -> list[tuple[Any, ...]]:
        with self._connected() as session:
            return session.run(chosen.statement(name, self.prefix), chosen.binds).fetchall()

    @contextmanager
    def _connected(self) -> Iterator[OracleSession]:
        """The session; a transient failure or an interruption ends it."""
        if self._session is None:
            sessions = vendor_of(self.info.vendor).sessions
            self._session = native(sessions.connect(self.info, application=self.application, autocommit=True))
        try:
            yield self._session
        except (Transient, TooManyBytes):
            self.close()
            raise


class _Item(NamedTuple):
    """A table with the columns of `ITEMS`."""

    repl_key: int
    trans_key: int
    schema: str
    table: str
    guid: str | None
    action: str
    content: str | None
    oldcontent: str | None


def _expect_few(before: int, most: int | None, *texts: str | None) -> int:
    """The number of characters of the texts. Raises `TooManyBytes` if there are too many."""
    size = sum(len(text or "") for text in texts)
    if most is not None and before + size > most:
        raise TooManyBytes(most)
    return size


def _item(row: Sequence[Any]) -> _Item:
    """A row of ITEMS in the common form: without a key, GUID is empty; it is NULL if an UPDATE changed the key."""
    key, transaction, schema, table, guid, action, content, oldcontent, version = row
    if version == BY_ROWID:
        guid = ""
    if action == "UPDATE" and oldcontent is None:
        oldcontent = ""  # nothing of it is other: an empty text is NULL on the server
    if action == "ALTER" and content and oldcontent:
        now, before = table_definition.parse(content), table_definition.parse(oldcontent)
        content = table_definition.format_definition(with_places(now, before))
    return _Item(int(key), number_of(transaction), schema, table, guid, action, content, oldcontent)
