"""TABLES of a prefix on a PostgreSQL master, and the capture of each table in it."""

from collections.abc import Iterable

from sluice import sql_files
from sluice.database.capture import RegisteredTable
from sluice.model.names import TableName
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.source.bound import Bound


class Registry(Bound):
    """Reads and changes TABLES of one prefix. Each method is one transaction, or part of the caller's."""

    def read(self) -> list[RegisteredTable]:
        """All registered tables in the order of their REPL_KEY, with the faults of their capture."""
        faults: dict[TableName, list[str]] = {}
        for schema, name, fault in self.session.execute(
            f"SELECT schemaname, tablename, fault FROM {self.name('capture_faults')}()"
        ):
            faults.setdefault(TableName(schema, name), []).append(fault)
        rows = self.session.execute(
            "SELECT schemaname, tablename, coalesce(actions, 'IUD'), status, repl_key, trigger_name, debug "
            f"FROM {self.name('tables')} ORDER BY repl_key"
        ).fetchall()
        return [
            RegisteredTable(
                table := TableName(schema, name),
                frozenset(actions.strip()),
                status,
                repl_key,
                trigger,
                debug > 0,
                tuple(faults.get(table, ())),
            )
            for schema, name, actions, status, repl_key, trigger, debug in rows
        ]

    def tables(self) -> list[TableName]:
        """All registered tables; does not check their capture."""
        rows = self.session.execute(f"SELECT schemaname, tablename FROM {self.name('tables')} ORDER BY repl_key")
        return [TableName(schema, name) for schema, name in rows]

    def examine(self, tables: Iterable[TableName]) -> dict[TableName, str]:
        """Those of `tables` that cannot be captured → why, with the remedy. One statement for all."""
        listed = list(tables)
        rows = self.session.execute(sql_files.render("postgres", "unfit_tables"), catalog.pairs(listed)).fetchall()
        return {TableName(schema, name): reason for schema, name, reason in rows}

    def has(self, table: TableName) -> bool:
        """Whether `table` is registered."""
        row = self.session.execute(
            f"SELECT FROM {self.name('tables')} WHERE schemaname = %s AND tablename = %s", [table.schema, table.name]
        ).fetchone()
        return row is not None

    def register(
        self,
        table: TableName,
        *,
        actions: Iterable[str] = "IUD",
        trigger: str | None = None,
        debug: bool = False,
    ) -> str:
        """Adds `table` with status CREATING and the next REPL_KEY. Returns its trigger's name; default: prefix, key."""
        key = self.draw()
        name = trigger or f"{self.prefix}{key}"
        self.session.execute(
            f"INSERT INTO {self.name('tables')} (schemaname, tablename, actions, repl_key, trigger_name, debug) "
            "VALUES (%s, %s, %s, %s, %s, %s)",
            [table.schema, table.name, _letters(actions), key, name, int(debug)],
        )
        return name

    def change(self, table: TableName, *, actions: Iterable[str], trigger: str, debug: bool) -> None:
        """Writes what to capture of `table`; `capture` then changes the triggers."""
        self.session.execute(
            f"UPDATE {self.name('tables')} SET actions = %s, trigger_name = %s, debug = %s, status = 'CREATING' "
            "WHERE schemaname = %s AND tablename = %s",
            [_letters(actions), trigger, int(debug), table.schema, table.name],
        )

    def capture(self, table: TableName) -> str | None:
        """Brings the triggers of `table` up to date and its STATUS to OK. Returns in words what was done, if anything.

        Waits for the table's writers, and blocks new ones, only when a trigger must be made. First queues a change of
        definition that was not reported yet, because the new triggers would never report it; or that another table has
        the name now.
        """
        self.session.execute(
            f"SELECT {self.name('check_table')}(x.schemaname, x.tablename) FROM {self.name('captures')} x "
            "WHERE x.schemaname = %s AND x.tablename = %s",
            [table.schema, table.name],
        )
        row = self.session.execute(
            f"SELECT {self.name('create_trigger')}(%s, %s)", [table.schema, table.name]
        ).fetchone()
        return row[0] if row else None

    def refused(self, table: TableName, reason: str) -> None:
        """Tells slaves, once, that `table` cannot be captured."""
        self.session.execute(f"SELECT {self.name('refused')}(%s, %s, %s)", [table.schema, table.name, reason])

    def remove(self, table: TableName) -> None:
        """Ends the capture of `table`: drops its triggers and its row, keeps ITEMS, and adds an item DROP."""
        names = [table.schema, table.name]
        row = self.session.execute(
            f"SELECT {self.name('described')}(%s, %s) WHERE {self.name('relation')}(%s, %s) IS NOT NULL", names * 2
        ).fetchone()
        # A table that was made a moment ago has triggers over a function of all: first it gets functions to be dropped.
        self.session.execute(
            f"SELECT {self.name('create_trigger')}(x.schemaname, x.tablename) FROM {self.name('captures')} x "
            "WHERE x.schemaname = %s AND x.tablename = %s AND x.mode = 'statement' AND x.trigger_fingerprint = ''",
            names,
        )
        # Dropping the triggers waits for the table's writers, so the item is queued behind their changes.
        self.session.execute(f"DELETE FROM {self.name('tables')} WHERE schemaname = %s AND tablename = %s", names)
        if row is not None and row[0] is not None:
            self.session.execute(f"SELECT {self.name('ddl_item')}('DROP', %s, %s, NULL, %s)", [*names, row[0]])

    def put_last(self, table: TableName) -> None:
        """Gives `table` the next REPL_KEY, so that it is loaded after all others."""
        self.session.execute(
            f"UPDATE {self.name('tables')} SET repl_key = %s WHERE schemaname = %s AND tablename = %s",
            [self.draw(), table.schema, table.name],
        )

    def draw(self) -> int:
        """The next number of SEQ."""
        row = self.session.execute(f"SELECT {self.name('increment')}()").fetchone()
        assert row is not None
        return int(row[0])


def _letters(actions: Iterable[str]) -> str:
    return "".join(action for action in "IUD" if action in set(actions))
