"""A vendor whose parts take and give the master's names of tables, for a slave where tables have other names (`target`
in the configuration).

Services use the master's names. Each class here lists the methods of one part; a listed method translates names of
tables in its arguments to the slave's, and those in its result or error to the master's. So services do not know where
a slave has its tables, and vendors do not know the master's names. mypy refuses a class that leaves out a method of its
protocol.

Names inside dataclasses are translated field by field, so that a new field needs nothing;
`tests/unit/test_placed.py` fails for a type whose names are not translated. Messages have both names (`PlacedName`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Set, ValuesView
from dataclasses import dataclass, fields, is_dataclass, replace
from types import FunctionType, MethodType
from typing import Concatenate, Generic, ParamSpec, TypeVar, cast

from sluice.configuration.placement import Placement
from sluice.database.accounts import Accounts
from sluice.database.apply import Alterer, ApplyTarget, Merger, Replayer, Stager, TablesOnSlave
from sluice.database.broadcasts import Queries
from sluice.database.column_types import ColumnTypes
from sluice.database.control import LoadLocks, OwnTables
from sluice.database.digests import Compared, Digester, TableDigest
from sluice.database.following import Following
from sluice.database.load import LoadTarget
from sluice.database.preflight import Preflight
from sluice.database.registry import vendor_of
from sluice.database.rows import KeyOrder, Rows, RowSelection
from sluice.database.schema import FreeSequence, Schemas
from sluice.database.session import Session, Sessions
from sluice.database.vendor import Target
from sluice.errors import SluiceError
from sluice.model.connection import ConnectionInfo
from sluice.model.defined import Defined, DefinedKind
from sluice.model.names import Prefix, TableName
from sluice.model.shape import TableShape
from sluice.model.views import View
from sluice.pair import OfSlave

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")
Names = Callable[[TableName], TableName]


def vendor_at(slave: OfSlave) -> Target:
    """The vendor of a slave, with the master's names of tables."""
    return placed(vendor_of(slave.slave_info.vendor), slave.placement)


def placed(vendor: Target, placement: Placement) -> Target:
    """`vendor` with the master's names of tables; `vendor` itself if the slave has the same names."""
    return _Target(vendor, _Renaming(placement.slave_name, placement.master_name)) if placement else vendor


@dataclass(frozen=True)
class _Renaming:
    """Renames the tables in values."""

    name: Names
    name_back: Names

    @property
    def back(self) -> "_Renaming":
        return _Renaming(self.name_back, self.name)

    def renamed(self, value: T) -> T:
        return cast(T, self._renamed(value))

    def _renamed(self, value: object) -> object:
        if value is None or isinstance(value, str | bytes | memoryview | int | float):
            return value
        if isinstance(value, TableName):
            return self.name(value)
        if isinstance(value, _Part):
            return value.part
        if isinstance(value, Mapping):
            return {self._renamed(key): self._renamed(each) for key, each in value.items()}
        if isinstance(value, tuple):
            return type(value)(self._renamed(each) for each in value)
        if isinstance(value, list | ValuesView):
            return [self._renamed(each) for each in value]
        if isinstance(value, Set):
            return {self._renamed(each) for each in value}
        if isinstance(value, Iterator):
            return (self._renamed(each) for each in value)
        if isinstance(value, FunctionType | MethodType):
            return lambda *given: self._renamed(value(*map(self.back.renamed, given)))
        if isinstance(value, SluiceError):
            vars(value).update({label: self._renamed(each) for label, each in vars(value).items()})
            return value
        if is_dataclass(value) and not isinstance(value, type) and not _stays(value):
            was = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
            now = {label: self._renamed(each) for label, each in was.items()}
            changed = {label: each for label, each in now.items() if each is not was[label]}
            return replace(value, **changed) if changed else value
        return value


def _stays(value: object) -> bool:
    """Whether the object has the master's name on every slave."""
    return isinstance(value, View | FreeSequence) or (isinstance(value, Defined) and not value.of_table)


class _Part(Generic[T]):
    """A wrapped part of a vendor. It cannot be sent to another process."""

    def __init__(self, part: T, names: _Renaming):
        self.part = part
        self.names = names


def _translated(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """`method` of a part, with the master's names."""
    return _giving(lambda result, names: names.back.renamed(result), method)


def _giving(
    result_of: Callable[[T, _Renaming], T], method: Callable[Concatenate[S, P], T]
) -> Callable[Concatenate[S, P], T]:
    """`method` with the master's names, and what `result_of` makes of its result: another part, wrapped as well."""

    def call(self: S, /, *given: P.args, **named: P.kwargs) -> T:
        part, names = cast(_Part[S], self).part, cast(_Part[S], self).names
        renamed = {label: names.renamed(value) for label, value in named.items()}
        try:
            result: T = getattr(part, method.__name__)(*map(names.renamed, given), **renamed)
        except SluiceError as error:
            names.back.renamed(error)
            raise
        return result_of(result, names)

    return call


class _TablesOnSlave(_Part[TablesOnSlave], TablesOnSlave):
    __getitem__ = _translated(TablesOnSlave.__getitem__)
    hides = _translated(TablesOnSlave.hides)
    foreign_keys = _translated(TablesOnSlave.foreign_keys)
    connected = _translated(TablesOnSlave.connected)
    forget = _translated(TablesOnSlave.forget)


class _Replayer(_Part[Replayer], Replayer):
    replay = _translated(Replayer.replay)
    missing = _translated(Replayer.missing)


class _Alterer(_Part[Alterer], Alterer):
    prepare = _translated(Alterer.prepare)
    apply = _translated(Alterer.apply)
    will_drop = _translated(Alterer.will_drop)
    attempt = _translated(Alterer.attempt)
    release = _translated(Alterer.release)
    rename_labels = _translated(Alterer.rename_labels)
    complete_columns = _translated(Alterer.complete_columns)
    truncate = _translated(Alterer.truncate)
    delete_where = _translated(Alterer.delete_where)
    keys = _translated(Alterer.keys)
    delete = _translated(Alterer.delete)


class _Merger(_Part[Merger], Merger):
    begin = _translated(Merger.begin)
    merge = _translated(Merger.merge)
    replayer = _giving(_Replayer, Merger.replayer)
    alterer = _giving(_Alterer, Merger.alterer)

    @property
    def cascades(self) -> bool:
        return self.part.cascades

    @property
    def targets(self) -> TablesOnSlave:
        return _TablesOnSlave(self.part.targets, self.names)


class _Stager(_Part[Stager], Stager):
    load = _translated(Stager.load)
    put = _translated(Stager.put)


class _ApplyTarget(_Part[ApplyTarget], ApplyTarget):
    Merger = _giving(_Merger, ApplyTarget.Merger)
    Stager = _giving(_Stager, ApplyTarget.Stager)
    drop_stages = _translated(ApplyTarget.drop_stages)
    at_commit = _translated(ApplyTarget.at_commit)
    row_stays = _translated(ApplyTarget.row_stays)
    acting = _translated(ApplyTarget.acting)
    filled = _translated(ApplyTarget.filled)


class _TableDigest(_Part[TableDigest], TableDigest):
    parts = _translated(TableDigest.parts)
    of_blocks = _translated(TableDigest.of_blocks)
    of_rows = _translated(TableDigest.of_rows)
    copies = _translated(TableDigest.copies)
    rows_of_keys = _translated(TableDigest.rows_of_keys)
    converted = _translated(TableDigest.converted)
    drawn = _translated(TableDigest.drawn)

    @property
    def shape(self) -> TableShape:
        return self.names.back.renamed(self.part.shape)

    @property
    def columns(self) -> tuple[Compared, ...]:
        return self.names.back.renamed(self.part.columns)

    @property
    def bounds(self) -> tuple[str, ...]:
        return self.part.bounds


class _Digester(_Part[Digester], Digester):
    table = _giving(_TableDigest, Digester.table)
    hold = _translated(Digester.hold)
    encoding = _translated(Digester.encoding)
    probe = _translated(Digester.probe)
    ranged = _translated(Digester.ranged)
    bounds = _translated(Digester.bounds)


class _Following(_Part[Following], Following):
    present = _translated(Following.present)
    present_beside = _translated(Following.present_beside)
    make = _translated(Following.make)
    drop = _translated(Following.drop)
    drop_at_once = _translated(Following.drop_at_once)
    rename = _translated(Following.rename)
    statement = _translated(Following.statement)
    drop_statement = _translated(Following.drop_statement)

    @property
    def kinds(self) -> Collection[DefinedKind]:
        return self.part.kinds


class _LoadTarget(_Part[LoadTarget], LoadTarget):
    refusals = _translated(LoadTarget.refusals)
    not_tables = _translated(LoadTarget.not_tables)
    missing_privileges = _translated(LoadTarget.missing_privileges)
    foreign_keys = _translated(LoadTarget.foreign_keys)
    with_unique_values = _translated(LoadTarget.with_unique_values)
    type_differences = _translated(LoadTarget.type_differences)
    type_extensions = _translated(LoadTarget.type_extensions)
    missing_collations = _translated(LoadTarget.missing_collations)
    create_types = _translated(LoadTarget.create_types)
    extend_types = _translated(LoadTarget.extend_types)
    create_table = _translated(LoadTarget.create_table)
    create_scratch = _translated(LoadTarget.create_scratch)
    drop_table = _translated(LoadTarget.drop_table)
    strip = _translated(LoadTarget.strip)
    empty = _translated(LoadTarget.empty)
    formats = _translated(LoadTarget.formats)
    write = _translated(LoadTarget.write)
    clear = _translated(LoadTarget.clear)
    delete = _translated(LoadTarget.delete)
    analyze = _translated(LoadTarget.analyze)
    complete_indexes = _translated(LoadTarget.complete_indexes)
    complete_constraints = _translated(LoadTarget.complete_constraints)
    complete_columns = _translated(LoadTarget.complete_columns)
    advance_sequences = _translated(LoadTarget.advance_sequences)


class _Preflight(_Part[Preflight], Preflight):
    of_slave = _translated(Preflight.of_slave)
    of_refusal = _translated(Preflight.of_refusal)
    sequences_of_slave = _translated(Preflight.sequences_of_slave)


class _KeyOrder(_Part[KeyOrder], KeyOrder):
    within = _translated(KeyOrder.within)
    next_bound = _translated(KeyOrder.next_bound)

    @property
    def shape(self) -> TableShape:
        return self.names.back.renamed(self.part.shape)

    @property
    def same_everywhere(self) -> bool:
        return self.part.same_everywhere

    @property
    def equal(self) -> tuple[str, ...]:
        return self.part.equal

    @property
    def source(self) -> str:
        return self.part.source

    @property
    def by(self) -> str:
        return self.part.by


class _Rows(_Part[Rows], Rows):
    shapes = _translated(Rows.shapes)
    shape = _translated(Rows.shape)
    tables = _translated(Rows.tables)
    estimates = _translated(Rows.estimates)
    key_order = _giving(_KeyOrder, Rows.key_order)
    begin_snapshot = _translated(Rows.begin_snapshot)
    export_snapshot = _translated(Rows.export_snapshot)
    rows_under = _translated(Rows.rows_under)
    copies = _translated(Rows.copies)
    whole = _translated(Rows.whole)


class _Schemas(_Part[Schemas], Schemas):
    domain_checks = _translated(Schemas.domain_checks)
    lacking = _translated(Schemas.lacking)
    surplus = _translated(Schemas.surplus)
    missing_domain_checks = _translated(Schemas.missing_domain_checks)


class _RowSelection(_Part[RowSelection], RowSelection):
    check = _translated(RowSelection.check)
    matching = _translated(RowSelection.matching)


class _Target(Target):
    """The parts that name tables are wrapped, the others are the vendor's."""

    def __init__(self, vendor: Target, names: "_Renaming"):
        self.vendor = vendor
        self.names = names

    @property
    def sessions(self) -> Sessions:
        return self.vendor.sessions

    @property
    def types(self) -> ColumnTypes:
        return self.vendor.types

    @property
    def load_locks(self) -> LoadLocks:
        return self.vendor.load_locks

    @property
    def queries(self) -> Queries:
        return self.vendor.queries

    @property
    def accounts(self) -> Accounts:
        return self.vendor.accounts

    @property
    def applying(self) -> ApplyTarget:
        return _ApplyTarget(self.vendor.applying, self.names)

    @property
    def following(self) -> Following:
        return _Following(self.vendor.following, self.names)

    @property
    def digests(self) -> Digester:
        return _Digester(self.vendor.digests, self.names)

    @property
    def rows(self) -> Rows:
        return _Rows(self.vendor.rows, self.names)

    @property
    def schemas(self) -> Schemas:
        return _Schemas(self.vendor.schemas, self.names)

    @property
    def selection(self) -> RowSelection:
        return _RowSelection(self.vendor.selection, self.names)

    @property
    def load_target(self) -> LoadTarget:
        return _LoadTarget(self.vendor.load_target, self.names)

    @property
    def preflight(self) -> Preflight:
        return _Preflight(self.vendor.preflight, self.names)

    def own_tables(self, connection: Session, prefix: Prefix, schema: str, slave: str) -> OwnTables:
        return self.vendor.own_tables(connection, prefix, schema, slave)

    def located(self, url: str | None) -> ConnectionInfo:
        return self.vendor.located(url)
