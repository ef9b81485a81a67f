"""A vendor whose parts take and give the master's names of tables, for a slave where tables have other names (`target`
in the configuration).

Services use the master's names. `_Placed` stands for each part of a vendor that names tables: it translates names of
tables in arguments to the slave's, and those in results, properties and errors to the master's. So services do not know
where a slave has its tables, and vendors do not know the master's names.

Names inside dataclasses are translated field by field, so that a new field needs nothing;
`tests/unit/test_placed.py` fails for a type whose names are not translated. Messages have both names (`PlacedName`).
"""

from collections.abc import Callable, Iterator, Mapping, Set, ValuesView
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from types import FunctionType, MethodType
from typing import Any, TypeVar, cast

from sluice.configuration.placement import Placement
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

GIVES_PARTS = frozenset({
    "applying", "following", "digests", "rows", "schemas", "selection", "load_target", "preflight",
    "Merger", "Stager", "replayer", "alterer", "targets", "table", "key_order",
})  # fmt: skip
"""Members of a vendor and its parts whose value, or result, is a part that names tables."""


def vendor_at(slave: OfSlave) -> Target:
    """The vendor of a slave, with the master's names of tables."""
    return placed(vendor_of(slave.slave_info.vendor), slave.placement)


def placed(vendor: Target, placement: Placement) -> Target:
    """`vendor` with the master's names of tables; `vendor` itself if the slave has the same names."""
    names = _Renaming(placement.slave_name, placement.master_name)
    return cast(Target, _Placed(vendor, names)) if placement else vendor


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
        if isinstance(value, _Placed):
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


class _Placed:
    """A vendor, or a part of one. It cannot be sent to another process."""

    def __init__(self, part: object, names: _Renaming):
        self.part = part
        self.names = names

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        member = getattr(self.part, name)
        return partial(self._call, member, name) if callable(member) else self._given(member, name)

    def __getitem__(self, key: object) -> object:
        return self._call(cast(Any, self.part).__getitem__, "__getitem__", key)

    def _call(self, method: Callable[..., object], name: str, /, *given: object, **named: object) -> object:
        renamed = {label: self.names.renamed(value) for label, value in named.items()}
        try:
            result = method(*map(self.names.renamed, given), **renamed)
        except SluiceError as error:
            self.names.back.renamed(error)
            raise
        return self._given(result, name)

    def _given(self, value: object, name: str) -> object:
        return _Placed(value, self.names) if name in GIVES_PARTS else self.names.back.renamed(value)
