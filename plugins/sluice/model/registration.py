"""A table as the TABLES table of a prefix registers it."""

from dataclasses import dataclass

from sluice.model.names import TableName


@dataclass(frozen=True)
class RegisteredTable:
    """One row of TABLES, with what is wrong about its capture."""

    table: TableName
    actions: frozenset[str]
    """Of I, U and D; empty: registered for its initial content only."""
    status: str
    """CREATING until the triggers are in place, then OK."""
    repl_key: int
    """Keeps the order in which tables are loaded."""
    trigger: str
    debug: bool
    faults: tuple[str, ...] = ()
    """In words, e.g. `trigger "DEMO_TR01_u" is disabled`."""
