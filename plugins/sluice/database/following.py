"""What a slave's vendor does so that indexes, constraints and comments follow (`sluice.model.defined`)."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sluice.database.schema import Comment, Constraint, DomainCheck, FreeSequence, Index, MasterSchemas
from sluice.database.session import Session
from sluice.errors import SluiceError
from sluice.model.defined import Defined, DefinedKind, ObjectId
from sluice.model.names import Prefix, TableName
from sluice.model.views import View, replicated

Described = Index | Constraint | DomainCheck | Comment | View | FreeSequence
"""A definition of the master, and the parts from which it is created."""


class NotMade(SluiceError):
    """The slave cannot get or lose something automatically. `reason`: why, in one line."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class OfMaster:
    """The master's definitions of `tables`, and the parts from which each is created."""

    tables: tuple[TableName, ...]
    made_from: dict[Defined, Described]

    @classmethod
    def read(
        cls, schemas: MasterSchemas, connection: Session, tables: Sequence[TableName], replicated: Sequence[TableName]
    ) -> "OfMaster":
        """Over a session on the master. Foreign keys count only to `replicated` tables: rows of others are not on
        slaves."""
        known = set(replicated)
        followed: list[Described] = [
            *(one for one in schemas.indexes(connection, tables) if one.valid and not one.primary),
            *(
                one
                for one in schemas.constraints(connection, tables)
                if one.validated and (one.kind == "c" or one.parent in known)
            ),
            *schemas.domain_checks(connection, tables),
            *schemas.comments(connection, tables),
        ]
        return cls(tuple(tables), {defined(one): one for one in followed})

    def beside(
        self,
        schemas: MasterSchemas,
        connection: Session,
        prefix: Prefix,
        replicated_tables: Sequence[TableName],
        kinds: Collection[DefinedKind],
    ) -> "OfMaster":
        """The same with definitions of these kinds that belong to no table."""
        followed: list[Described] = []
        if DefinedKind.SEQUENCES in kinds:
            followed += schemas.free_sequences(connection, prefix, {table.schema for table in replicated_tables})
        if DefinedKind.VIEWS in kinds:
            followed += replicated(schemas.views(connection, prefix), replicated_tables)
        return OfMaster(self.tables, {**self.made_from, **{defined(one): one for one in followed}})


def defined(one: Described) -> Defined:
    """Its identity and its text."""
    if isinstance(one, Index):
        kind = DefinedKind.UNIQUE if one.constrains else DefinedKind.INDEXES
        text = one.constraint if one.constraint_kind == "x" else f"{'UNIQUE ' if one.unique else ''}{one.rest}"
        constraint = " CONSTRAINT" if one.constraint_kind else ""
        return Defined(kind, one.table, one.name, f"{text}{constraint}")
    if isinstance(one, Constraint):
        return Defined(_KINDS[one.kind], one.table, one.name, one.check or _reference(one))
    if isinstance(one, DomainCheck):
        return Defined(DefinedKind.DOMAINS, TableName(one.schema, one.domain), one.name, one.definition)
    if isinstance(one, View):
        return Defined(DefinedKind.VIEWS, one.name, "", one.definition)
    if isinstance(one, FreeSequence):
        return Defined(DefinedKind.SEQUENCES, one.name, "", one.definition)
    return Defined(DefinedKind.COMMENTS, one.table, one.column, one.text)


_KINDS = {"c": DefinedKind.CHECKS, "f": DefinedKind.FOREIGN_KEYS}


def _reference(one: Constraint) -> str:
    """Without what the slave has otherwise: its foreign keys take no action and are deferrable."""
    return repr((one.columns, str(one.parent), one.parent_columns, one.match, one.deferred))


def by_id(found: Iterable[Described | Defined]) -> dict[ObjectId, str | None]:
    """The text of each definition; None for one that is not finished."""
    definitions: dict[ObjectId, str | None] = {}
    for each in found:
        one = each if isinstance(each, Defined) else defined(each)
        begun = (isinstance(each, Index) and not each.valid) or (isinstance(each, Constraint) and not each.validated)
        definitions[one.id] = None if begun else one.definition
    return definitions


class Following(Protocol):
    """Follows definitions over an autocommit session on the slave. Raises `NotMade` for what a slave cannot do; outages
    are `Transient`."""

    @property
    def kinds(self) -> Collection[DefinedKind]:
        """What a slave of this vendor can follow at all."""
        ...

    def present(self, connection: Session, tables: Sequence[TableName]) -> Sequence[Described | Defined]:
        """The slave's definitions of `tables` and of the domains of their columns; as `Defined` if the vendor compares
        only names."""
        ...

    def present_beside(
        self, connection: Session, prefix: Prefix, schemas: Collection[str]
    ) -> Sequence[View | FreeSequence]:
        """The views that the slave has, each after those that it reads, and the sequences in `schemas`."""
        ...

    def make(self, connection: Session, wanted: Described, replicated: Sequence[TableName], *, trusted: bool) -> None:
        """Creates a definition that is missing or not finished, without blocking readers of the slave. `trusted`: with
        any expressions."""
        ...

    def drop(self, connection: Session, defined: Defined) -> None:
        """Removes it; nothing if it is not there."""
        ...

    def drop_at_once(self, connection: Session, defined: Defined) -> None:
        """The same within the caller's transaction. Raises `LockNotAvailable` if readers block it for long."""
        ...

    def rename(self, connection: Session, defined: Defined, name: str) -> None: ...

    def statement(self, wanted: Described) -> str:
        """The statement with which a person creates it."""
        ...

    def drop_statement(self, connection: Session, defined: Defined) -> str:
        """The statement with which a person removes it."""
        ...
