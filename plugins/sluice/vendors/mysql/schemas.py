"""What tables of a slave are defined to be (`sluice.database.schema.Schemas`), compared with a master's.

A slave's own definitions are read for a comparison alone: no table is made from them.
"""

from collections.abc import Collection, Sequence

from sluice.database.schema import (
    CollationDefinition,
    Comment,
    Constraint,
    DomainCheck,
    FreeSequence,
    Index,
    SequenceDefinition,
    TableDefinition,
    TypeDefinition,
)
from sluice.database.session import Session
from sluice.model.lack import Lack
from sluice.model.names import Prefix, TableName
from sluice.model.views import View
from sluice.vendors.mysql.not_a_master import NotAMaster
from sluice.vendors.mysql.target.definitions import DEFINITIONS

__all__ = [
    "collations",
    "comments",
    "constraints",
    "domain_checks",
    "domain_checks_lacking",
    "free_sequences",
    "indexes",
    "lacking",
    "sequences",
    "surplus",
    "tables",
    "types",
    "views",
]

lacking, surplus = DEFINITIONS.lacking, DEFINITIONS.surplus


def tables(connection: Session, tables: Sequence[TableName]) -> list[TableDefinition]:
    raise NotAMaster


def types(connection: Session, tables: Sequence[TableName]) -> list[TypeDefinition]:
    raise NotAMaster


def collations(connection: Session, tables: Sequence[TableName]) -> list[CollationDefinition]:
    raise NotAMaster


def indexes(connection: Session, tables: Sequence[TableName]) -> list[Index]:
    raise NotAMaster


def constraints(connection: Session, tables: Sequence[TableName]) -> list[Constraint]:
    raise NotAMaster


def comments(connection: Session, tables: Sequence[TableName]) -> list[Comment]:
    raise NotAMaster


def sequences(connection: Session, tables: Sequence[TableName]) -> list[SequenceDefinition]:
    raise NotAMaster


def domain_checks(connection: Session, tables: Sequence[TableName]) -> list[DomainCheck]:
    """There are no domains."""
    return []


def domain_checks_lacking(master: Sequence[DomainCheck], slave: Sequence[DomainCheck]) -> list[Lack]:
    """None: the master's checks hold there."""
    return []


def views(connection: Session, prefix: Prefix) -> list[View]:
    raise NotAMaster


def free_sequences(connection: Session, prefix: Prefix, schemas: Collection[str]) -> list[FreeSequence]:
    raise NotAMaster
