"""A database that must pass the contract, used only through the vendor's protocols."""

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from typing import cast

from sluice.apply import net_changes
from sluice.capture import reconcile, resources
from sluice.configuration.placement import Placement
from sluice.configuration.resolve import ResolvedTable
from sluice.database import xml_images
from sluice.database.apply import Alterer, Merger
from sluice.database.column_types import LogicalColumn
from sluice.database.digests import Method, TableDigest, compared
from sluice.database.placed import placed
from sluice.database.registry import vendor_of
from sluice.database.schema import TableDefinition
from sluice.database.session import Session
from sluice.database.vendor import Master
from sluice.model.connection import ConnectionInfo
from sluice.model.logical_type import Kind, LogicalType
from sluice.model.names import Prefix, TableName
from sluice.model.shape import Column, TableShape
from sluice.model.vendors import FIRST
from sluice.vendors.oracle.session import native as oracle
from tests.unit.changes import TABLE, History

PREFIX = Prefix("DEMO_")
SLAVE = "dr1"
INTEGER, TEXT = LogicalType(Kind.INTEGER, 32), LogicalType(Kind.TEXT, length=100)
Row = tuple[str | None, ...]
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


class Writer:
    """A session whose transactions the test begins and ends."""

    def __init__(self, session: Session):
        self.session = session
        self.written = 0
        """Changes since its transaction began, as far as a test counts them."""
        self._open: ExitStack | None = None

    @property
    def open(self) -> bool:
        return self._open is not None

    def begin(self) -> None:
        self._open = ExitStack()
        self._open.enter_context(self.session.transaction())

    def do(self, statement: str) -> None:
        self.session.execute(statement.encode())

    def commit(self) -> None:
        held, self._open = self._open, None
        assert held is not None
        held.close()

    def prepare(self, name: str) -> None:
        """Prepares its transaction; another session may commit it."""
        self.do(f"PREPARE TRANSACTION '{name}'")
        self.commit()

    def rollback(self) -> None:
        held, self._open = self._open, None
        assert held is not None
        with suppress(Undone):
            held.__exit__(Undone, Undone(), None)


class Undone(Exception):
    """Rolls a transaction back."""


@dataclass
class Contender:
    """An empty database of a vendor."""

    info: ConnectionInfo
    schema: str
    two_phase: bool = False
    """Whether a master has transactions that are prepared with PREPARE TRANSACTION."""
    oracle: bool = False
    """See `Server`."""
    sessions: list[Session] = field(default_factory=list)
    placement: Placement = field(default_factory=Placement)
    """Where a slave has the master's tables."""

    @property
    def vendor(self) -> Master:
        """Of a slave, only what slaves do."""
        return cast(Master, placed(vendor_of(self.info.vendor), self.placement))

    def session(self, *, autocommit: bool = True) -> Session:
        """Another session; it ends with the test."""
        made = self.vendor.sessions.connect(self.info, application="contract", autocommit=autocommit)
        self.sessions.append(made)
        return made

    def close(self) -> None:
        for session in self.sessions:
            session.close()

    # A master

    def install(self) -> None:
        """Installs the resources of the prefix."""
        with closing(self.vendor.sessions.connect(self.info, application="contract")) as session:
            resources.install(session, PREFIX, self.schema)

    def capture(self, *names: str) -> None:
        """Captures tables of the schema public: their changes are queued from now on."""
        with closing(self.vendor.sessions.connect(self.info, application="contract")) as session:
            wanted = [ResolvedTable(self.captured(name), frozenset("IUD"), -1, None, False) for name in names]
            reconcile.reconcile(session, PREFIX, self.schema, wanted)

    def captured(self, name: str) -> TableName:
        """A captured table that was created as `name`, without quotes, where the tests create tables."""
        if not self.oracle:
            return TableName("public", name)
        with closing(self.vendor.sessions.connect(self.info, application="contract")) as session:
            return TableName(oracle(session).schema, name.upper())

    def place(self, name: str) -> str:
        """The table's name in a statement."""
        return name if self.oracle else f"public.{name}"

    @property
    def whole_number(self) -> str:
        """An integer type of a master."""
        return "NUMBER(10)" if self.oracle else "int"

    @property
    def short_text(self) -> str:
        return "VARCHAR2(20)" if self.oracle else "varchar(20)"

    def change(self, statement: str) -> None:
        """Runs one statement in its own session, which commits."""
        with closing(self.vendor.sessions.connect(self.info, application="contract", autocommit=True)) as session:
            session.execute(statement.encode())

    def writer(self) -> "Writer":
        """A session that changes rows; it ends with the test."""
        return Writer(self.session())

    # A slave

    def create(
        self,
        columns: Mapping[str, LogicalType] = {"id": INTEGER, "v": TEXT},
        key: Sequence[str] = ("id",),
        table: TableName = TABLE,
    ) -> None:
        """Creates a table with the vendor's types for these types."""
        with closing(self.vendor.sessions.connect(self.info, application="contract", autocommit=True)) as session:
            wanted = [LogicalColumn(name, logical, name in key) for name, logical in columns.items()]
            made = self.vendor.types.made_of(session, wanted)
            shape = TableShape(
                table,
                tuple(
                    Column(each.name, there.type, place, each.name not in key, key_place(each.name, key))
                    for place, (each, there) in enumerate(zip(wanted, made, strict=True), start=1)
                ),
            )
            definition = TableDefinition(shape, f"{table.name}_pkey" if key else None, "p", (), {})
            with session.transaction():
                self.vendor.load_target.create_table(session, definition, trusted=True)

    def applying(self) -> tuple[Session, Merger]:
        """A session like an apply's."""
        session = self.session(autocommit=False)
        silent = self.vendor.sessions.begin_applying(session, str(PREFIX))
        return session, self.vendor.applying.Merger(session, cascades=not silent)

    def alterer(self, merger: Merger) -> Alterer:
        return merger.alterer(trusted=True, of_master=vendor_of(FIRST).types, lossy=())

    def merge(self, history: History, start: int = 0, *, images: bool = False, safe: bool = False) -> None:
        """Merges the net changes of a history from `start` on, in their own transaction."""
        session, merger = self.applying()
        found = net_changes.events(history.window(start), history.key, xml_images)
        with session.transaction():
            merger.begin()
            merger.merge([net_changes.reduce(found, before=images, safe=safe)], safe=safe)

    # Reading back, by canonical texts

    def digest(self, session: Session, table: TableName = TABLE) -> TableDigest:
        shape = self.vendor.rows.shape(session, table)
        assert shape is not None, f"{table} is there"
        columns = compared(self.vendor.types, ((column.name, column.type) for column in shape.replicated))
        key = tuple(column.name for column in shape.key)
        return self.vendor.digests.table(shape, columns, key, Method.CANONICAL)

    def expected(self, rows: Sequence[Row], table: TableName = TABLE) -> list[Row]:
        """`rows` of a table as they should be read back."""
        if not self.oracle:
            return sorted(rows, key=repr)
        shape = self.vendor.rows.shape(self.session(), table)
        assert shape is not None, f"{table} is there"
        lobs = [column.type.endswith("LOB") for column in shape.replicated]
        return sorted((tuple(map(_on_oracle, row, lobs)) for row in rows), key=repr)

    def rows(self, table: TableName = TABLE) -> list[Row]:
        """All rows, as canonical texts, in some order."""
        session = self.session()
        digest = self.digest(session, table)
        if not digest.shape.key:
            copies = digest.copies(session, [0])
            return sorted((tuple(row) for count, *row in copies for _ in range(count)), key=repr)
        keys = [tuple(key) for _, *key in digest.of_rows(session, [0])]
        found = [row for _, row in digest.rows_of_keys(session, keys)]
        assert all(row is not None for row in found), "each key that is there is found"
        return sorted((tuple(row.values()) for row in found if row is not None), key=repr)


def key_place(name: str, key: Sequence[str]) -> int:
    """The position in the key, from 1; 0 for none."""
    return key.index(name) + 1 if name in key else 0


def _on_oracle(text: str | None, lob: bool) -> str | None:
    if text in ("", "\\x") and not lob:
        return None
    return f"{text} 00:00:00.000000" if text and _DATE.fullmatch(text) else text
