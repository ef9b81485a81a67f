"""A master under test: resources installed, tables registered, items read, and a model that replays them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from sluice.capture import reconcile, resources
from sluice.configuration.resolve import ResolvedTable
from sluice.model import content
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.vendors.postgres.connection import CANONICAL, connect, quoted

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, v text, n int)"


@dataclass(frozen=True)
class Item:
    """One row of ITEMS."""

    repl_key: int
    trans_key: str
    table: TableName
    guid: str | None
    action: str
    content: str | None
    oldcontent: str | None

    @property
    def new(self) -> dict[str, str | None]:
        return dict(content.parse(self.content or ""))

    @property
    def old(self) -> dict[str, str | None]:
        """The columns of OLDCONTENT."""
        return dict(content.parse(self.oldcontent or ""))

    @property
    def old_row(self) -> dict[str, str | None]:
        """The whole row before the change: for an update, CONTENT with the columns of OLDCONTENT replaced."""
        return {**self.new, **self.old}


@dataclass
class Master:
    """`connection` commits each statement; it has none of the canonical settings."""

    info: ConnectionInfo
    prefix: Prefix = field(default_factory=lambda: Prefix("DEMO_"))
    schema: str = "public"

    def __post_init__(self) -> None:
        self.connection = self.session()

    def session(self, user: str | None = None, *, autocommit: bool = True, **settings: str) -> psycopg.Connection[Any]:
        """Another session, like an application's. The caller closes it, or leaves it to the end."""
        options = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in settings.items())
        return psycopg.connect(
            host=self.info.host,
            port=self.info.port,
            dbname=self.info.database,
            user=user or self.info.user,
            password=self.info.password,
            options=options,
            autocommit=autocommit,
        )

    def install(self) -> resources.InstallReport:
        with connect(self.info, application="test") as connection:
            return resources.install(connection, self.prefix, self.schema)

    def reconcile(self, *tables: ResolvedTable) -> reconcile.ReconcileReport:
        with connect(self.info, application="test") as connection:
            return reconcile.reconcile(connection, self.prefix, self.schema, tables)

    def register(self, *names: str | TableName, actions: str = "IUD") -> None:
        """Configures exactly these tables, names without a schema in `public`."""
        self.reconcile(*(wanted(name, actions) for name in names))

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement)  # type: ignore[call-overload]

    def rows(self, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        return self.connection.execute(query, parameters).fetchall()  # type: ignore[call-overload]

    def value(self, query: str, parameters: Any = None) -> Any:
        return self.rows(query, parameters)[0][0]

    def name(self, resource: str) -> str:
        return quoted(self.schema, self.prefix.lower + resource)

    def items(self, after: int = 0, *, ddl: bool = False) -> list[Item]:
        """Items in REPL_KEY order; without `ddl` those of rows and TRUNCATE only."""
        rows = self.rows(
            "SELECT repl_key, trans_key::text, db_schema, tablename, guid, db_action, content, oldcontent "
            f"FROM {self.name('items')} WHERE repl_key > %s ORDER BY repl_key",
            [after],
        )
        found = [Item(key, xid, TableName(schema, table), *rest) for key, xid, schema, table, *rest in rows]
        return found if ddl else [item for item in found if item.action not in ("CREATE", "ALTER", "DROP")]

    def last_key(self) -> int:
        return int(self.value(f"SELECT coalesce(max(repl_key), 0) FROM {self.name('items')}"))

    @contextmanager
    def captured(self) -> Iterator[list[Item]]:
        """The items written inside the block."""
        after = self.last_key()
        found: list[Item] = []
        yield found
        found.extend(self.items(after))

    def contents(self, table: str | TableName) -> Counter[tuple[tuple[str, str | None], ...]]:
        """The current rows of a table, as multisets of (column, canonical text), without generated columns."""
        name = resolved(table)
        with self.session(**{key: value for key, value in CANONICAL.items() if key != "client_encoding"}) as connection:
            columns = [
                column
                for (column,) in connection.execute(
                    "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 "
                    "AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
                    [quoted(name.schema, name.name)],
                )
            ]
            # The same output as COPY's would lose nothing either; text is what the queue carries.
            texts = ", ".join(f"{_text(connection, name, column)}" for column in columns) or "1"
            only = "" if self._partitioned(name) else "ONLY"
            rows = connection.execute(f"SELECT {texts} FROM {only} {quoted(name.schema, name.name)}").fetchall()
        return Counter(tuple(zip(columns, row, strict=True)) if columns else () for row in rows)

    def _partitioned(self, name: TableName) -> bool:
        return bool(
            self.value(
                "SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass(%s)", [quoted(name.schema, name.name)]
            )
        )


def _text(connection: psycopg.Connection[Any], table: TableName, column: str) -> str:
    reference = quoted(column)
    kind = connection.execute(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = %s",
        [quoted(table.schema, table.name), column],
    ).fetchone()
    if kind and kind[0] == "bpchar":
        return f"CASE WHEN {reference} IS NOT NULL THEN concat({reference}) END"
    return f"({reference})::text"


def resolved(name: str | TableName) -> TableName:
    return name if isinstance(name, TableName) else TableName("public", name)


def wanted(name: str | TableName, actions: str = "IUD", **options: Any) -> ResolvedTable:
    """A table of the configuration."""
    return ResolvedTable(
        resolved(name),
        frozenset(actions),
        options.get("sequence", -1),
        options.get("trigger"),
        options.get("debug", False),
    )


class Model:
    """The slave's rows after replaying items one by one, strictly, in REPL_KEY order.

    The replay fails at a row that is missing, or that exists although it should not.
    """

    def __init__(self) -> None:
        self.tables: dict[TableName, Counter[tuple[tuple[str, str | None], ...]]] = {}

    def start(self, table: str | TableName, rows: Counter[tuple[tuple[str, str | None], ...]]) -> "Model":
        self.tables[resolved(table)] = Counter(rows)
        return self

    def replay(self, items: Iterable[Item]) -> "Model":
        for item in items:
            rows = self.tables.setdefault(item.table, Counter())
            if item.action in ("UPDATE", "DELETE"):
                self._take(rows, item, item.old_row)
            if item.action in ("UPDATE", "INSERT"):
                rows[tuple(item.new.items())] += 1
            if item.action == "TRUNCATE":
                rows.clear()
        return self

    def contents(self, table: str | TableName) -> Counter[tuple[tuple[str, str | None], ...]]:
        return +self.tables.get(resolved(table), Counter())

    @staticmethod
    def _take(rows: Counter[tuple[tuple[str, str | None], ...]], item: Item, old: dict[str, str | None]) -> None:
        row = tuple(old.items())
        assert rows[row] > 0, f"{item} changes a row that is not there: {row}"
        rows[row] -= 1


def ddl(master: Master, after: int) -> list[Item]:
    """The items of definitions with keys above `after`."""
    return [item for item in master.items(after, ddl=True) if item.action in ("CREATE", "ALTER", "DROP")]
