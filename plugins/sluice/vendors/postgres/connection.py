"""Connections to PostgreSQL and the classification of its errors."""

import contextlib
import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from sluice.domain.connection import ConnectionInfo
from sluice.domain.mask import SECRET
from sluice.errors import SluiceError, Terminal, Transient

CANONICAL: dict[str, str] = {
    "datestyle": "ISO, YMD",
    "timezone": "UTC",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "search_path": "pg_catalog, pg_temp",
    "standard_conforming_strings": "on",
    "xmloption": "content",
    "quote_all_identifiers": "off",
    "array_nulls": "on",
    "client_encoding": "UTF8",
}
"""Settings under which a value's text means the same in every session, on both databases."""

PATIENT: dict[str, str] = {
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}
"""Whatever time-outs a role or server has: a large window takes as long as it takes. And the server lets go of a
client whose machine is gone within a minute, with the locks it held."""

WRITING: dict[str, str] = {"default_transaction_read_only": "off"}
"""A slave may be read-only for everybody else. A standby stays read-only all the same."""


class DatabaseUnreachable(Transient):
    """The server does not answer, went away, or refuses more connections just now."""


class DatabaseRefused(Terminal):
    """The server answered and refused: wrong password, missing database, missing privilege."""


class StatementFailed(Terminal):
    """A statement failed for a reason another try will not mend; `sqlstate` says which."""

    def __init__(self, message: str, sqlstate: str | None):
        super().__init__(message)
        self.sqlstate = sqlstate


class StatementInterrupted(Transient):
    """A statement gave way: deadlock, serialization, lock or statement time-out, disk or memory full."""

    def __init__(self, message: str, sqlstate: str | None):
        super().__init__(message)
        self.sqlstate = sqlstate


_CHECK_CONNECTION = "Check user, password and database of the Airflow connection, and pg_hba.conf of the server."
_SHOULD_IT_LAST = f"Should it go on like this: {_CHECK_CONNECTION[0].lower()}{_CHECK_CONNECTION[1:]}"
_PASSES = ("25006", "25P03", "25P04")
"""Read-only, as a standby is until it is promoted; a session or transaction that was idle or open too long."""
_UNREACHABLE = ("08", "57P")
_INTERRUPTED = ("40", "53", "55P03", "57014", "55006", "58")
_REFUSED = ("28", "3D")
_STORAGE = ("md.c", "fd.c", "buffile.c", "slru.c", "xlog.c", "dsm_impl.c")
"""Sources of the server that write files. A full disk has an SQLSTATE of its own (53100); an exhausted quota and a
limit on files' sizes are internal errors (XX000) to PostgreSQL, told apart by where they rose: texts are translated."""


def classify(error: BaseException, place: str) -> SluiceError:
    """The one place where a driver's error becomes Terminal or Transient.

    `place` names the server for the message, unless the error came from a statement over a
    connection of `connect`, which knows its own. A Sluice error comes back as it is.
    """
    if isinstance(error, SluiceError):
        return error
    place = getattr(error, "place", place)
    sqlstate = getattr(error, "sqlstate", None)
    text = in_one_line(error)
    # What libpq says by itself, in the middle of a COPY for instance, is of no finer class.
    by_libpq = (
        isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) or type(error) is psycopg.DatabaseError
    )
    if by_libpq and sqlstate is None:
        return _without_sqlstate(text, place)
    code = sqlstate or ""
    if code in _PASSES or (code == "55000" and "recovery" in text):
        return StatementInterrupted(f"{place}: {text}", sqlstate)
    if code.startswith(_REFUSED):
        return DatabaseRefused(f"{place}: {_sentence(text)} {_CHECK_CONNECTION}")
    if code == "42501":
        remedy = "Grant the privilege; docs/privileges.md lists them all, and what each is for."
        return DatabaseRefused(f"{place}: {_sentence(text)} {remedy}")
    if code.startswith(_UNREACHABLE):
        return DatabaseUnreachable(f"{place}: {text}")
    if code.startswith(_INTERRUPTED):
        return StatementInterrupted(f"{place}: {text}", sqlstate)
    if code == "XX000" and isinstance(error, psycopg.Error) and error.diag.source_file in _STORAGE:
        remedy = "A quota or a limit on the size of files is in the way on that server. Raise it."
        return StatementInterrupted(f"{place}: {_sentence(text)} {remedy}", sqlstate)
    return StatementFailed(f"{place}: {text} (SQLSTATE {sqlstate or 'none'})", sqlstate)


_PIECE = re.compile(r"^LINE \d+: .*(\n\s*\^\s*$)?", re.MULTILINE)
"""The piece of a statement that PostgreSQL shows below its message, with the caret under the place."""


_OF_ROWS = ("21", "22", "23", "2F", "38", "39", "44", "45", "P0")
"""Classes of SQLSTATEs of errors that rows cause, and whose texts quote their values."""


def of_rows(error: psycopg.Error) -> bool:
    """Whether rows caused it."""
    return (error.sqlstate or "").startswith(_OF_ROWS)


def in_one_line(error: BaseException) -> str:
    """What an error says. Of a server's error its parts by name, without the piece of the statement and the caret
    under it, which mean nothing once they are moved. Where it may quote a masked column, its place alone."""
    diag = error.diag if isinstance(error, psycopg.Error) else None
    if diag is None or not diag.message_primary:
        return " ".join(_PIECE.sub("", str(error)).split()) or type(error).__name__
    assert isinstance(error, psycopg.Error)
    if of_rows(error):
        texts = (diag.message_primary, diag.message_detail, diag.message_hint, diag.context, diag.column_name)
        # NULL, a check, a line that is no row: there PostgreSQL shows the whole row, without the names of its columns.
        whole_row = error.sqlstate in ("23502", "23514", "22P04")
        if whole_row or bool(getattr(error, "mask", None)) or any(SECRET.search(text or "") for text in texts):
            return reason(error, hidden=True)
    more = {"DETAIL": diag.message_detail, "HINT": diag.message_hint, "CONTEXT": diag.context}
    parts = [diag.message_primary, *(f"{name}: {text}" for name, text in more.items() if text)]
    return " ".join(" ".join(parts).split())


def reason(error: psycopg.Error, *, hidden: bool) -> str:
    """What the server says of a row that it refuses; with `hidden` only where and of which kind that was."""
    diag = error.diag
    if not hidden:
        return (diag.message_primary or str(error)) + (f" ({diag.message_detail})" if diag.message_detail else "")
    places = {"table": diag.table_name, "column": diag.column_name, "constraint": diag.constraint_name}
    where = "".join(f", {word} {name!r}" for word, name in places.items() if name)
    return (
        f"SQLSTATE {error.sqlstate} ({type(error).__name__}{where}); the server's own text is not shown, it may hold "
        "values of masked columns"
    )


def _sentence(text: str) -> str:
    return f"{text.rstrip('.')}."


@contextmanager
def classified(info: ConnectionInfo) -> Iterator[None]:
    """Turns the driver's errors of the block into Sluice's, the place named."""
    try:
        yield
    except psycopg.Error as error:
        _note(error, mask=info.mask)
        raise classify(error, info.place) from error


_REFUSALS = re.compile(
    "authentication failed|no password supplied|no pg_hba\\.conf entry|pg_hba\\.conf rejects"
    r"|(role|database) .* does not exist|is not permitted to log in|no such (user|database)"
    "|permission denied|requires a valid client certificate"
    "|unrecognized configuration parameter|invalid value for parameter|unsupported startup parameter",
    re.IGNORECASE | re.DOTALL,
)
"""What PostgreSQL, libpq and PgBouncer say to whoever they will refuse the next time, too."""
_UNPROVED = re.compile(
    "certificate verify failed|root certificate|certificate for .* does not match|ssl was required"
    "|could not get server's host name|certificate present",
    re.IGNORECASE | re.DOTALL,
)
"""What libpq says of a server that does not prove who it is."""
_CHECK_TLS = (
    "Give the server a certificate for this host name, of an authority that this machine trusts, or name the file of "
    "that authority in the extra sslrootcert of the Airflow connection. The extra sslmode asks for less: see "
    "docs/connections.md."
)
_SERVER_SAYS = re.compile(r" failed: \w+: ")
"""A severity, which is FATAL in English: the server answered."""


def _without_sqlstate(text: str, place: str) -> SluiceError:
    # libpq reports a refused log-in without an SQLSTATE; only the wording tells it from an outage. A server says FATAL
    # to whoever it refuses, and for hundreds of reasons that pass: so only what is known to stay needs a person. One
    # that speaks another language is waited for, whatever it says; what it says is told.
    if _UNPROVED.search(text):
        return DatabaseRefused(f"{place}: {_sentence(text)} {_CHECK_TLS}")
    if _REFUSALS.search(text):
        return DatabaseRefused(f"{place}: {_sentence(text)} {_CHECK_CONNECTION}")
    if _SERVER_SAYS.search(text):
        return DatabaseUnreachable(
            f"{place}: {_sentence(text)} The server takes no connection just now. {_SHOULD_IT_LAST}"
        )
    return DatabaseUnreachable(f"{place}: {_sentence(text)} The server is down, restarting or not reachable from here.")


def connect(
    info: ConnectionInfo, *, application: str, autocommit: bool = False, settings: dict[str, str] | None = None
) -> psycopg.Connection[Any]:
    """A connection under the canonical settings, notices off.

    `application` shows in `pg_stat_activity`. `settings` adds to or replaces canonical ones.
    Raises `DatabaseUnreachable`, `DatabaseRefused`.
    """
    options = _options({**CANONICAL, **PATIENT, **WRITING, "client_min_messages": "error", **(settings or {})})
    try:
        connection = psycopg.connect(
            host=info.host,
            port=info.port,
            dbname=info.database,
            user=info.user,
            password=info.password,
            application_name=application[:63],
            client_encoding="UTF8",
            options=options,
            connect_timeout=int(info.options.get("connect_timeout", "10")),
            keepalives_idle=30,
            keepalives_interval=10,
            keepalives_count=3,
            tcp_user_timeout=60_000,
            autocommit=autocommit,
            **{name: value for name, value in _driver_options(info).items() if name != "connect_timeout"},  # type: ignore[arg-type]
        )
    except psycopg.Error as error:
        raise classify(error, info.place) from error
    connection.cursor_factory = type("PlacedCursor", (_PlacedCursor,), {"place": info.place, "mask": info.mask})
    return connection


def end_with_client(connection: psycopg.Connection[Any]) -> None:
    """From now on a statement ends soon after its client has died, also one that waits for a lock or makes an index.

    Where the server can tell: PostgreSQL from 14 on, and its system with it.
    """
    with contextlib.suppress(psycopg.errors.InvalidParameterValue):
        connection.execute(
            "SELECT set_config(name, '2s', false) FROM pg_settings WHERE name = 'client_connection_check_interval'"
        )


class _PlacedCursor(psycopg.Cursor[Any]):
    """Notes on an error where it happened: a service often works on both servers at once."""

    place: str
    mask: tuple[str, ...]

    def execute(self, *args: Any, **options: Any) -> Self:
        try:
            return super().execute(*args, **options)
        except psycopg.Error as error:
            _note(error, place=self.place, mask=self.mask)
            raise

    @contextmanager
    def copy(self, *args: Any, **options: Any) -> Iterator[psycopg.Copy]:
        try:
            with super().copy(*args, **options) as stream:
                yield stream
        except psycopg.Error as error:
            _note(error, mask=self.mask)
            raise


def _note(error: psycopg.Error, **values: Any) -> None:
    """Keeps on the error what is known where it rose."""
    for name, value in values.items():
        setattr(error, name, value)


def uri(info: ConnectionInfo, application: str) -> str:
    """The same connection as a URI, for the ADBC driver. It holds the password: never log it."""
    options = _options({**CANONICAL, **PATIENT})
    parameters = {
        "application_name": application[:63],
        "client_encoding": "UTF8",
        "connect_timeout": "10",
        "keepalives_idle": "30",
        "keepalives_interval": "10",
        "keepalives_count": "3",
        "tcp_user_timeout": "60000",
        **_driver_options(info),
        "options": options,
    }
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())
    user, password = quote(info.user, safe=""), quote(info.password, safe="")
    host, database = quote(info.host, safe=""), quote(info.database, safe="")
    return f"postgresql://{user}:{password}@{host}:{info.port}/{database}?{query}"


def quoted(*parts: str) -> str:
    """A (qualified) identifier in double quotes: `quoted("a", 'b"c')` is `"a"."b""c"`."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def literal(value: str | int | None) -> str:
    """A literal for statements that take no parameters, such as COPY."""
    return sql.Literal(value).as_string(None)


def _driver_options(info: ConnectionInfo) -> dict[str, str]:
    """The connection's own, with what is due for TLS.

    The authorities of the machine are those of Python: the driver brings an OpenSSL that looks for its own elsewhere.
    """
    options = {**info.options, "sslmode": info.tls_mode}
    if info.tls_mode.startswith("verify-") and "sslrootcert" not in options:
        own = os.environ.get("PGSSLROOTCERT") or Path.home() / ".postgresql" / "root.crt"
        known = own if Path(own).exists() else ssl.get_default_verify_paths().cafile
        if known:
            options["sslrootcert"] = str(known)
    return options


def _options(settings: dict[str, str]) -> str:
    # In the `options` of a connection a backslash escapes spaces and itself. The encoding is a parameter of its own.
    escaped = {name: value.replace("\\", "\\\\").replace(" ", "\\ ") for name, value in settings.items()}
    return " ".join(f"-c {name}={value}" for name, value in escaped.items() if name != "client_encoding")
