"""The errors of a session of any vendor: every error is `Terminal` or `Transient`, and names the server.

A session raises no other errors of its driver. Services react to the following kinds; only the vendor uses what else
its driver says.
"""

from sluice.errors import SluiceError, Terminal, Transient
from sluice.model.names import TableName


class DatabaseError(SluiceError):
    """A database server refused, failed or did not answer."""

    server = ""
    """The server, as `ConnectionInfo.server` names it; empty if the error has traveled."""
    reason = ""
    """The server's message, without its name and without a remedy; empty if the error came from another process."""
    server_code = ""
    """The server's own code, as its messages show it; empty if it has an SQLSTATE alone."""
    sqlstate: str | None = None
    """The SQLSTATE, if the server sends one."""


class DatabaseUnreachable(DatabaseError, Transient):
    """The server does not answer, went away, or refuses more connections just now."""


class DatabaseRefused(DatabaseError, Terminal):
    """The server answered and refused: wrong password, missing database, missing privilege."""


class LoginRefused(DatabaseRefused):
    """The server refused to let the account in: wrong password, locked account, missing database."""


class ServerUnproved(DatabaseRefused):
    """The server does not prove who it is, so no password was sent to it."""


class StatementFailed(DatabaseError, Terminal):
    """A statement failed for a reason that a retry does not change."""


class StatementInterrupted(DatabaseError, Transient):
    """A statement was ended, and may succeed later: deadlock, serialization, time-out, disk or memory full."""


class UniqueViolation(StatementFailed):
    """A value that must be unique is there already, or an exclusion constraint is violated."""


class ForeignKeyViolation(StatementFailed):
    """A row refers to one that does not exist, or one that others refer to would go."""


class NotNullViolation(StatementFailed):
    """A column that must have a value got none."""


class CheckViolation(StatementFailed):
    """A row does not meet a check of its table, or a value one of its column's domain."""


class InvalidValue(StatementFailed):
    """A text is no value of its column's type, as a label that an enum lacks."""


class UndefinedObject(StatementFailed):
    """A type, function or other object that the statement names does not exist."""


class UndefinedTable(UndefinedObject):
    """A table or a column that the statement names does not exist."""


class DatatypeMismatch(StatementFailed):
    """A value is of another type than its column."""


class Contended(StatementInterrupted):
    """Other transactions were in the way, or it took longer than it was allowed to."""


class SnapshotTooOld(Contended):
    """The server no longer has the old rows that a statement needs: fewer rows would have been read in time."""


class LockNotAvailable(Contended):
    """It waited too long for a lock, or in a deadlock."""


class TableFailure(Terminal):
    """One table alone is at fault: it may be left out, and all others continue."""

    def __init__(self, table: TableName, text: str):
        super().__init__(text)
        self.table = table
