"""A table as registered in TABLES."""

from dataclasses import dataclass

from sluice.model.names import TableName


@dataclass(frozen=True)
class RegisteredTable:
    """A row of TABLES, with the fault of its capture."""

    table: TableName
    actions: frozenset[str]
    """Letters of I, U and D; empty: its changes are not captured."""
    status: str
    """CREATING until the triggers exist, then OK."""
    repl_key: int
    """The order in which tables are loaded."""
    trigger: str
    debug: bool
    faults: tuple[str, ...] = ()
    """The fault in words: `trigger "DEMO_TR01_u" is disabled`."""
