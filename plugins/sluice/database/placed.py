"""A vendor as a slave has it whose tables are elsewhere than on the master (`target` in the configuration).

Services speak of tables by the master's names. What they ask of the slave passes through here: each name on its way
there becomes the slave's, each name that comes back the master's, in whatever value it stands. So nothing above knows
where a slave has its tables, and nothing below knows that a master calls them otherwise.

A `PlacedName` says both names to people.
"""

from collections.abc import Callable, Iterator, Mapping, Set, ValuesView
from dataclasses import fields, is_dataclass, replace
from types import FunctionType, MethodType
from typing import Any, Protocol, TypeVar, cast

from sluice.configuration.placement import Placement
from sluice.database.following import with_parent
from sluice.database.registry import vendor_of
from sluice.database.schema import Constraint, DomainCheck, FreeSequence
from sluice.database.vendor import Vendor
from sluice.errors import SluiceError
from sluice.model.connection import ConnectionInfo
from sluice.model.defined import BESIDE_TABLES, Defined, DefinedKind
from sluice.model.names import TableName
from sluice.model.views import View

T = TypeVar("T")
Names = Callable[[TableName], TableName]

OF_TABLES = frozenset({"applying", "digests", "following", "load_target", "preflight", "rows", "schemas", "selection"})
"""The parts of a vendor that are told of a slave's tables."""
INNER = frozenset({"Merger", "Stager", "alterer", "key_order", "replayer", "table", "targets"})
"""What of these parts gives another part, and no value."""
BESIDE = frozenset({"present_beside"})
"""What is about views and sequences: they are called on a slave as on the master, and lie beside its tables."""


class Slave(Protocol):
    """Who asks something of a slave."""

    @property
    def slave_info(self) -> ConnectionInfo: ...

    @property
    def placement(self) -> Placement: ...


def vendor_at(slave: Slave) -> Vendor:
    """The vendor of a slave, which takes and gives the master's names of tables."""
    return placed(vendor_of(slave.slave_info.vendor), slave.placement)


def placed(vendor: Vendor, placement: Placement) -> Vendor:
    """The same for any vendor and placement; `vendor` itself where the slave has its tables as the master has them."""
    return cast(Vendor, _PlacedVendor(vendor, placement)) if placement else vendor


class _PlacedVendor:
    def __init__(self, vendor: Vendor, placement: Placement):
        self._vendor = vendor
        self._placement = placement

    def __getattr__(self, name: str) -> object:
        found = getattr(self._vendor, name)
        return _Part(found, self._placement) if name in OF_TABLES else found


class _Part:
    """A part of a vendor. It lives in one process."""

    def __init__(self, part: object, placement: Placement):
        self._part = part
        self._placement = placement

    def __getattr__(self, name: str) -> object:
        found = getattr(self._part, name)
        if callable(found):
            return lambda *given, **named: self._called(name, found, given, named)
        return self._given_back(name, found)

    def __getitem__(self, key: object) -> object:
        return self._called("__getitem__", getattr(self._part, "__getitem__"), (key,), {})  # noqa: B009

    def _called(
        self, name: str, method: Callable[..., object], given: tuple[object, ...], named: Mapping[str, object]
    ) -> object:
        there = self._placement.there if name not in BESIDE else _as_it_is
        try:
            found = method(
                *(self._renamed(value, there) for value in given),
                **{label: self._renamed(value, there) for label, value in named.items()},
            )
        except SluiceError as error:
            for label, value in vars(error).items():
                setattr(error, label, self._renamed(value, self._placement.here))
            raise
        return self._given_back(name, found)

    def _given_back(self, name: str, found: object) -> object:
        return _Part(found, self._placement) if name in INNER else self._renamed(found, self._placement.here)

    def _renamed(self, value: T, names: Names) -> T:
        """`value` with other names of tables."""
        return cast(T, self._any(value, names))

    def _any(self, value: Any, names: Names) -> object:
        if value is None or isinstance(value, str | bytes | memoryview | int | float):
            return value
        if isinstance(value, TableName):
            return names(value)
        if isinstance(value, _Part):
            return value._part
        if isinstance(value, Mapping):
            return {self._any(key, names): self._of_key(key, each, names) for key, each in value.items()}
        if isinstance(value, tuple):
            if len(value) == 3 and isinstance(value[0], DefinedKind):  # a `Place`
                return value if _stays(value[0]) else (value[0], names(value[1]), value[2])
            return type(value)(self._any(each, names) for each in value)
        if isinstance(value, list | ValuesView):
            return [self._any(each, names) for each in value]
        if isinstance(value, Set):
            return {self._any(each, names) for each in value}
        if isinstance(value, Iterator):
            return (self._any(each, names) for each in value)
        if isinstance(value, FunctionType | MethodType):
            back = self._placement.here if names == self._placement.there else self._placement.there
            return lambda *given: self._any(value(*(self._any(each, back) for each in given)), names)
        if is_dataclass(value) and not isinstance(value, type):
            return self._of_fields(value, names)
        return value

    def _of_key(self, key: Any, value: Any, names: Names) -> object:
        """A value of a mapping, such as the definition of what has a place on the slave."""
        if isinstance(key, tuple) and key and key[0] is DefinedKind.FOREIGN_KEYS and value is not None:
            return with_parent(value, names)
        return self._any(value, names)

    def _of_fields(self, value: Any, names: Names) -> object:
        if isinstance(value, View | FreeSequence | DomainCheck) or (isinstance(value, Defined) and _stays(value.kind)):
            return value
        fields_of = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        changed = {label: self._any(was, names) for label, was in fields_of.items()}
        changed = {label: now for label, now in changed.items() if now is not fields_of[label]}
        if isinstance(value, Constraint) and value.parent_name is not None:
            parent = names(value.parent)
            changed |= {"parent_schema": parent.schema, "parent_name": parent.name}
        return replace(value, **changed) if changed else value


def _as_it_is(name: TableName) -> TableName:
    return name


def _stays(kind: DefinedKind) -> bool:
    """Whether what is of this kind has the master's name on every slave."""
    return kind is DefinedKind.DOMAINS or kind in BESIDE_TABLES
