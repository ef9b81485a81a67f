"""Accounts, databases and what is in them, as the commands that set a replication up need them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from sluice.database.session import Session
from sluice.model.connection import ConnectionInfo
from sluice.model.issue import Issue
from sluice.model.names import Prefix


@dataclass(frozen=True)
class Content:
    """The tables of a schema that could be replicated."""

    schema: str
    tables: int
    rows: int
    """The number of rows, by statistics."""
    owners: tuple[str, ...]


class Accounts(Protocol):
    """Accounts and their privileges, over a session in autocommit of an administrator or of the replication's own
    account.

    Methods without a session return the text of a statement.
    """

    ADMINISTRATOR: str
    """The account that a server has from the beginning."""
    MAINTENANCE: str
    """The database that every server has."""
    PASSWORD_VARIABLE: str
    """The environment variable with a password, as the vendor's own programs read it."""

    def parse(self, url: str, user: str) -> ConnectionInfo:
        """The database that a URL names, as `user` if it names none; without a password.

        Raises `Terminal` for a URL that leads to no database, or has a password in it.
        """
        ...

    def password_used(self, connection: Session) -> str:
        """The password that was sent to the server, from any source; empty if the server asked for none."""
        ...

    def password_places(self, info: ConnectionInfo) -> str:
        """The places where the password of `info`'s account is looked for, in words."""
        ...

    def account_help(self, role: str) -> str:
        """What to do if an account is missing, or its password is unknown."""
        ...

    def password_step(self, role: str) -> str:
        """What a person runs to give a new account its password: one line, a comment in SQL."""
        ...

    def is_logged_in(self, connection: Session, role: str) -> bool:
        """Whether the account has a session on the server, in any database."""
        ...

    def role_exists(self, connection: Session, role: str) -> bool:
        """Whether the server knows the account."""
        ...

    def database_exists(self, connection: Session, name: str) -> bool:
        """Whether the server has the database."""
        ...

    def create_role(self, role: str) -> str:
        """The statement that creates an account, which cannot log in before it has a password."""
        ...

    def create_database(self, name: str, owner: str, encoding: str) -> str:
        """The statement that creates a slave's database. `encoding`: that of the master, for a vendor with the same
        encodings."""
        ...

    def of_new_database(self, connection: Session, role: str, database: str) -> list[str]:
        """The statements by which an account may all that is needed in a slave's database that is not there yet."""
        ...

    def set_password(self, connection: Session, role: str, password: str) -> None:
        """Gives an account a password, of which statements that servers log show nothing."""
        ...

    def run(self, connection: Session, statements: Iterable[str]) -> None:
        """Statements as they were printed."""
        ...

    def fixed(
        self, connection: Session, role: str, created: bool, current_issues: Callable[[], list[Issue]]
    ) -> list[str]:
        """The statements that grant everything that `current_issues` finds missing for `role`. Changes nothing.

        `created`: the account exists; otherwise the first statement creates it.
        """
        ...

    def remove_slave(self, connection: Session, prefix: Prefix, schema: str, slave: str) -> None:
        """Removes what Sluice stores about the slave there; the replicated tables are not changed."""
        ...

    def revokes(self, connection: Session, role: str) -> list[str]:
        """The statements that take back every privilege that was granted to `role` in this database."""
        ...


class MasterContents(Protocol):
    """What a master has. Over a session in autocommit."""

    def is_superuser(self, connection: Session) -> bool:
        """Whether the session's own account is one."""
        ...

    def encoding(self, connection: Session) -> str:
        """The encoding of the session's database."""
        ...

    def inventory(self, connection: Session) -> list[Content]:
        """The tables of the database by schema, without Sluice's own tables."""
        ...
