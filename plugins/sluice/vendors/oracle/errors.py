"""Maps errors of an Oracle server and of its driver to Sluice's: one table, by their codes."""

import re

import oracledb

from sluice.database.errors import (
    Contended,
    DatabaseError,
    DatabaseRefused,
    DatabaseUnreachable,
    ForeignKeyViolation,
    LockNotAvailable,
    LoginRefused,
    NotNullViolation,
    ServerUnproved,
    SnapshotTooOld,
    StatementFailed,
    StatementInterrupted,
    UndefinedObject,
    UndefinedTable,
    UniqueViolation,
)
from sluice.model.mask import quoted_text

_UNREACHABLE = "ORA-28 ORA-1012 ORA-1033 ORA-1034 ORA-1089 ORA-1090 ORA-1092 ORA-2396 ORA-3113 ORA-3114 ORA-3135 \
ORA-12170 ORA-12505 ORA-12514 ORA-12516 ORA-12518 ORA-12519 ORA-12520 ORA-12528 ORA-12537 ORA-12541 ORA-12545 \
ORA-12547 ORA-12570 ORA-12571 ORA-18 ORA-20 ORA-603 ORA-25408 ORA-257 \
DPY-1001 DPY-4011 DPY-6000 DPY-6001 DPY-6003 DPY-6005"
_CONTENDED = "ORA-60 ORA-8177 ORA-1013 ORA-25402 ORA-4068 ORA-1466 ORA-8181 ORA-1591 ORA-8103 ORA-1410 \
ORA-12805 DPY-4024"
_TOO_OLD = "ORA-1555 ORA-8180 ORA-8176"
_NO_LOCK = "ORA-54 ORA-4021 ORA-30006 ORA-2049"
_INTERRUPTED = "ORA-1652 ORA-1653 ORA-1654 ORA-1691 ORA-1536 ORA-30036 ORA-4030 ORA-4031 ORA-12850"
_LOGIN_REFUSED = "ORA-1017 ORA-1045 ORA-28000 ORA-28001"
_REFUSED = "ORA-1031 ORA-1435 ORA-26947 ORA-41900 DPY-3001 DPY-3015 DPY-4000 DPY-2017 DPY-2018 DPY-2019 DPI-1047"
_UNIQUE = "ORA-1"
_FOREIGN_KEY = "ORA-2291 ORA-2292"
_NOT_NULL = "ORA-1400 ORA-1407"
_UNDEFINED_TABLE = "ORA-942 ORA-904"
_UNDEFINED = "ORA-1418 ORA-2289 ORA-2443 ORA-4043 ORA-4080 ORA-6550 ORA-902"
_UNPROVED = "DPY-6002 DPY-6006 DPY-6008"
_PERSON = "ORA-600 ORA-7445"

KINDS: dict[str, type[DatabaseError]] = {
    code: kind
    for codes, kind in (
        (_UNREACHABLE, DatabaseUnreachable),
        (_CONTENDED, Contended),
        (_TOO_OLD, SnapshotTooOld),
        (_NO_LOCK, LockNotAvailable),
        (_INTERRUPTED, StatementInterrupted),
        (_LOGIN_REFUSED, LoginRefused),
        (_REFUSED, DatabaseRefused),
        (_UNIQUE, UniqueViolation),
        (_FOREIGN_KEY, ForeignKeyViolation),
        (_NOT_NULL, NotNullViolation),
        (_UNDEFINED_TABLE, UndefinedTable),
        (_UNDEFINED, UndefinedObject),
        (_UNPROVED, ServerUnproved),
        (_PERSON, StatementFailed),
    )
    for code in codes.split()
}
"""By the server's code without leading zeros, or the driver's; all others are `StatementFailed`."""

_OF_ROWS = "ORA-1400 ORA-1407 ORA-1401 ORA-1438 ORA-1426 ORA-12899 ORA-2290 ORA-2291 ORA-2292 ORA-14400 ORA-1722 \
ORA-1461 ORA-1830 ORA-1839 ORA-1840 ORA-1841 ORA-1843 ORA-1847 ORA-1858 ORA-1861 ORA-1"
OF_ROWS = frozenset(_OF_ROWS.split())
"""Errors about a row of the slave, besides those of its triggers: values that do not fit, constraints."""
_RAISED = re.compile(r"ORA-20\d{3}")

WRAPPERS = frozenset({"DPY-6005", "ORA-604", "ORA-2091", "ORA-4088", "ORA-24381", "ORA-6512", "ORA-12801", "ORA-18008"})
"""They say that something failed inside; what that was follows in the text."""

_CODE = re.compile(r"\b(ORA|DPY|DPI)-0*(\d+)")
_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
"""A text in errors of Python's TLS, which the driver reports as a failed connection."""
_CHECK_CONNECTION = "Check user, password, service and extras of the connection, and the account's privileges there."


def of_trigger(error: DatabaseError) -> bool:
    """Whether RAISE_APPLICATION_ERROR refused it."""
    return _RAISED.fullmatch(error.server_code) is not None


def of_row(error: DatabaseError) -> bool:
    """Whether a row is refused for its values, or by a trigger (RAISE_APPLICATION_ERROR)."""
    return error.server_code in OF_ROWS or of_trigger(error)


def code_of(text: str, number: int = 0) -> str:
    """The code that says what failed: the innermost of those that only wrap another one.

    `number`: the server's, which a driver's own code may stand in front of: ORA-03113 comes as DPY-4011.
    """
    codes = [f"{kind}-{int(digits)}" for kind, digits in _CODE.findall(text)]
    if number:
        codes.insert(0, f"ORA-{number}")
    for code in codes:
        if code not in WRAPPERS:
            return code
    return codes[0] if codes else ""


def text_of(error: BaseException) -> str:
    """The server's message in one line, without the address of a page about it."""
    lines = [line for line in str(error).splitlines() if not line.startswith("Help: ")]
    return " ".join(" ".join(lines).split()) or type(error).__name__


def converted(error: BaseException, server: str) -> DatabaseError:
    """Sluice's error for one of the driver. `server` names the server."""
    info: object = error.args[0] if isinstance(error, oracledb.Error) and error.args else None
    number = getattr(info, "code", 0)
    code, text = code_of(str(error), number if isinstance(number, int) else 0), text_of(error)
    if _UNTRUSTED in f"{text} {error.__cause__}":
        code = "DPY-6008"
    return made(code, text, server, lost=bool(getattr(info, "is_session_dead", False)) or isinstance(error, OSError))


def made(code: str, text: str, server: str, *, lost: bool = False) -> DatabaseError:
    """The error of a code. `lost`: the connection is."""
    kind = KINDS.get(code, DatabaseUnreachable if lost else StatementFailed)
    if code.startswith("ORA-") and kind not in (LoginRefused, DatabaseUnreachable):
        text = f"{quoted_text(text)} ({code})"
    if kind in (DatabaseRefused, LoginRefused):
        message = f"{server}: {text.rstrip('.')}. {_CHECK_CONNECTION}"
    elif kind is ServerUnproved:
        message = (
            f"{server}: {text.rstrip('.')}. Give the server a certificate for this host name, of an authority that "
            "this machine trusts, or name the file of that authority as sslrootcert in the extras of the connection."
        )
    elif kind is DatabaseUnreachable:
        message = f"{server}: {text.rstrip('.')}. The server is down, restarting, full or not reachable from here."
    else:
        message = f"{server}: {text}"
    error = kind(message)
    error.server, error.reason, error.server_code = server, text, code
    return error
