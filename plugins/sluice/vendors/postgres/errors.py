"""Maps PostgreSQL's errors to those of `sluice.database.errors`, with texts that may be shown."""

import re
from typing import Any

import psycopg

from sluice.database.errors import (
    CheckViolation,
    Contended,
    DatabaseError,
    DatabaseRefused,
    DatabaseUnreachable,
    DatatypeMismatch,
    ForeignKeyViolation,
    InvalidValue,
    LockNotAvailable,
    LoginRefused,
    NotNullViolation,
    ServerUnproved,
    StatementFailed,
    StatementInterrupted,
    UndefinedObject,
    UndefinedTable,
    UniqueViolation,
)
from sluice.errors import SluiceError
from sluice.model.mask import SECRET, quoted_text
from sluice.paths import PROGRAM

_CHECK_CONNECTION = "Check user, password and database of the connection, and pg_hba.conf of the server."
_SHOULD_IT_LAST = f"Should it continue like this: {_CHECK_CONNECTION[0].lower()}{_CHECK_CONNECTION[1:]}"
_TEMPORARY = ("25006", "25P03", "25P04")
"""Read-only, as a standby is until it is promoted; a session or transaction that was idle or open too long."""
_UNREACHABLE = ("08", "57P")
_INTERRUPTED = ("40", "53", "55P03", "57014", "55006", "58")
_REFUSED = ("28", "3D")
_KINDS: dict[str, type[DatabaseError]] = {
    "23505": UniqueViolation,
    "23P01": UniqueViolation,
    "23503": ForeignKeyViolation,
    "23502": NotNullViolation,
    "23514": CheckViolation,
    "22P02": InvalidValue,
    "22P03": InvalidValue,
    "42P01": UndefinedTable,
    "42703": UndefinedTable,
    "42704": UndefinedObject,
    "42883": UndefinedObject,
    "42804": DatatypeMismatch,
    "55P03": LockNotAvailable,
    "40P01": LockNotAvailable,
    "40001": Contended,
    "57014": Contended,
    "25P04": Contended,
}
"""SQLSTATE → class of the errors that services handle."""
_STORAGE = ("md.c", "fd.c", "buffile.c", "slru.c", "xlog.c", "dsm_impl.c")
"""Source files of the server that write files. A full disk has an SQLSTATE (53100); an exhausted quota and a limit on
files' sizes are internal errors (XX000), recognized by their source file, because texts are translated."""


_CONCURRENT_WRITES = ("simple_heap_update", "simple_heap_delete")
"""Functions of the server that refuse to write a row of the catalog that another session has just written (XX000),
e.g. two GRANTs on one table, or a GRANT and an ALTER TABLE. The other transaction has ended by then."""


def classify(error: BaseException, server: str) -> SluiceError:
    """Sluice's error for one of a driver; an error of Sluice unchanged. `server` names the server in the message."""
    if isinstance(error, SluiceError):
        return error
    kind, message = _kind_and_message(error, server)
    return kind(message)


def adopt(error: psycopg.Error, server: str, mask: tuple[str, ...] = ()) -> None:
    """Changes the class of a driver's error to one that is also an error of `sluice.database.errors`.

    So services can catch it, and this package can still read the server's fields. `mask`: the columns whose values no
    text may show.
    """
    if isinstance(error, DatabaseError):
        return
    vars(error)["mask"] = mask
    kind, message = _kind_and_message(error, server)
    vars(error).update(message=message, server=server, reason=in_one_line(error))
    error.args = (message,)  # so that tracebacks show nothing secret
    error.__class__ = _both(type(error), kind)


_BOTH: dict[tuple[type[psycopg.Error], type[DatabaseError]], type[psycopg.Error]] = {}


def _both(of_driver: type[psycopg.Error], kind: type[DatabaseError]) -> type[psycopg.Error]:
    def text(error: Any) -> str:
        return str(error.message)

    def reduced(error: object) -> tuple[type[DatabaseError], tuple[str]]:
        """Pickles without the fields of the driver."""
        return kind, (str(error),)

    if (of_driver, kind) not in _BOTH:
        members = {"__str__": text, "__reduce__": reduced, "__module__": of_driver.__module__}
        _BOTH[of_driver, kind] = type(of_driver.__name__, (of_driver, kind), members)
    return _BOTH[of_driver, kind]


def _kind_and_message(error: BaseException, server: str) -> tuple[type[DatabaseError], str]:
    """The class for the error, and its message."""
    sqlstate = getattr(error, "sqlstate", None)
    text = in_one_line(error)
    # Errors that libpq itself raises, e.g. during a COPY, have no subclass.
    by_libpq = (
        isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) or type(error) is psycopg.DatabaseError
    )
    if by_libpq and sqlstate is None:
        return _without_sqlstate(text, server)
    code = sqlstate or ""
    if code in _TEMPORARY or (code == "55000" and "recovery" in text):
        return _KINDS.get(code, StatementInterrupted), f"{server}: {text}"
    if code.startswith(_REFUSED):
        return LoginRefused, f"{server}: {_sentence(text)} {_CHECK_CONNECTION}"
    if code == "42501":
        remedy = "Grant the privilege; docs/privileges.md lists them all, and what each is for."
        return DatabaseRefused, f"{server}: {_sentence(text)} {remedy}"
    if code.startswith(_UNREACHABLE):
        return DatabaseUnreachable, f"{server}: {text}"
    if code.startswith(_INTERRUPTED):
        return _KINDS.get(code, StatementInterrupted), f"{server}: {text}"
    if code == "XX000" and isinstance(error, psycopg.Error) and error.diag.source_file in _STORAGE:
        remedy = "A quota or a limit on the size of files is in the way on that server. Raise it."
        return StatementInterrupted, f"{server}: {_sentence(text)} {remedy}"
    if code == "XX000" and isinstance(error, psycopg.Error) and error.diag.source_function in _CONCURRENT_WRITES:
        return Contended, f"{server}: {text}"
    code_shown = "" if text.startswith("“") else f" (SQLSTATE {sqlstate or 'none'})"
    return _KINDS.get(code, StatementFailed), f"{server}: {text}{code_shown}"


_PIECE = re.compile(r"^LINE \d+: .*(\n\s*\^\s*$)?", re.MULTILINE)
"""The part of a statement that PostgreSQL shows below its message, with a caret."""


_WITHOUT_VALUES = ("08", "25", "28", "3D", "40", "42501", "53", "55", "57", "58")
"""Classes of SQLSTATEs of errors about the server, its sessions and privileges."""
_OF_ROWS = ("21", "22", "23", "2F", "38", "39", "44", "45", "P0")
"""Classes of SQLSTATEs of errors that values in rows cause; their texts quote these values."""


def of_rows(error: psycopg.Error) -> bool:
    """Whether values in rows caused the error."""
    return (error.sqlstate or "").startswith(_OF_ROWS)


def in_one_line(error: BaseException) -> str:
    """The text of an error in one line. For a server's error, its parts by name, without the quoted statement and the
    caret under it, which have no meaning elsewhere. If it may quote a masked column, only its place. If it may quote
    any value of a row, in the quotes of `quoted_text`, with its SQLSTATE."""
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
    text = " ".join(" ".join(parts).split())
    # Code of an application can raise any SQLSTATE; then there is a context.
    if (error.sqlstate or "").startswith(_WITHOUT_VALUES) and not diag.context:
        return text
    return _quoted(error, text)


def _quoted(error: psycopg.Error, text: str) -> str:
    return f"{quoted_text(text)} (SQLSTATE {error.sqlstate or 'none'})"


def reason(error: psycopg.Error, *, hidden: bool) -> str:
    """The server's message about a refused row; with `hidden`, only its place and kind."""
    diag = error.diag
    if not hidden:
        detail = f" ({diag.message_detail})" if diag.message_detail else ""
        return _quoted(error, (diag.message_primary or str(error)) + detail)
    named = {"table": diag.table_name, "column": diag.column_name, "constraint": diag.constraint_name}
    where = "".join(f", {word} {name!r}" for word, name in named.items() if name)
    return (
        f"SQLSTATE {error.sqlstate} ({type(error).__name__}{where}); the server's own text is not shown, it may hold "
        "values of masked columns"
    )


def _sentence(text: str) -> str:
    return f"{text.rstrip('.?')}."


_REFUSALS = re.compile(
    "authentication failed|no password supplied|no pg_hba\\.conf entry|pg_hba\\.conf rejects"
    r"|(role|database) .* does not exist|is not permitted to log in|no such (user|database)"
    "|permission denied|requires a valid client certificate"
    "|unrecognized configuration parameter|invalid value for parameter|unsupported startup parameter",
    re.IGNORECASE | re.DOTALL,
)
"""Messages of PostgreSQL, libpq and PgBouncer about a log-in that will be refused again."""
_UNPROVED = re.compile(
    "certificate verify failed|root certificate|certificate for .* does not match|ssl was required"
    "|could not get server's host name|certificate present",
    re.IGNORECASE | re.DOTALL,
)
"""Messages of libpq about a server that cannot be verified."""
_UNREADABLE = re.compile("authentication method requirement .* failed", re.IGNORECASE)
"""libpq's message about a server that asks for the password itself."""
_ASKS_FOR_IT = (
    "It asked for the password itself and has not proved who it is: nothing was sent. Let pg_hba.conf say "
    "scram-sha-256, or prove the server by a certificate (sslmode verify-full); or, if you trust whoever listens "
    "there, write require_auth: password in the extras of the connection."
)
_CHECK_TLS = (
    "Give the server a certificate for this host name, of an authority that this machine trusts, or name the file of "
    f"that authority as sslrootcert: in the extras of the Airflow connection; for {PROGRAM} add in the URL, "
    "?sslrootcert=FILE. In the same places sslmode asks for less: see docs/connections.md."
)
_HINT = re.compile(r"\s+Is the server running [^?]*\?")
"""What libpq asks the reader; the remedy says it."""
_SERVER_SAYS = re.compile(r" failed: \w+: ")
"""A severity, which is FATAL in English: the server answered."""


def _without_sqlstate(text: str, server: str) -> tuple[type[DatabaseError], str]:
    # libpq reports a refused log-in without an SQLSTATE; only the wording tells it from an outage. A server says FATAL
    # when it refuses a log-in, and for hundreds of reasons that pass: so only what is known to stay needs a person. One
    # that speaks another language is waited for in any case, and its text is shown.
    text = _HINT.sub("", text)
    if _UNREADABLE.search(text):
        return ServerUnproved, f"{server}: {_sentence(text)} {_ASKS_FOR_IT}"
    if _UNPROVED.search(text):
        return ServerUnproved, f"{server}: {_sentence(text)} {_CHECK_TLS}"
    if _REFUSALS.search(text):
        return LoginRefused, f"{server}: {_sentence(text)} {_CHECK_CONNECTION}"
    if _SERVER_SAYS.search(text):
        return (
            DatabaseUnreachable,
            f"{server}: {_sentence(text)} The server takes no connection just now. {_SHOULD_IT_LAST}",
        )
    return (
        DatabaseUnreachable,
        f"{server}: {_sentence(text)} The server is down, restarting or not reachable from here.",
    )
