"""Files in the disk groups of ASM, through DBMS_DISKGROUP of the ASM instance (`sluice.database.redo_files`).

It was never run on an ASM instance, as none was available. The parameters and results of the package are as others
describe them.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import oracledb

from sluice import sql_files
from sluice.database.redo_files import DiskFile, Extent
from sluice.model.connection import ConnectionInfo
from sluice.vendors.oracle.connection import opened
from sluice.vendors.oracle.errors import converted

PIECE = 24_576
"""The number of bytes of one call: at most 32,767, and a multiple of every block size."""
LARGEST_RAW = 32_767


class Variable(Protocol):
    """A named result of a statement."""

    def setvalue(self, position: int, value: Any, /) -> None: ...

    def getvalue(self) -> Any: ...


class Cursor(Protocol):
    """The part of python-oracledb's cursor that is used here."""

    def var(self, kind: Any, size: int = 0, /) -> Variable: ...

    def execute(self, statement: str, values: dict[str, Any], /) -> object: ...

    def fetchall(self) -> list[tuple[Any, ...]]: ...

    def close(self) -> None: ...


class Connection(Protocol):
    """The part of python-oracledb's connection that is used here."""

    def cursor(self) -> Cursor: ...

    def close(self) -> None: ...


class Disks:
    """See `DiskGroups`. Each thread has a connection, opened when it is first needed, and again after an error."""

    def __init__(self, connect: Callable[[], Connection], server: str):
        self._connect, self._server = connect, server
        self._own = threading.local()

    def extent(self, path: str) -> Extent:
        with self._cursor() as cursor:
            return self._attributes(cursor, path)[1]

    def read(self, path: str, block: int, count: int) -> bytes:
        with self._cursor() as cursor:
            kind, extent = self._attributes(cursor, path)
            handle, ignored, blocks = (cursor.var(int) for _ in range(3))
            values = {"name": path, "kind": kind, "block_size": extent.block_size, "handle": handle}
            _run(cursor, "asm_open", {**values, "physical_size": ignored, "blocks": blocks})
            try:
                return b"".join(_pieces(cursor, handle.getvalue(), extent.block_size, block, count))
            finally:
                _run(cursor, "asm_close", {"handle": handle.getvalue()})

    def files(self, disk_group: str) -> list[DiskFile]:
        with self._cursor() as cursor:
            _run(cursor, "asm_files", {"disk_group": disk_group})
            return [
                DiskFile(f"+{disk_group}{path}", int(blocks) * int(size), int(size), float(modified))
                for path, blocks, size, modified in cursor.fetchall()
                if blocks is not None
            ]

    @staticmethod
    def _attributes(cursor: Cursor, path: str) -> tuple[int, Extent]:
        kind, blocks, size = (cursor.var(int) for _ in range(3))
        _run(cursor, "asm_attributes", {"name": path, "kind": kind, "blocks": blocks, "block_size": size})
        return kind.getvalue(), Extent(int(blocks.getvalue()), int(size.getvalue()))

    @contextmanager
    def _cursor(self) -> Iterator[Cursor]:
        try:
            connection: Connection | None = getattr(self._own, "connection", None)
            if connection is None:
                connection = self._own.connection = self._connect()
            cursor = connection.cursor()
            yield cursor
            cursor.close()
        except (oracledb.Error, OSError) as error:
            self._forget()
            raise converted(error, self._server) from None

    def _forget(self) -> None:
        connection: Connection | None = self._own.__dict__.pop("connection", None)
        if connection is not None:
            with suppress(oracledb.Error, OSError):
                connection.close()


def connect(info: ConnectionInfo) -> Disks:
    """The disk groups of the ASM instance `info`, as an administrator (SYSASM)."""

    def connected() -> Connection:
        connection: Connection = opened(info, oracledb.AUTH_MODE_SYSASM)
        return connection

    return Disks(connected, info.server)


def _pieces(cursor: Cursor, handle: int, size: int, block: int, count: int) -> Iterator[bytes]:
    """Reads up to `count` blocks, as many as there are."""
    end = block + count
    while block < end:
        length, data = cursor.var(int), cursor.var(oracledb.DB_TYPE_RAW, LARGEST_RAW)
        length.setvalue(0, min(PIECE, (end - block) * size))
        _run(cursor, "asm_read", {"handle": handle, "block": block, "length": length, "data": data})
        content: bytes = data.getvalue() or b""
        whole = content[: int(length.getvalue()) // size * size]
        if not whole:
            return
        yield whole
        block += len(whole) // size


def _run(cursor: Cursor, name: str, values: dict[str, Any]) -> None:
    cursor.execute(sql_files.render("oracle", name), values)
