"""What a session raises, whatever the vendor: every error is `Terminal` or `Transient` and names the server.

A session never lets an error of its driver out that is none of these. Services react to the kinds that follow;
what else a driver knows of an error is its vendor's affair.
"""

from sluice.errors import SluiceError, Terminal, Transient


class DatabaseError(SluiceError):
    """A database server refused, failed or did not answer."""

    place = ""
    """The server, as `ConnectionInfo.place` names it; empty where the error has travelled."""
    reason = ""
    """What the server said, without its name and without a remedy; empty where the error has travelled."""


class DatabaseUnreachable(DatabaseError, Transient):
    """The server does not answer, went away, or refuses more connections just now."""


class DatabaseRefused(DatabaseError, Terminal):
    """The server answered and refused: wrong password, missing database, missing privilege."""


class LoginRefused(DatabaseRefused):
    """The server refused to let the account in: wrong password, locked account, missing database."""


class ServerUnproved(DatabaseRefused):
    """The server does not prove who it is, so no password was sent to it."""


class StatementFailed(DatabaseError, Terminal):
    """A statement failed for a reason another try will not mend."""


class StatementInterrupted(DatabaseError, Transient):
    """A statement was ended, and may succeed later: deadlock, serialization, time-out, disk or memory full."""


class UniqueViolation(StatementFailed):
    """A value that must be unique is there already, or an exclusion constraint is violated."""


class ForeignKeyViolation(StatementFailed):
    """A row refers to one that does not exist, or one that others refer to would go."""


class NotNullViolation(StatementFailed):
    """A column that must have a value got none."""


class UndefinedObject(StatementFailed):
    """A type, function or other object that the statement names does not exist."""


class UndefinedTable(UndefinedObject):
    """A table or a column that the statement names does not exist."""


class DatatypeMismatch(StatementFailed):
    """A value is of another type than its column."""


class Contended(StatementInterrupted):
    """Other transactions were in the way, or it took longer than it was allowed to."""


class SnapshotTooOld(Contended):
    """The server does not keep any longer what a statement wants to see: fewer rows would have been read in time."""


class LockNotAvailable(Contended):
    """It waited too long for a lock, or in a circle."""
