"""Indexes and foreign keys of the master on the slave, as far as its server supports them: created, compared, followed.

An index of plain columns is created with the master's name. Indexes of expressions, of some rows, or of other kinds
than a B-tree are left out, with the reason; so are checks, which are expressions of the master's dialect. Foreign keys
are created without actions and without checking the rows, which are the master's. Each statement commits.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence

from sluice.database.errors import StatementFailed
from sluice.database.following import Described, NotMade
from sluice.database.load import Completed, TouchingForeignKey
from sluice.database.schema import Constraint, DomainCheck, FreeSequence, Index, columns_of
from sluice.database.session import Session
from sluice.model.defined import Defined, DefinedKind
from sluice.model.issue import Issue, Severity
from sluice.model.names import Prefix, TableName
from sluice.model.shape import TableShape
from sluice.model.views import View
from sluice.vendors.common.catalog import Catalog, OwnIndex

_HERE = "of this server"
"""The definition of what is there: never the text of the master's."""


class Unindexable(Exception):
    """The server cannot have an index of these columns; with the reason."""


class Definitions(ABC):
    """The definitions of one vendor: its `Following`, and part of its `LoadTarget` and `Schemas`."""

    kinds: Collection[DefinedKind] = frozenset({DefinedKind.INDEXES, DefinedKind.UNIQUE, DefinedKind.FOREIGN_KEYS})
    catalog: Catalog
    foreign_key_options = ""
    """The clause after a created foreign key."""
    foreign_key_settings = ""
    """The statement that a session needs before it creates foreign keys."""

    # What a vendor says otherwise

    @abstractmethod
    def run(self, connection: Session, statement: str) -> None: ...

    def run_beside_others(self, connection: Session, statement: str) -> None:
        """`run` of what locks a table that others use meanwhile: they must not queue behind it for long."""
        self.run(connection, statement)

    @abstractmethod
    def quoted(self, *names: str) -> str: ...

    @abstractmethod
    def qualified(self, table: TableName) -> str:
        """The table's quoted name in a statement."""

    @abstractmethod
    def index_statement(self, index: Index, columns: Sequence[str], shape: TableShape) -> str:
        """The statement that creates the index. Raises `Unindexable`."""

    @abstractmethod
    def drop_index_statement(self, table: TableName, name: str) -> str: ...

    @abstractmethod
    def drop_foreign_key_statement(self, table: TableName, name: str) -> str: ...

    @abstractmethod
    def rename_index_statement(self, table: TableName, name: str, new: str) -> str: ...

    def free_name(self, connection: Session, wanted: Constraint) -> str:
        """The name that a foreign key can have on the slave: the master's, where no other table has it already."""
        return wanted.name

    def name_of_master(self, name: str) -> str:
        """The master's name of a foreign key of the slave."""
        return name

    def reason(self, error: StatementFailed) -> str:
        """Why the server refused a statement."""
        return error.reason

    # After a load

    def complete_indexes(self, connection: Session, master: Sequence[Index], *, trusted: bool = False) -> Completed:
        """Creates the indexes that the slave lacks."""
        done = Completed()
        wanted, left_out = self._missing_indexes(connection, master)
        done.left_out += left_out
        for index, statement in wanted:
            self._attempt(connection, done, f"index {index.name} of {index.table}", statement)
        return done

    def complete_constraints(
        self,
        connection: Session,
        master: Sequence[Constraint],
        replicated: Sequence[TableName],
        *,
        trusted: bool = False,
    ) -> Completed:
        """Creates the foreign keys between `replicated` tables that the slave lacks."""
        done = Completed()
        if self.foreign_key_settings:
            self.run(connection, self.foreign_key_settings)
        for constraint in master:
            if constraint.kind == "c":
                what = f"check {constraint.name} of {constraint.table}"
                done.left_out.append((what, "it is an expression of the master's dialect"))
            elif constraint.kind == "f" and constraint.parent not in replicated:
                what = f"foreign key {constraint.name} of {constraint.table}"
                done.left_out.append((what, f"{constraint.parent} is not replicated"))
        for constraint, statement in self._missing_foreign_keys(connection, master, replicated):
            self._attempt(connection, done, f"foreign key {constraint.name} of {constraint.table}", statement)
        return done

    # Before a load

    def foreign_keys(self, connection: Session, tables: Sequence[TableName]) -> list[TouchingForeignKey]:
        """The slave's foreign keys from or to any of `tables`."""
        loaded = set(tables)
        return [
            TouchingForeignKey(
                own.key.child, own.name, own.key.parent, own.key.child in loaded, own.key.parent in loaded
            )
            for own in self.catalog.foreign_keys(connection, tables)
        ]

    def with_unique_values(self, connection: Session, tables: Sequence[TableName]) -> set[TableName]:
        """The tables of `tables` with unique indexes other than their primary key."""
        indexes = self.catalog.own_indexes(connection, tables)
        return {index.table for index in indexes if index.unique and not index.primary}

    # Compared

    def lacking(
        self,
        connection: Session,
        indexes: Sequence[Index],
        constraints: Sequence[Constraint],
        replicated: Collection[TableName],
    ) -> list[Issue]:
        """What `complete_indexes` and `complete_constraints` would create, with the statements."""
        wanted, _ = self._missing_indexes(connection, indexes)
        issues = [
            Issue("", f"index {index.name} of {index.table}", "the master has it", statement, Severity.WARNING)
            for index, statement in wanted
        ]
        return issues + [
            Issue("", f"foreign key {each.name} of {each.table}", "the master has it", statement, Severity.NOTE)
            for each, statement in self._missing_foreign_keys(connection, constraints, replicated)
        ]

    def domain_checks(self, connection: Session, tables: Sequence[TableName]) -> list[DomainCheck]:
        """Empty: there are no domains."""
        return []

    def missing_domain_checks(self, master: Sequence[DomainCheck], slave: Sequence[DomainCheck]) -> list[Issue]:
        """Empty: the master's checks hold there."""
        return []

    def surplus(
        self,
        connection: Session,
        indexes: Sequence[Index],
        constraints: Sequence[Constraint],
        tables: Sequence[TableName],
    ) -> list[Issue]:
        """Unique indexes that only the slave has."""
        del constraints
        extra = []
        for own in self.catalog.own_indexes(connection, tables):
            known = any(same_index(own, other) for other in indexes if other.table == own.table)
            if not own.unique or own.primary or known:
                continue
            drop = self.drop_index_statement(own.table, own.name)
            why = "the master has none, and the apply stops at the first row of the master's that does not meet it"
            extra.append(Issue("", f"unique index {own.name} of {own.table}", why, drop, Severity.WARNING))
        return extra

    # Followed: see `Following`

    def present(self, connection: Session, tables: Sequence[TableName]) -> list[Described | Defined]:
        definitions: list[Described | Defined] = [
            Defined(DefinedKind.UNIQUE if index.unique else DefinedKind.INDEXES, index.table, index.name, _HERE)
            for index in self.catalog.own_indexes(connection, tables)
            if not index.primary
        ]
        known = set(tables)
        return definitions + [
            Defined(DefinedKind.FOREIGN_KEYS, own.key.child, self.name_of_master(own.name), _HERE)
            for own in self.catalog.foreign_keys(connection, tables)
            if own.key.child in known
        ]

    def present_beside(
        self, connection: Session, prefix: Prefix, schemas: Collection[str]
    ) -> list[View | FreeSequence]:
        """See `Following`: nothing beside tables follows."""
        return []

    def make(self, connection: Session, wanted: Described, replicated: Sequence[TableName], *, trusted: bool) -> None:
        if isinstance(wanted, Index):
            done = self.complete_indexes(connection, [wanted], trusted=trusted)
        else:
            assert isinstance(wanted, Constraint)
            done = self.complete_constraints(connection, [wanted], replicated, trusted=trusted)
        if done.left_out:
            raise NotMade(done.left_out[0][1])

    def drop(self, connection: Session, defined: Defined) -> None:
        self._follow(connection, self.drop_statement(connection, defined))

    def drop_at_once(self, connection: Session, defined: Defined) -> None:
        self.run(connection, self.drop_statement(connection, defined))

    def rename(self, connection: Session, defined: Defined, name: str) -> None:
        """Does nothing for a foreign key, whose name appears only in messages."""
        if defined.kind is not DefinedKind.FOREIGN_KEYS:
            self._follow(connection, self.rename_index_statement(defined.table, defined.name, name))

    def statement(self, wanted: Described) -> str:
        assert isinstance(wanted, Index | Constraint)
        name, place = self.quoted(wanted.name), self.qualified(wanted.table)
        if isinstance(wanted, Index):
            return f"make {'a unique' if wanted.unique else 'an'} index {name} on {place} {wanted.rest}"
        return f"make the foreign key {name} of {place}"

    def drop_statement(self, connection: Session, defined: Defined) -> str:
        if defined.kind is DefinedKind.FOREIGN_KEYS:
            keys = self.catalog.foreign_keys(connection, [defined.table])
            own = (each.name for each in keys if each.key.child == defined.table)
            named = (name for name in own if self.name_of_master(name) == defined.name)
            return self.drop_foreign_key_statement(defined.table, next(named, defined.name))
        return self.drop_index_statement(defined.table, defined.name)

    def _missing_indexes(
        self, connection: Session, master: Sequence[Index]
    ) -> tuple[list[tuple[Index, str]], list[tuple[str, str]]]:
        """The indexes that can be created, with their statements; and the others, with the reasons."""
        tables = sorted({index.table for index in master})
        shapes = self.catalog.shapes(connection, tables)
        own_indexes: dict[TableName, list[OwnIndex]] = {}
        for own in self.catalog.own_indexes(connection, tables):
            own_indexes.setdefault(own.table, []).append(own)
        wanted: list[tuple[Index, str]] = []
        left_out: list[tuple[str, str]] = []
        for index in master:
            shape = shapes.get(index.table)
            if index.primary or shape is None:
                continue
            columns, what = columns_of(index), f"index {index.name} of {index.table}"
            if columns is None:
                left_out.append((what, "it is of expressions, of some rows, or of a kind that this server lacks"))
                continue
            # An index that begins with these columns serves as well, a unique one only where it is the same.
            same = [own for own in own_indexes.get(index.table, ()) if own.columns[: len(columns)] == columns]
            if any(not index.unique or (own.unique and own.columns == columns) for own in same):
                continue
            if not {column.name for column in shape.columns}.issuperset(columns):
                left_out.append((what, "the slave's table lacks a column of it"))
                continue
            try:
                wanted.append((index, self.index_statement(index, columns, shape)))
            except Unindexable as error:
                left_out.append((what, str(error)))
        return wanted, left_out

    def _missing_foreign_keys(
        self, connection: Session, master: Sequence[Constraint], replicated: Collection[TableName]
    ) -> Iterator[tuple[Constraint, str]]:
        """One after the other: the name of one may be free only before another one is made."""
        wanted = [each for each in master if each.kind == "f" and each.parent in set(replicated)]
        tables = sorted({each.table for each in wanted})
        shapes = self.catalog.shapes(connection, tables)
        existing = {
            (own.key.child, own.key.parent, own.key.columns) for own in self.catalog.foreign_keys(connection, tables)
        }
        for each in wanted:
            if each.table in shapes and (each.table, each.parent, tuple(each.columns or ())) not in existing:
                yield each, self._foreign_key_statement(each, self.free_name(connection, each))

    def _foreign_key_statement(self, wanted: Constraint, name: str) -> str:
        assert wanted.parent is not None
        columns, parents = (", ".join(map(self.quoted, each or ())) for each in (wanted.columns, wanted.parent_columns))
        return (
            f"ALTER TABLE {self.qualified(wanted.table)} ADD CONSTRAINT {self.quoted(name)} FOREIGN KEY ({columns}) "
            f"REFERENCES {self.qualified(wanted.parent)} ({parents}){self.foreign_key_options}"
        )

    def _attempt(self, connection: Session, done: Completed, what: str, statement: str) -> None:
        try:
            self.run_beside_others(connection, statement)
        except StatementFailed as error:
            done.left_out.append((what, self.reason(error)))
        else:
            done.made.append(what)

    def _follow(self, connection: Session, statement: str) -> None:
        try:
            self.run_beside_others(connection, statement)
        except StatementFailed as error:
            raise NotMade(self.reason(error)) from error


def same_index(own: OwnIndex, wanted: Index) -> bool:
    """Whether the slave's index is the one that `Definitions.complete_indexes` would create for the master's."""
    return own.unique == wanted.unique and own.columns == columns_of(wanted)
