"""Definitions of a database's tables other than columns: read from a master, compared with a slave.

A definition passes from the master's vendor to the slave's: its parts are plain values, its expressions texts of the
master's dialect.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sluice.database.session import Session
from sluice.model import table_definition as definitions
from sluice.model.issue import Issue
from sluice.model.names import Prefix, TableName
from sluice.model.shape import TableShape
from sluice.model.views import View


@dataclass(frozen=True)
class SequenceDefinition:
    """A sequence of a column."""

    table: TableName
    column: str
    identity: bool
    """The column is an identity: the sequence is created and dropped with it."""
    owned: bool
    """The sequence is dropped with the column."""
    schema: str
    name: str
    type: str
    start: int
    increment: int
    minimum: int
    maximum: int
    cache: int
    cycle: bool
    last: int | None
    """The number drawn last; None if none was drawn, or the account may not read it."""
    readable: bool
    """Whether this account may read `last`."""
    settable: bool
    owner: str
    """Quoted if it needs it."""


@dataclass(frozen=True)
class TableDefinition:
    """A table of the master, as a slave gets it."""

    shape: TableShape
    key_name: str | None
    """The name of the key's index; None for a keyless table."""
    key_kind: str
    """`p` primary key, `u` unique constraint, `i` index alone."""
    sequences: tuple[SequenceDefinition, ...]
    generated: Mapping[str, str]
    """The expressions of generated columns."""

    @property
    def table(self) -> TableName:
        return self.shape.table


@dataclass(frozen=True)
class TypeDefinition:
    """A type of a database's own."""

    schema: str
    name: str
    kind: str
    """`e` enum, `d` domain, `c` composite, `r` range, `b` base type, `t` row type of a table."""
    extension: str | None
    """The extension to which it belongs."""
    extension_schema: str | None
    labels: tuple[str, ...] | None
    """The labels of an enum."""
    comparable: str | None
    """The parts on which its values depend: base of a domain, attributes of a composite, subtype of a range."""
    ddl: str | None
    """The text after its name in the statement that creates it; None if no statement can create it."""


def defined_in(definition: definitions.TableDefinition) -> list[TypeDefinition]:
    """The types of the master's own that a change of a definition tells of."""
    enums = [
        TypeDefinition(enum.schema, enum.name, "e", None, None, tuple(label for _, label in enum.labels), None, None)
        for enum in definition.enums
    ]
    domains = [
        TypeDefinition(domain.schema, domain.name, "d", None, None, None, domain.type, None)
        for domain in definition.domains
    ]
    return [*enums, *domains]


@dataclass(frozen=True)
class CollationDefinition:
    """A collation of a database's own."""

    schema: str
    name: str
    deterministic: bool
    provider: str
    locale: str | None
    collate: str | None
    ctype: str | None
    rules: str | None


@dataclass(frozen=True)
class Index:
    """An index, a primary key's included."""

    table: TableName
    name: str
    unique: bool
    valid: bool
    rest: str
    """The text after CREATE INDEX name ON table."""
    constraint_kind: str | None
    """`p` primary key, `u` unique constraint, `x` exclusion constraint; None for an index alone."""
    constraint: str | None
    """The constraint's definition."""
    primary: bool
    expressions: list[str]
    """The expressions that are evaluated for each row: of its columns, and its condition."""
    columns: list[str] = field(default_factory=list)
    """The table's columns that it and its expressions use."""

    @property
    def constrains(self) -> bool:
        """Whether it refuses rows."""
        return self.unique or self.constraint_kind is not None


@dataclass(frozen=True)
class Constraint:
    """A check constraint or a foreign key."""

    table: TableName
    name: str
    kind: str
    """`c` check, `f` foreign key."""
    validated: bool
    check: str | None
    """A check's definition: CHECK (expression)."""
    columns: list[str] | None
    parent: TableName | None
    """The table that a foreign key refers to."""
    parent_columns: list[str] | None
    match: str
    """`f` MATCH FULL, `s` MATCH SIMPLE."""
    deferrable: bool
    deferred: bool

    @property
    def expressions(self) -> list[str]:
        """The expressions that are evaluated for each row."""
        return [str(self.check).removeprefix("CHECK ")] if self.kind == "c" else []


@dataclass(frozen=True)
class FreeSequence:
    """A sequence that is no column's default."""

    name: TableName
    type: str
    start: int
    increment: int
    minimum: int
    maximum: int
    cache: int
    cycle: bool
    last: int | None
    """The number drawn last; None if none was drawn, or the account may not read it."""
    readable: bool
    """Whether this account may read `last`."""
    owner: str
    """Quoted if it needs it."""

    @property
    def definition(self) -> str:
        """Its definition, without its name and value: equal for two sequences that are defined alike."""
        return repr((self.type, self.start, self.increment, self.minimum, self.maximum, self.cache, self.cycle))


@dataclass(frozen=True)
class DomainCheck:
    """A check of a domain."""

    schema: str
    domain: str
    name: str
    """Empty for NOT NULL."""
    definition: str
    """CHECK (expression), or NOT NULL."""

    @property
    def not_null(self) -> bool:
        return not self.name


@dataclass(frozen=True)
class Comment:
    """A comment on a table or column."""

    table: TableName
    column: str
    """Empty: it is the table's own."""
    text: str


class Schemas(Protocol):
    """Compares a slave's definitions with those of its master, over a session on the slave, in any transaction. Changes
    nothing."""

    def domain_checks(self, connection: Session, tables: Sequence[TableName]) -> list[DomainCheck]:
        """The checks of the domains that columns of `tables` need."""
        ...

    def lacking(
        self,
        connection: Session,
        indexes_of_master: Sequence[Index],
        constraints_of_master: Sequence[Constraint],
        replicated: Collection[TableName],
    ) -> list[Issue]:
        """What `LoadTarget.complete_indexes` and `complete_constraints` would create, with the statements."""
        ...

    def surplus(
        self,
        connection: Session,
        indexes_of_master: Sequence[Index],
        constraints_of_master: Sequence[Constraint],
        tables: Sequence[TableName],
    ) -> list[Issue]:
        """Constraints of `tables` on the slave that the master does not have, under that name or another.

        Other indexes that only the slave has come last, as notes: its readers may need them.
        """
        ...

    def missing_domain_checks(self, master: Sequence[DomainCheck], slave: Sequence[DomainCheck]) -> list[Issue]:
        """Checks that only one side has, or that the sides define differently."""
        ...


class MasterSchemas(Schemas, Protocol):
    """Reads definitions over a session on a master, too."""

    def tables(self, connection: Session, tables: Sequence[TableName]) -> list[TableDefinition]:
        """The definitions of those of `tables` that exist, in that order."""
        ...

    def locked(self, connection: Session, tables: Sequence[TableName]) -> set[TableName]:
        """Those of `tables` that some session has locked, or waits to lock, so that reading their definitions would
        wait."""
        ...

    def types(self, connection: Session, tables: Sequence[TableName]) -> list[TypeDefinition]:
        """The types that columns of `tables` need, each after the types that it consists of."""
        ...

    def collations(self, connection: Session, tables: Sequence[TableName]) -> list[CollationDefinition]:
        """The collations of the database's own that columns of `tables` use."""
        ...

    def indexes(self, connection: Session, tables: Sequence[TableName]) -> list[Index]:
        """All indexes of `tables`, primary keys' included."""
        ...

    def constraints(self, connection: Session, tables: Sequence[TableName]) -> list[Constraint]:
        """Check constraints and foreign keys of `tables`."""
        ...

    def sequences(self, connection: Session, tables: Sequence[TableName]) -> list[SequenceDefinition]:
        """The sequences of columns of `tables`, by table and column."""
        ...

    def comments(self, connection: Session, tables: Sequence[TableName]) -> list[Comment]:
        """The comments on `tables` and their columns."""
        ...

    def views(self, connection: Session, prefix: Prefix) -> list[View]:
        """The application's views."""
        ...

    def free_sequences(self, connection: Session, prefix: Prefix, schemas: Collection[str]) -> list[FreeSequence]:
        """The sequences in `schemas` that no column uses."""
        ...


# Indexes that any vendor can have: of columns alone.

_COLUMNS = re.compile(
    r"USING btree \((?P<columns>(?:\"(?:[^\"]|\"\")*\"|[^\"()])*)\)(?: INCLUDE \((?:\"(?:[^\"]|\"\")*\"|[^\"()])*\))?"
)
_COLUMN = re.compile(r"\s*(?:\"(?P<quoted>(?:[^\"]|\"\")*)\"|(?P<plain>[^\s\",]+))(?P<rest>[^,]*)(?:,|$)")
_ORDERS = frozenset({"", "DESC", "ASC", "DESC NULLS LAST", "NULLS FIRST"})


def columns_of(index: Index) -> tuple[str, ...] | None:
    """The columns of a plain index of the master's; None for any other."""
    match = _COLUMNS.fullmatch(index.rest.strip())
    if match is None or index.constraint_kind == "x":
        return None
    columns = []
    for column in _COLUMN.finditer(match["columns"]):
        if not column[0].strip():
            continue
        if column["rest"].strip() not in _ORDERS:
            return None
        columns.append(column["quoted"].replace('""', '"') if column["quoted"] is not None else column["plain"])
    return tuple(columns)
