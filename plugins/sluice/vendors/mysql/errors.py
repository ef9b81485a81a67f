"""Maps errors of MySQL and MariaDB to Sluice's."""

import re
from typing import Any

import pymysql

from sluice import sql_files
from sluice.database.errors import (
    CheckViolation,
    Contended,
    DatabaseError,
    DatabaseRefused,
    DatabaseUnreachable,
    ForeignKeyViolation,
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
from sluice.model.mask import quoted_text

KINDS: dict[int, type[DatabaseError]] = {
    # The server is not there, or takes nobody just now.
    **dict.fromkeys(
        (1040, 1053, 1077, 1152, 1158, 1159, 1160, 1161, 1203, 1226, 1927, 2002, 2003, 2006, 2013, 2055),
        DatabaseUnreachable,
    ),
    # It refuses to let this account in.
    **dict.fromkeys((1044, 1045, 1049, 1130, 1251, 1524, 1698, 3118, 4151), LoginRefused),
    # It refuses a statement of this account.
    **dict.fromkeys((1142, 1143, 1227, 1370, 3948, 4166), DatabaseRefused),
    # Others were in the way.
    **dict.fromkeys((1205, 3572), LockNotAvailable),
    **dict.fromkeys((1020, 1213, 1412, 1637, 1969, 3024, 3100, 3101, 1317), Contended),
    # It passes: read-only for a while, a full disk, no memory.
    **dict.fromkeys((1021, 1037, 1038, 1041, 1114, 1290, 1792, 1836), StatementInterrupted),
    # Of rows.
    **dict.fromkeys((1062, 1169, 1557, 1586, 1761, 1762), UniqueViolation),
    **dict.fromkeys((1216, 1217, 1451, 1452), ForeignKeyViolation),
    **dict.fromkeys((1048, 1263, 1364), NotNullViolation),
    **dict.fromkeys((3819, 4025), CheckViolation),
    # Of definitions.
    **dict.fromkeys((1051, 1054, 1146), UndefinedTable),
    **dict.fromkeys((1091, 1176, 1305, 1360), UndefinedObject),
}  # fmt: skip
"""By the server's number, or the client's from 2000 to 2999; all others are `StatementFailed`."""

_OF_VALUES = frozenset({1048, 1263, 1264, 1265, 1292, 1364, 1366, 1406, 1411, 1690, 3140})
"""Values that do not fit into their columns, where the SQLSTATE does not say so."""
TRANSACTION_LOST = frozenset({1020, 1205, 1213, 1637})
"""After these the transaction is over, or (1205) has lost a statement: all of it must be done again."""

_CHECK_CONNECTION = "Check user, password and database of the connection, and the account's privileges there."
_ACCOUNT = re.compile(r"for user '(?P<user>.*)'@'(?P<host>[^']*)'")
_NO_ROOM = re.compile(r"No space left|Disk quota|File too large|Err(?:code: |or )(?:27|28|122|2[78] )", re.I)
"""Texts about a full disk, from any part of the server."""
_CERTIFICATE = re.compile("certificate verify failed|CERTIFICATE_VERIFY|SSL connection error|doesn't support SSL", re.I)


def number_of(error: BaseException) -> int:
    """The server's number in an error of the driver, or in one that `converted` made; 0 for none."""
    if isinstance(error, DatabaseError):
        return int(error.server_code or 0)
    first = error.args[0] if error.args else 0
    return first & 0xFFFF if isinstance(first, int) else 0  # the driver reads it with a sign


def text_of(error: BaseException) -> str:
    """The server's message in one line."""
    text = error.args[1] if len(error.args) > 1 else str(error)
    return " ".join(str(text).split()) or type(error).__name__


def of_value(error: DatabaseError) -> bool:
    """Whether a value does not fit into its column."""
    return number_of(error) in _OF_VALUES or (error.sqlstate or "").startswith("22")


def converted(error: BaseException, server: str, more: str = "") -> DatabaseError:
    """Sluice's error for one of the driver. `server` names the server, `more` ends the message."""
    number, text = number_of(error), text_of(error)
    kind = kind_of(error)
    if kind is not LoginRefused and number and not 2000 <= number < 3000 and not isinstance(error, DatabaseError):
        # The server's, also of a trigger's SIGNAL, which can have any number.
        text = f"{quoted_text(text)} (error {number})"
    if kind in (DatabaseRefused, LoginRefused):
        message = f"{server}: {text.rstrip('.')}. {_CHECK_CONNECTION}{_hidden(number, text)}"
    elif kind is ServerUnproved:
        message = (
            f"{server}: {text.rstrip('.')}. Give the server a certificate for this host name, of an authority that "
            "this machine trusts, or name the file of that authority as sslrootcert in the extras of the connection."
        )
    elif kind is DatabaseUnreachable and number >= 2000:
        message = f"{server}: {text.rstrip('.')}. The server is down, restarting or not reachable from here."
    else:
        code = f" (error {number})" if number and not text.startswith("“") else ""
        message = f"{server}: {text}{code}"
    own = kind(message + more)
    own.server, own.reason = server, text
    own.server_code, own.sqlstate = str(number or ""), getattr(error, "sqlstate", None)
    return own


def _hidden(number: int, text: str) -> str:
    """The remedy for an account that one without a name hides: a server prefers a host's name to `%`."""
    matched = _ACCOUNT.search(text)
    if matched is None or number not in (1044, 1045, 1698):
        return ""
    nameless = f"''@'{matched['host']}'"
    found = (
        f"The server took it for its account without a name, {nameless}, which"
        if not matched["user"]
        else f"Or the server has an account without a name, {nameless}: that"
    )
    return f" {found} comes before accounts for all hosts. As an administrator: DROP USER {nameless}."


def kind_of(error: BaseException) -> type[DatabaseError]:
    """Its kind, by the number; the driver's own errors without one by what they say."""
    number, text = number_of(error), text_of(error)
    if _CERTIFICATE.search(text):
        return ServerUnproved
    if number in KINDS:
        return KINDS[number]
    if _NO_ROOM.search(text):
        return StatementInterrupted
    of_driver = number == 0 and isinstance(error, pymysql.err.OperationalError | pymysql.err.InterfaceError)
    if of_driver or isinstance(error, ConnectionError | TimeoutError):
        return DatabaseUnreachable
    if 2000 <= number < 3000 and isinstance(error, pymysql.err.OperationalError):
        return DatabaseUnreachable
    return StatementFailed


WAITED = 1205
"""A lock was not to be had in time."""
_NOT_ALLOWED = 1227


def lock_holders(driver: Any) -> str:
    """Names them, or the privilege by which they are seen; empty if nothing is found. Raises nothing: the error that
    led here is the one to tell."""
    try:
        with driver.cursor() as cursor:
            try:
                cursor.execute(sql_files.render("mysql", "lock_holders"))
            except pymysql.Error as error:
                if number_of(error) != _NOT_ALLOWED:
                    return ""
                cursor.execute("SELECT CURRENT_USER()")
                user, _, host = cursor.fetchone()[0].rpartition("@")
                account = f"{driver.escape(user)}@{driver.escape(host)}"
                return f" Who holds it shows to an account with PROCESS: GRANT PROCESS ON *.* TO {account}."
            rows = cursor.fetchall()
    except (pymysql.Error, OSError):
        return ""
    holders = [
        f"session {number} of {user}@{host} since {began:%Y-%m-%d %H:%M:%S} UTC" for number, user, host, began in rows
    ]
    return f" These transactions were open all the while, and one may hold it: {', '.join(holders)}." if holders else ""
