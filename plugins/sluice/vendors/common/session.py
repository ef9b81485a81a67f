"""The common part of sessions whose drivers commit each statement."""

import ssl
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, LiteralString, Self

from sluice.database.session import Rows, SessionOptions
from sluice.model.connection import ConnectionInfo


class Result:
    """The result of a statement."""

    def __init__(self, rows: Sequence[tuple[Any, ...]], rowcount: int):
        self.rowcount = rowcount
        self._next = iter(rows)

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self._next, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._next)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._next


class OwnTransactions(ABC):
    """The part of `sluice.database.session.Session` that vendors share."""

    def __init__(self, info: ConnectionInfo, options: SessionOptions):
        self.info = info
        self.server = info.server
        self.mask = info.mask
        self.options = options
        self._depth = 0
        """How many blocks of `transaction()` it is in."""

    @abstractmethod
    def execute(
        self, query: LiteralString | bytes, params: Sequence[object] | Mapping[str, object] | None = None, /
    ) -> Rows: ...

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def execute_many(self, query: LiteralString, rows: Sequence[Mapping[str, object]], /) -> None:
        for row in rows:
            self.execute(query, row)

    def expect_idle(self) -> None:
        if self._depth:
            raise ValueError("This service makes its own transactions; commit or roll back yours first.")


def tls_context(info: ConnectionInfo) -> ssl.SSLContext:
    """The verification of the server's certificate, as the mode requires, and the client's own certificate."""
    context = ssl.create_default_context(cafile=info.options.get("sslrootcert"))
    context.check_hostname = info.tls_mode == "verify-full"
    if info.tls_mode == "require":
        context.verify_mode = ssl.CERT_NONE
    if certificate := info.options.get("sslcert"):
        context.load_cert_chain(certificate, info.options.get("sslkey"))
    return context
