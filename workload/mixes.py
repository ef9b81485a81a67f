"""Traffic of the benchmarks: a table of six columns, and mixes of changes.

Every mix ends with an update of the row `MARK` in its last transaction, and counts it among its changes. When the slave
shows that update, it has all changes before it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg

Connection = psycopg.Connection[Any]


class Work(Protocol):
    """Changes of a benchmark on the master."""

    @property
    def title(self) -> str:
        """The title in a report."""
        ...

    @property
    def changes(self) -> int:
        """The number of row changes."""
        ...

    @property
    def tables(self) -> Sequence[str]:
        """The quoted names of the tables that may change, the one with the mark included."""
        ...

    def prepare(self, connection: Connection) -> None:
        """Makes the rows that exist before, the mark included."""
        ...

    def write(self, connection: Connection, mark: str) -> int:
        """Makes the changes. The mark's note becomes `mark` in the last transaction. Returns the number of changes."""
        ...


TABLE = "public.orders"
MARK = -1000
DDL = f"""
CREATE TABLE {TABLE} (
    id bigint PRIMARY KEY,
    customer text NOT NULL,
    amount numeric(12,2) NOT NULL,
    status text NOT NULL,
    note text,
    created timestamptz NOT NULL
)"""
VALUES = """
    i, 'customer ' || i % 977, i % 10000, 'closed', CASE WHEN i % 5 <> 0 THEN 'note ' || i END,
    timestamptz '2026-01-01 10:00+00' + i * interval '1.000001 second'"""
UPDATE = f"UPDATE {TABLE} SET amount = amount + 0.01, status = 'open' WHERE id"


@dataclass(frozen=True)
class Mix:
    """Changes of `orders`: half inserts, four tenths updates, one tenth deletes."""

    name: str
    changes: int
    transaction: int
    """Changes in each transaction."""
    existing: bool = False
    """Whether updates and deletes concern rows that existed before, instead of those that the mix inserted."""
    times: int = 1
    """The number of parts of equal size, each with its own keys."""

    @property
    def title(self) -> str:
        where = ", to rows that were there before" if self.existing else ""
        parts = f", {self.times} times the same mix" if self.times > 1 else ""
        return f"{self.changes:,} changes in transactions of {self.transaction:,}{where}{parts}"

    @property
    def tables(self) -> Sequence[str]:
        return (TABLE,)

    @property
    def base(self) -> int:
        """The number of rows that must exist before."""
        return self.changes // 2 if self.existing else 5

    def prepare(self, connection: Connection) -> None:
        """Inserts the mark, and five rows for the first small transaction or all rows that must exist before."""
        first, last = (1, self.base) if self.existing else (-4, 0)
        connection.execute(
            f"INSERT INTO {TABLE} SELECT {VALUES} FROM (SELECT generate_series({first}, {last}) "
            f"UNION ALL SELECT {MARK}) AS s (i)"
        )

    def write(self, connection: Connection, mark: str) -> int:
        """Makes the changes. The mark's note becomes `mark`. Returns the number of changed rows."""
        write: Callable[[Connection, str], int] = self._write_small if self.transaction == 10 else self._write_large
        return write(connection, mark)

    def _write_large(self, connection: Connection, mark: str) -> int:
        done = 0
        for turn in range(1, self.times + 1):
            done += self._write_turn(
                connection, (turn - 1) * self.changes // self.times, "" if turn < self.times else mark
            )
        return done

    def _write_turn(self, connection: Connection, start: int, mark: str) -> int:
        """Inserts, updates and deletes rows with keys above `start`, and changes the mark if one is given."""
        changes = self.changes // self.times
        inserts, updates = changes // 2, changes * 4 // 10
        deletes = changes - inserts - updates
        above = start + (self.base if self.existing else 0)
        done = 0
        for low, high in _ranges(inserts, self.transaction):
            done += connection.execute(
                f"INSERT INTO {TABLE} SELECT {VALUES} FROM generate_series({above + low}, {above + high}) AS s (i)"
            ).rowcount
        # The mark's update replaces one of them.
        for low, high in _ranges(updates - bool(mark), self.transaction):
            done += connection.execute(f"{UPDATE} BETWEEN {start + low} AND {start + high}").rowcount
        for low, high in _ranges(deletes, self.transaction):
            with connection.transaction():
                last = start + updates + high
                done += connection.execute(
                    f"DELETE FROM {TABLE} WHERE id BETWEEN {start + updates + low} AND {last}"
                ).rowcount
                if mark and high == deletes:
                    done += set_mark(connection, mark)
        return done

    def _write_small(self, connection: Connection, mark: str) -> int:
        """Transaction k inserts five rows, updates four rows of the one before and deletes its fifth."""
        count = self.changes // 10
        connection.execute(f"""
            DO $$ BEGIN
                FOR k IN 1..{count - 1} LOOP
                    INSERT INTO {TABLE} SELECT {VALUES} FROM generate_series(5 * k - 4, 5 * k) AS s (i);
                    {UPDATE} BETWEEN 5 * k - 9 AND 5 * k - 6;
                    DELETE FROM {TABLE} WHERE id = 5 * k - 5;
                    COMMIT;
                END LOOP;
            END $$""")
        with connection.transaction():
            first = 5 * count - 4
            done = connection.execute(
                f"INSERT INTO {TABLE} SELECT {VALUES} FROM generate_series({first}, {first + 4}) AS s (i)"
            ).rowcount
            done += connection.execute(f"{UPDATE} BETWEEN {first - 5} AND {first - 3}").rowcount
            done += connection.execute(f"DELETE FROM {TABLE} WHERE id = {first - 1}").rowcount
            done += set_mark(connection, mark)
        return done + (count - 1) * 10


def add_mark(connection: Connection) -> None:
    """Inserts the row that `set_mark` changes."""
    connection.execute(f"INSERT INTO {TABLE} SELECT {VALUES} FROM (VALUES ({MARK})) AS s (i)")


def set_mark(connection: Connection, mark: str) -> int:
    """Makes the last change of a mix."""
    return connection.execute(f"UPDATE {TABLE} SET note = %s WHERE id = {MARK}", [mark]).rowcount


def shows(connection: Connection, mark: str) -> bool:
    """Whether the slave has the last change of a mix."""
    # Planned each time: a plan from when the table was small would scan the grown table.
    row = connection.execute(f"SELECT note FROM {TABLE} WHERE id = {MARK}", prepare=False).fetchone()
    return row is not None and row[0] == mark


def digest(connection: Connection, table: str = TABLE) -> tuple[int, int]:
    """Returns the number of rows and a sum over their texts. Equal tables have equal digests."""
    connection.execute("SET timezone = 'UTC'")
    statement = f"SELECT count(*), coalesce(sum(hashtextextended(t::text, 0)), 0) FROM {table} t"
    row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def _ranges(count: int, size: int) -> list[tuple[int, int]]:
    """Divides 1 to `count` into ranges of `size`, both ends inclusive."""
    return [(low, min(low + size - 1, count)) for low in range(1, count + 1, size)]
