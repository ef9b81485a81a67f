"""Maps errors of MySQL and MariaDB to Sluice's."""

import re

import pymysql

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
    StatementFailed,
    StatementInterrupted,
    UndefinedObject,
    UndefinedTable,
    UniqueViolation,
)

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
    # Of definitions.
    **dict.fromkeys((1051, 1054, 1146), UndefinedTable),
    **dict.fromkeys((1091, 1176, 1305, 1360), UndefinedObject),
}  # fmt: skip
"""By the server's number, or the client's from 2000 to 2999; all others are `StatementFailed`."""

OF_ROWS = frozenset({1264, 1265, 1292, 1366, 1406, 1411, 1644, 1690, 3140, 3819, 4025, 1048, 1364, 1438, 1062, 1452})
"""Errors about a row of the slave: values that do not fit, checks, errors of triggers."""
TRANSACTION_LOST = frozenset({1020, 1205, 1213, 1637})
"""After these the transaction is over, or (1205) has lost a statement: all of it must be done again."""

_CHECK_CONNECTION = "Check user, password and database of the connection, and the account's privileges there."
_CERTIFICATE = re.compile("certificate verify failed|CERTIFICATE_VERIFY|SSL connection error|doesn't support SSL", re.I)


def number_of(error: BaseException) -> int:
    """The server's number, 0 for none."""
    first = error.args[0] if error.args else 0
    return first if isinstance(first, int) else 0


def text_of(error: BaseException) -> str:
    """The server's message in one line."""
    text = error.args[1] if len(error.args) > 1 else str(error)
    return " ".join(str(text).split()) or type(error).__name__


class Refusal(Exception):
    """The part of a server's error that Sluice's own error has: its number and its text."""

    def __init__(self, number: int, text: str):
        super().__init__(number, text)
        self.number = number
        self.text = text


def converted(error: BaseException, place: str, more: str = "") -> DatabaseError:
    """Sluice's error for one of the driver; `refusal` of it is what the server said. `place` names the server, `more`
    ends the message."""
    number, text = number_of(error), text_of(error)
    kind = kind_of(error)
    if kind in (DatabaseRefused, LoginRefused):
        message = f"{place}: {text.rstrip('.')}. {_CHECK_CONNECTION}"
    elif kind is ServerUnproved:
        message = (
            f"{place}: {text.rstrip('.')}. Give the server a certificate for this host name, of an authority that this "
            "machine trusts, or name the file of that authority as sslrootcert in the extras of the connection."
        )
    elif kind is DatabaseUnreachable and number >= 2000:
        message = f"{place}: {text.rstrip('.')}. The server is down, restarting or not reachable from here."
    else:
        message = f"{place}: {text} (error {number})" if number else f"{place}: {text}"
    made = kind(message + more)
    made.place, made.reason = place, text
    made.__cause__ = Refusal(number, text)
    return made


def kind_of(error: BaseException) -> type[DatabaseError]:
    """Its kind, by the number; the driver's own errors without one by what they say."""
    number, text = number_of(error), text_of(error)
    if _CERTIFICATE.search(text):
        return ServerUnproved
    if number in KINDS:
        return KINDS[number]
    of_driver = number == 0 and isinstance(error, pymysql.err.OperationalError | pymysql.err.InterfaceError)
    if of_driver or isinstance(error, ConnectionError | TimeoutError):
        return DatabaseUnreachable
    if 2000 <= number < 3000 and isinstance(error, pymysql.err.OperationalError):
        return DatabaseUnreachable
    return StatementFailed


def refusal(error: BaseException) -> Refusal:
    """The server's message in an error that `converted` made."""
    cause = error.__cause__
    return cause if isinstance(cause, Refusal) else Refusal(0, str(error))
