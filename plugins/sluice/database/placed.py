"""Wraps the vendor of a slave whose tables have other names than on the master (`target` in the configuration).

Services use the master's names of tables. This wrapper translates the names in all arguments to the slave's, and in all
results to the master's, inside any value. So services do not know where a slave has its tables, and vendors do not know
the master's names.

Parts of a vendor that take and return names of tables are those whose protocols derive from `NamesTables`; a property
or method that is declared to return such a part returns it wrapped as well. Explicit wrappers of all protocols would be
100 methods that only forward, and mypy would not notice a forgotten name. Here a new method needs nothing;
`tests/unit/test_placed.py` reads all signatures, and fails for a part with names of tables that does not derive from
`NamesTables`, and for a type whose names are not translated.

Messages for people have both names (`PlacedName`).
"""

from collections.abc import Callable, Iterator, Mapping, Set, ValuesView
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from types import FunctionType, MethodType
from typing import TypeVar, cast, get_type_hints

from sluice.configuration.placement import Placement
from sluice.database.names_tables import NamesTables
from sluice.database.registry import vendor_of
from sluice.database.schema import FreeSequence
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
    """`vendor` with the master's names of tables; `vendor` itself where the slave has the same names."""
    return cast(Target, _PlacedVendor(vendor, placement)) if placement else vendor


class _PlacedVendor:
    def __init__(self, vendor: Target, placement: Placement):
        self._vendor = vendor
        self._to_slave = _Renaming(placement.slave_name, placement.master_name)

    def __getattr__(self, name: str) -> object:
        member, part = getattr(self._vendor, name), part_given(Target, name)
        return member if part is None else _PlacedPart(member, part, self._to_slave)


class _PlacedPart:
    """A wrapped part of a vendor. It cannot be sent to another process."""

    def __init__(self, part: object, protocol: type, to_slave: "_Renaming"):
        self._part = part
        self._protocol = protocol
        self._to_slave = to_slave

    def __getattr__(self, name: str) -> object:
        member = getattr(self._part, name)
        if callable(member):
            return lambda *given, **named: self._called(name, member, given, named)
        return self._given_back(name, member)

    def __getitem__(self, key: object) -> object:
        return self._called("__getitem__", getattr(self._part, "__getitem__"), (key,), {})  # noqa: B009

    def _called(
        self, name: str, method: Callable[..., object], given: tuple[object, ...], named: Mapping[str, object]
    ) -> object:
        renamed = self._to_slave.renamed
        try:
            result = method(*map(renamed, given), **{label: renamed(value) for label, value in named.items()})
        except SluiceError as error:
            self._given_back(name, error)
            raise
        return self._given_back(name, result)

    def _given_back(self, name: str, result: object) -> object:
        back = self._to_slave.back
        if isinstance(result, SluiceError):
            for label, value in vars(result).items():
                setattr(result, label, back.renamed(value))
            return result
        part = part_given(self._protocol, name)
        return back.renamed(result) if part is None else _PlacedPart(result, part, self._to_slave)


@cache
def part_given(protocol: type, name: str) -> type | None:
    """The protocol of the part that this property or method returns; None where it returns a value."""
    member = getattr(protocol, name)
    given = get_type_hints(member.fget if isinstance(member, property) else member).get("return")
    return given if isinstance(given, type) and NamesTables in given.__mro__ else None


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
        if isinstance(value, _PlacedPart):
            return value._part
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
        if is_dataclass(value) and not isinstance(value, type) and not _stays(value):
            was = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
            now = {label: self._renamed(each) for label, each in was.items()}
            changed = {label: each for label, each in now.items() if each is not was[label]}
            return replace(value, **changed) if changed else value
        return value


def _stays(value: object) -> bool:
    """Whether the object has the master's name on every slave."""
    return isinstance(value, View | FreeSequence) or (isinstance(value, Defined) and not value.of_table)
