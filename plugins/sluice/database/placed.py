"""A vendor whose parts take and give the master's names of tables, for a slave where tables have other names (`target`
in the configuration).

Services use the master's names. A wrapped part has the members of its protocol: each translates names of tables in its
arguments to the slave's, and those in its result or error to the master's. So services do not know where a slave has
its tables, and vendors do not know the master's names.

Names inside dataclasses are translated field by field, so that a new field needs nothing;
`tests/unit/test_placed.py` fails for a type whose names are not translated. Messages have both names (`PlacedName`).
"""

# mypy: disable-error-code="type-abstract"
# A protocol is given for what it lists, and is not instantiated.

from collections.abc import Callable, Iterator, Mapping, Set, ValuesView
from dataclasses import dataclass, fields, is_dataclass, replace
from types import FunctionType, MethodType
from typing import Any, TypeVar, cast

from sluice.configuration.placement import Placement
from sluice.database.apply import Alterer, ApplyTarget, Merger, Replayer, Stager, TablesOnSlave
from sluice.database.digests import Digester, TableDigest
from sluice.database.following import Following
from sluice.database.load import LoadTarget
from sluice.database.preflight import Preflight
from sluice.database.registry import vendor_of
from sluice.database.rows import KeyOrder, Rows, RowSelection
from sluice.database.schema import FreeSequence, Schemas
from sluice.database.vendor import Target
from sluice.errors import SluiceError
from sluice.model.defined import Defined
from sluice.model.names import TableName
from sluice.model.views import View
from sluice.pair import OfSlave

T = TypeVar("T")
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


class _Part:
    """A wrapped part of a vendor. It cannot be sent to another process."""

    def __init__(self, part: Any, names: _Renaming):
        self.part = part
        self.names = names


Wrapping = Callable[[Any, _Renaming], Any]
"""What a member of a wrapped part makes of its result."""


def _back(result: T, names: _Renaming) -> T:
    """The result with the master's names."""
    return names.back.renamed(result)


def _unchanged(result: T, names: _Renaming) -> T:
    """A part that names no tables but Sluice's own."""
    return result


def _wrapped(protocol: type[T], **parts: Wrapping) -> Callable[[T, _Renaming], T]:
    """The class that wraps a part, with each member of its protocol. `parts`: members that give other parts."""
    names = [name for name in dir(protocol) if not name.startswith("_") or name == "__getitem__"]
    members = {name: _member(protocol, name, parts.get(name, _back)) for name in names}
    return cast(Callable[[T, _Renaming], T], type(f"_{protocol.__name__}", (_Part, protocol), members))


def _member(protocol: type, name: str, result_of: Wrapping) -> object:
    def call(self: _Part, /, *given: object, **named: object) -> object:
        renamed = {label: self.names.renamed(value) for label, value in named.items()}
        try:
            result = getattr(self.part, name)(*map(self.names.renamed, given), **renamed)
        except SluiceError as error:
            self.names.back.renamed(error)
            raise
        return result_of(result, self.names)

    if isinstance(getattr(protocol, name), property):
        return property(lambda self: result_of(getattr(self.part, name), self.names))
    return call


_Merger = _wrapped(Merger, targets=_wrapped(TablesOnSlave), replayer=_wrapped(Replayer), alterer=_wrapped(Alterer))
_Target = _wrapped(
    Target,
    applying=_wrapped(ApplyTarget, Merger=_Merger, Stager=_wrapped(Stager)),
    following=_wrapped(Following),
    digests=_wrapped(Digester, table=_wrapped(TableDigest)),
    rows=_wrapped(Rows, key_order=_wrapped(KeyOrder)),
    schemas=_wrapped(Schemas),
    selection=_wrapped(RowSelection),
    load_target=_wrapped(LoadTarget),
    preflight=_wrapped(Preflight),
    sessions=_unchanged,
    types=_unchanged,
    load_locks=_unchanged,
    queries=_unchanged,
    accounts=_unchanged,
    own_tables=_unchanged,
    located=_unchanged,
)
