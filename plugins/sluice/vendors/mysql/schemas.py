"""Definitions of a slave's tables (`sluice.database.schema.Schemas`), compared with a master's.

They are read only for a comparison: no table is created from them.
"""

from collections.abc import Sequence

from sluice.database.schema import (
    DomainCheck,
)
from sluice.database.session import Session
from sluice.model.lack import Lack
from sluice.model.names import TableName
from sluice.vendors.mysql.target.definitions import DEFINITIONS

lacking, surplus = DEFINITIONS.lacking, DEFINITIONS.surplus


def domain_checks(connection: Session, tables: Sequence[TableName]) -> list[DomainCheck]:
    """Empty: there are no domains."""
    return []


def domain_checks_lacking(master: Sequence[DomainCheck], slave: Sequence[DomainCheck]) -> list[Lack]:
    """Empty: the master's checks hold there."""
    return []
