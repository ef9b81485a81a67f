"""Sluice's own tables on a slave whose tables are where the connection is: the configured `schema` is not used."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager

from sluice import sql_files
from sluice.database.control import OwnTables
from sluice.errors import Terminal
from sluice.model.names import Prefix

TABLES = ("checkpoint", "blocks", "rejects", "throttle", "definitions", "locks")


def not_a_table(server: str, name: str, what: str, other: str) -> Terminal:
    """Something else has the name of one of Sluice's tables."""
    return Terminal(
        f"{server}: {name} is a {what.lower()}, and Sluice keeps a table of that name there. Drop it, or let the "
        f"connection name another {other}.",
        code="not-a-table",
    )


class PlainOwnTables(OwnTables, ABC):
    """Of `sluice.database.control.OwnTables` what vendors share."""

    vendor: str

    def __init__(self, prefix: Prefix, placeholders: Mapping[str, str], **made_with: str):
        """`made_with`: further placeholders of the tables' definitions."""
        self.prefix = prefix.lower
        self._placeholders = {"prefix": self.prefix, **placeholders}
        self._made_with = {"prefix": self.prefix, "schema": placeholders["schema"], **made_with}

    @property
    def placeholders(self) -> Mapping[str, str]:
        return self._placeholders

    @abstractmethod
    def has(self, table: str) -> bool: ...

    @abstractmethod
    def execute(self, statement: str) -> None:
        """Runs a statement that makes a table."""

    @abstractmethod
    def held(self, name: str) -> AbstractContextManager[None]:
        """Holds a named lock in the block."""

    def make(self) -> None:
        """DDL commits: called before a transaction has written anything."""
        if all(self.has(table) for table in TABLES):
            return
        text = sql_files.render(self.vendor, "slave_resources", **self._made_with)
        with self.held("sluice slave resources"):
            for statement in text.split(";\n"):
                if statement.strip():
                    self.execute(statement)

    def expect_not_elsewhere(self) -> None:
        """Does nothing: the tables are nowhere else."""

    def secure(self) -> None:
        """Does nothing: who may create tables there could have created one of them; `has` checks what they are."""

    def complete_rejects(self) -> None:
        """Does nothing: there was no earlier version."""

    def await_durable(self) -> None:
        """Does nothing: every commit waits for the disk."""
