"""Finds what a server or an account lacks for a replication, before anything is changed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sluice.configuration.model import Replication, SlaveConfig
from sluice.database.schema import CollationDefinition, TableDefinition, TypeDefinition
from sluice.database.session import Session
from sluice.model.connection import ConnectionInfo
from sluice.model.issue import Issue
from sluice.model.names import TableName


@dataclass(frozen=True)
class Requirements:
    """What the master's tables need on a slave."""

    definitions: list[TableDefinition]
    types: list[TypeDefinition]
    collations: list[CollationDefinition]
    encoding: str
    """The encoding of the master's database."""
    bytes: int
    """The size of the tables on the master, without indexes."""
    index_extensions: Mapping[str, str] = field(default_factory=dict)
    """Extensions that their indexes need, each with its schema."""
    large_objects: Mapping[TableName, Sequence[str]] = field(default_factory=dict)
    """Columns that hold numbers of large objects, which are not replicated."""


class Preflight(Protocol):
    """Checks the current account of a session. Changes nothing, and waits for no lock of a table.

    `light`: only what a running replication needs, in less time.
    """

    def of_slave(
        self,
        connection: Session,
        replication: Replication,
        slave: SlaveConfig,
        requirements: Requirements | None,
        *,
        part: bool = False,
        light: bool = False,
    ) -> list[Issue]:
        """What a slave lacks. `requirements`: None if the master cannot be reached.

        `part`: only some tables are loaded.
        """
        ...

    def of_refusal(self, info: ConnectionInfo, reason: str) -> Issue:
        """A server, or a proxy before it, that refuses the account; `reason` is a sentence."""
        ...

    def sequences_of_slave(self, connection: Session, tables: Sequence[TableName]) -> list[Issue]:
        """Sequences of columns of `tables` that the account may not set."""
        ...


class MasterPreflight(Preflight, Protocol):
    """Checks a master, too."""

    def of_master(self, connection: Session, replication: Replication, *, light: bool = False) -> list[Issue]:
        """What the master lacks."""
        ...

    def requirements(
        self, master: Session, replication: Replication, covers: Callable[[TableName], bool]
    ) -> Requirements:
        """What the master's tables for which `covers` is true need on a slave."""
        ...

    def sequences_of_master(self, connection: Session, tables: Sequence[TableName]) -> list[Issue]:
        """Sequences of columns of `tables` that the account may not read."""
        ...
