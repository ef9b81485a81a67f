"""Compares a master and a slave of different vendors.

The two servers print values differently, so each computes a table's digest over the canonical texts of docs/types.md.
If digests differ, the digests of all rows are read with their keys, and the first differing rows are shown.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from devstack.demo.accounts import connect
from devstack.demo.compare import SHOWN, Difference, Side, Verdict
from sluice.database.digests import DigestedRow, Method, TableDigest, compared
from sluice.database.registry import master_of, vendor_of
from sluice.database.session import Session
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.model.shape import TableShape

Digests = tuple[TableDigest, TableDigest]
Row = tuple[str | None, ...]


def compare(master: ConnectionInfo, slave: ConnectionInfo, wanted: list[TableName]) -> Iterator[Verdict]:
    """Yields a verdict for each table, in order. Neither side may change meanwhile. Raises Sluice's errors."""
    of_master, of_slave = master_of(master.vendor), vendor_of(slave.vendor)
    with (
        connect(master, "comparison") as left,
        connect(slave, "comparison") as right,
        ThreadPoolExecutor(2) as pool,
    ):
        for table in wanted:
            master_shape, slave_shape = of_master.rows.shape(left, table), of_slave.rows.shape(right, table)
            if problem := _problem(master_shape, slave_shape):
                yield Verdict(table, None, None, problem)
                continue
            assert master_shape is not None and slave_shape is not None
            types = {column.name: column.type for column in slave_shape.columns}
            replicated = master_shape.replicated
            columns = compared(of_slave.types, ((column.name, types[column.name]) for column in replicated))
            key = tuple(column.name for column in master_shape.key)
            digests = (
                of_master.digests.table(master_shape, columns, key, Method.CANONICAL),
                of_slave.digests.table(slave_shape, columns, key, Method.CANONICAL),
            )
            master_side, slave_side = pool.map(_side, digests, (left, right))
            differences = () if master_side == slave_side else tuple(_differences(digests, (left, right)))
            yield Verdict(table, master_side, slave_side, "", differences)


def _problem(master: TableShape | None, slave: TableShape | None) -> str:
    if master is None or slave is None:
        return f"missing on the {'master' if master is None else 'slave'}"
    on_master = {column.name for column in master.replicated}
    on_slave = {column.name for column in slave.columns}
    parts = (("lacks", on_master - on_slave), ("has besides", on_slave - on_master))
    return "; ".join(f"the slave {verb} {', '.join(sorted(names))}" for verb, names in parts if names)


def _side(digest: TableDigest, session: Session) -> Side:
    blocks = [block for part in digest.parts(session) for block in digest.of_blocks(session, part)]
    return Side(sum(rows for _, rows, _ in blocks), f"{sum(int(total) for *_, total in blocks) % 2**64:016x}")


def _differences(digests: Digests, sessions: tuple[Session, Session]) -> Iterator[Difference]:
    """Yields the first differing rows in the order of the key's texts; of a keyless table with their counts."""
    (of_master, of_slave), (left, right) = digests, sessions
    if not of_master.shape.key:
        on_master, on_slave = (_copies(digest, session) for digest, session in zip(digests, sessions, strict=True))
        unequal = [row for row in on_master.keys() | on_slave.keys() if on_master.get(row) != on_slave.get(row)]
        for row in sorted(unequal, key=repr)[:SHOWN]:
            yield Difference(repr(row), _times(on_master.get(row)), _times(on_slave.get(row)))
        return
    master_rows, slave_rows = (_by_key(d.of_rows(s, [0])) for d, s in zip(digests, sessions, strict=True))
    wrong = [key for key in master_rows.keys() | slave_rows.keys() if master_rows.get(key) != slave_rows.get(key)]
    keys = sorted(wrong, key=repr)[:SHOWN]
    for (key, master_row), (_, slave_row) in zip(
        of_master.rows_of_keys(left, keys), of_slave.rows_of_keys(right, keys), strict=True
    ):
        rows = (None if row is None else repr(tuple(row.values())) for row in (master_row, slave_row))
        yield Difference(repr(key), *rows)


def _by_key(rows: list[DigestedRow]) -> dict[Row, list[int]]:
    digests: dict[Row, list[int]] = {}
    for digest, *key in rows:
        digests.setdefault(tuple(key), []).append(digest)
    return digests


def _copies(digest: TableDigest, session: Session) -> dict[Row, int]:
    return {tuple(row): count for count, *row in digest.copies(session, [0])}


def _times(count: int | None) -> str | None:
    return None if count is None else f"{count} times"
