"""Reading ITEMS on an Oracle master: windows as Arrow (`sluice.database.changes.ChangeReader`).

A reader keeps its session and is used by one thread at a time. After a `Transient` error it connects anew at the next
call.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa

from sluice import sql_files
from sluice.database.changes import LARGEST_CHANGE, Cut, Share, Survey, TooManyBytes
from sluice.database.items import ITEMS
from sluice.database.registry import vendor_of
from sluice.errors import Transient
from sluice.model import table_definition
from sluice.model.change import Action
from sluice.model.connection import ConnectionInfo
from sluice.model.content import is_partial
from sluice.model.names import Prefix, TableName
from sluice.model.position import Window
from sluice.model.table_definition import TableDefinition
from sluice.vendors.oracle.queue_position import QueuePosition, number_of, trans_key_of
from sluice.vendors.oracle.session import OracleSession, Value, native
from sluice.vendors.oracle.source.unread_columns import UnreadChange, completed

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
    places = {column.name: column.position for column in former}
    gone = {column.position for column in former if column.name not in names}
    renamed = len(former) == len(present)
    last = max([column.position for column in former], default=0)
    columns = []
    for column in present:
        place = places.get(column.name)
        if place is None and renamed and column.position in gone:
            place = column.position
        if place is None:
            last += 1
            place = last
        columns.append(replace(column, position=place))
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
                wanted = (
                    f"SELECT g.GUID FROM JSON_TABLE(:guids_{number}, '$[*]' COLUMNS (GUID VARCHAR2(4000) PATH '$')) g"
                )
                conditions.append(f"({text} AND i.GUID IN ({wanted}))")
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
            wanted = min(left, _SURVEYED)
            rows = self._rows("queue_survey", Condition(window.between(above, window.up_to), values={"most": wanted}))
            for key, characters, changes_key in rows:
                yield int(key), int(characters), int(changes_key)
            if len(rows) < wanted:
                return
            above, left = int(rows[-1][0]), left - wanted

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
                contents = completed(session, self.prefix, unread.values(), scn)
                _expect_few(size, max_bytes, *contents.values())
                for place, change in unread.items():
                    columns[_CONTENT][place] = contents[change.repl_key]
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
