"""A session on an Oracle server, over any driver.

`DriverSession` (`connection.py`) carries it with python-oracledb. Statements of this package name their parameters as
`:name`; those that all vendors share, as `%(name)s`.
"""

import contextlib
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, LiteralString

from sluice.database.errors import DatabaseError
from sluice.database.recorder import RedoStream
from sluice.database.registry import recorded_source
from sluice.database.session import Rows, Session, SessionOptions
from sluice.model.connection import ConnectionInfo
from sluice.vendors.common.session import OwnTransactions, Result


class EmptyLob(Enum):
    """A LOB without a character or byte: '' would be NULL."""

    TEXT = ""
    BYTES = b""


Value = str | bytes | int | float | datetime | EmptyLob | None
_PARAMETER = re.compile(r"%(?:\((\w+)\)s|%)")
BIND = re.compile(r"\"[^\"]*\"|'[^']*'|:([A-Za-z]\w*)")
CLAIM = "FOR UPDATE SKIP LOCKED"
"""How a statement ends of which one row alone is fetched: rows are locked as they are fetched."""


class OracleSession(OwnTransactions):
    """See `sluice.database.session.Session`. Statements outside of `transaction()` commit at once.

    A failing statement has no effect, and its transaction can continue. DDL commits implicitly.
    """

    vendor = "oracle"

    def __init__(self, info: ConnectionInfo, options: SessionOptions):
        super().__init__(info, options)
        self._reading = False
        """A transaction reads one moment."""
        self.seen: int | None = None
        """The SCN as of which queries see all tables; None: as they are."""

    # What a driver does

    @abstractmethod
    def _run(self, query: str, values: Mapping[str, Value], *, first: bool) -> Result:
        """Runs a statement. `first`: only one row is fetched."""

    @abstractmethod
    def _run_many(self, query: str, rows: Sequence[Mapping[str, Value]]) -> list[int]:
        """For each row, how many rows the statement changed."""

    @abstractmethod
    def result_of(self, call: str, values: Mapping[str, Value]) -> int:
        """The result of a function of PL/SQL, `NAME(:a, :b)`, which may change something."""

    @abstractmethod
    def call(self, procedure: str, values: Mapping[str, Value]) -> None:
        """Calls a procedure of PL/SQL, as `NAME(:a, :b)`."""

    @abstractmethod
    def stream(self, query: str, values: Mapping[str, Value] | None = None) -> Iterator[list[tuple[Any, ...]]]:
        """The names of a query's columns, then its rows, some at a time."""

    @abstractmethod
    def _commit(self) -> None: ...

    @abstractmethod
    def _rollback(self) -> None: ...

    @property
    @abstractmethod
    def closed(self) -> bool: ...

    @property
    @abstractmethod
    def broken(self) -> bool: ...

    # The rest

    @cached_property
    def redo(self) -> RedoStream | None:
        """The stream of a master's redo, where its changes come from there; else they are in ITEMS."""
        return recorded_source().redo_stream(Path(self.info.stream)) if self.info.stream else None

    @cached_property
    def schema(self) -> str:
        """The schema in which names without a schema are looked up."""
        row = self.run("SELECT SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA') FROM DUAL").fetchone()
        return str(row[0]) if row else ""

    def execute(
        self, query: LiteralString | bytes, params: Sequence[object] | Mapping[str, object] | None = None, /
    ) -> Rows:
        text = query if isinstance(query, str) else query.decode()
        assert params is None or isinstance(params, Mapping), "parameters have names"
        return self.run(*native_parameters(text, params))

    def run(self, query: str, values: Mapping[str, Value] | None = None) -> Result:
        """A statement of this package; `values` are those of all its parameters, and no others."""
        first = query.rstrip().endswith(CLAIM)
        with self._alone():
            return self._run(query, {} if values is None else _plain(values), first=first)

    def run_many(self, query: str, rows: Sequence[Mapping[str, Value]]) -> list[int]:
        """Runs a statement for each of `rows` in one call; for each row, how many rows it changed."""
        if not rows:
            return []
        with self._alone():
            return self._run_many(query, rows)

    @contextmanager
    def transaction(
        self, *, durable: bool | None = None, first: Callable[[], object] | None = None
    ) -> Iterator[object]:
        """Every commit waits for the disk."""
        del durable
        self._depth += 1
        name, outermost = f"sluice_{self._depth}", self._depth == 1
        try:
            if not outermost:
                self._run(f"SAVEPOINT {name}", {}, first=False)
            try:
                if first is not None:
                    first()
                yield None
            except BaseException:
                self._undo(None if outermost else name)
                raise
            if outermost:
                self._commit()
        finally:
            self._depth -= 1

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Makes a statement outside of its own transaction one."""
        if self._depth or self._reading:
            yield
            return
        try:
            yield
        except BaseException:
            self._undo(None)
            raise
        self._commit()

    def _undo(self, savepoint: str | None) -> None:
        if self.closed:
            return
        # The error that led here is the one to tell.
        with contextlib.suppress(DatabaseError):
            if savepoint is None:
                self._rollback()
            else:
                self._run(f"ROLLBACK TO SAVEPOINT {savepoint}", {}, first=False)

    def begin_read_only(self) -> None:
        """Begins a transaction that sees one moment, and only reads."""
        self._rollback()
        self._reading = True
        self._run("SET TRANSACTION READ ONLY", {}, first=False)

    def end_read_only(self) -> None:
        """Ends the transaction of `begin_read_only`."""
        self._reading = False
        self._undo(None)

    def see(self, scn: int) -> None:
        """Makes queries see all tables as of `scn`; nothing can be changed. Outside a transaction."""
        self.see_now()
        self.call("DBMS_FLASHBACK.ENABLE_AT_SYSTEM_CHANGE_NUMBER(:scn)", {"scn": scn})
        self.seen = scn

    def see_now(self) -> None:
        """Ends `see`: queries see the present state again."""
        if self.seen is not None:
            self.seen = None
            self.call("DBMS_FLASHBACK.DISABLE", {})

    def name_origin(self, origin: str) -> None:
        """Marks changes of this session as those of the replication `origin`: see origin.sql."""
        self.call("DBMS_APPLICATION_INFO.SET_CLIENT_INFO(:client_info)", {"client_info": f"sluice {origin}"})

    def ping(self) -> None:
        self.run("SELECT 1 FROM DUAL")

    def clock(self) -> datetime:
        row = self.run(
            "SELECT TO_CHAR(SYS_EXTRACT_UTC(SYSTIMESTAMP), 'YYYY-MM-DD HH24:MI:SS.FF6') FROM DUAL"
        ).fetchone()
        assert row is not None
        return datetime.fromisoformat(str(row[0])).replace(tzinfo=UTC)

    def limit_lock_waits(self, seconds: float) -> None:
        """Limits waits for locks of definitions. For a row, a statement waits as long as another transaction locks
        it: there is no such setting."""
        self.run(f"ALTER SESSION SET DDL_LOCK_TIMEOUT = {max(0, round(seconds))}")


def native(session: Session) -> OracleSession:
    """The session of this package."""
    made: object = session
    assert isinstance(made, OracleSession), "a session of another vendor"
    return made


def native_parameters(text: str, params: Mapping[str, Any] | None) -> tuple[str, dict[str, Value]]:
    """A statement that all vendors share, with Oracle's parameters: those that it names. No reserved word is a name."""
    if params is None:
        return text, {}
    named = {matched[1]: params[matched[1]] for matched in _PARAMETER.finditer(text) if matched[1]}
    converted = _PARAMETER.sub(lambda matched: f":p_{matched[1]}" if matched[1] else "%", text)
    return converted, {f"p_{name}": value for name, value in named.items()}


def binds_of(query: str) -> list[str]:
    """The parameters that a statement names, once each, in the order in which they first come."""
    return list(dict.fromkeys(matched[1] for matched in BIND.finditer(query) if matched[1]))


def _plain(values: Mapping[str, Any]) -> dict[str, Value]:
    """Truth values as the columns have them; times in UTC, without a zone."""
    return {name: _value(value) for name, value in values.items()}


def _value(value: Any) -> Value:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC).replace(tzinfo=None)
    plain: Value = value
    return plain


def quoted(*parts: str) -> str:
    """A (qualified) name in double quotes. Raises `ValueError` for one that no name can have."""
    if any('"' in part or "\0" in part for part in parts):
        raise ValueError(f"{parts!r}: no name on Oracle holds a double quote")
    return ".".join(f'"{part}"' for part in parts)


def literal(text: str) -> str:
    """A literal of a text."""
    return "'" + text.replace("'", "''") + "'"
