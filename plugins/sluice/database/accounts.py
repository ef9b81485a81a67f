"""Accounts, databases and what is in them, as the commands that set a replication up need them."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from sluice.database.session import Session
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix


@dataclass(frozen=True)
class Content:
    """The tables of a schema that could be replicated."""

    schema: str
    tables: int
    rows: int
    """By statistics."""
    owners: tuple[str, ...]


class Accounts(Protocol):
    """Over a session in autocommit, of an administrator or of the replication's own account.

    Methods without a session make the text of a statement.
    """

    ADMINISTRATOR: str
    """The account that a server has from the beginning."""
    MAINTENANCE: str
    """The database that every server has."""

    def parse(self, url: str, user: str) -> ConnectionInfo:
        """The database that a URL names, as `user` where it names none; without a password.

        Raises `Terminal` for a URL that leads to no database, or has a password in it.
        """
        ...

    def password_used(self, connection: Session) -> str:
        """The password that the server was given, wherever it came from; empty where the server asked for none."""
        ...

    def role_exists(self, connection: Session, role: str) -> bool:
        """Whether the server knows the account."""
        ...

    def is_superuser(self, connection: Session) -> bool:
        """Whether the session's own account is one."""
        ...

    def database_exists(self, connection: Session, name: str) -> bool:
        """Whether the server has the database."""
        ...

    def encoding(self, connection: Session) -> str:
        """Of the session's database."""
        ...

    def create_role(self, role: str) -> str:
        """The statement that makes an account, without a password."""
        ...

    def create_database(self, name: str, owner: str, encoding: str) -> str:
        """The statement that makes a slave's database."""
        ...

    def silence(self, connection: Session, role: str, database: str) -> str:
        """The statement by which an account may switch off triggers in a slave's database that is not there yet."""
        ...

    def set_password(self, connection: Session, role: str, password: str) -> None:
        """The password leaves this process only as its hash: statements are logged by many servers."""
        ...

    def run(self, connection: Session, statements: Iterable[str]) -> None:
        """Statements as they were printed."""
        ...

    def acting_as(self, connection: Session, role: str) -> AbstractContextManager[None]:
        """What is asked inside is answered for `role`."""
        ...

    def tried(self, connection: Session) -> AbstractContextManager[None]:
        """Whatever is done inside is taken back."""
        ...

    def inventory(self, connection: Session) -> list[Content]:
        """What the database has, by schema, without Sluice's own tables."""
        ...

    def event_triggers(self, connection: Session, prefix: Prefix, schema: str) -> None:
        """Makes those of an installed prefix; the session's account must be a superuser."""
        ...

    def remove_event_triggers(self, connection: Session, prefix: Prefix, schema: str) -> None:
        """Removes those of an installed prefix; the session's account must be a superuser."""
        ...

    def has_event_triggers(self, connection: Session, prefix: Prefix, schema: str) -> bool:
        """Whether event triggers call functions of the prefix in that schema."""
        ...

    def remove_slave(self, connection: Session, prefix: Prefix, schema: str, slave: str) -> None:
        """Removes what Sluice keeps of the slave there; the replicated tables stay as they are."""
        ...

    def revokes(self, connection: Session, role: str) -> list[str]:
        """The statements that take back every privilege that was granted to `role` in this database."""
        ...
