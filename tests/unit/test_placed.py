"""A slave with tables elsewhere: names of tables are renamed in all arguments and results of a vendor's parts."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import fields, is_dataclass, replace
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import pyarrow as pa
import pytest

from sluice.apply.window_runs import CutItem
from sluice.configuration.model import Replication
from sluice.configuration.placement import Placement
from sluice.database import placed
from sluice.database.apply import DefinitionChange, DisplacedRow
from sluice.database.conflicts import ChangeRefused, Drift
from sluice.database.following import by_id
from sluice.database.rows import BlockRead
from sluice.database.schema import Constraint, DomainCheck, FreeSequence
from sluice.database.session import Session
from sluice.database.vendor import Target
from sluice.model.change import Action, RowChange
from sluice.model.defined import Defined, DefinedKind
from sluice.model.names import NameOfSlave, PlacedName, TableName
from sluice.model.shape import TableShape
from sluice.model.views import View

PEOPLE, ORDERS, OTHER = TableName("public", "people"), TableName("public", "orders"), TableName("a", "b")
THERE = TableName('Shop "x"', "select")
PLACEMENT = Placement.of_tables({PEOPLE: THERE, ORDERS: PEOPLE})  # one has the other's name
CHANGE = RowChange(1, PEOPLE, Action.UPDATE, ("id",), {"id": "1"}, {"id": "1"}, None, None)
NO_SESSION = cast(Session, None)


class Recorded:
    """A vendor whose parts return prepared values, and record their arguments."""

    def __init__(self, given: object = None, error: Exception | None = None):
        self.got: list[object] = []
        self._given, self._error = given, error

    def __getattr__(self, name: str) -> Any:
        return self if name in ("applying", "following", "load_target", "rows", "schemas", "sessions") else self._called

    def _called(self, *got: object, **named: object) -> object:
        self.got += [*got, *named.values()]
        if self._error is not None:
            raise self._error
        return self._given

    @property
    def placed(self) -> Target:
        return placed.placed(cast(Target, self), PLACEMENT)


def foreign_key(table: TableName, parent: TableName, *, validated: bool = True) -> Constraint:
    return Constraint(table, "k", "f", validated, None, ["p"], parent, ["id"], "s", True, False)


def test_names_go_there_and_come_back_in_values_of_every_kind() -> None:
    vendor = Recorded({THERE: TableShape(THERE, (), ()), PEOPLE: TableShape(PEOPLE, (), ())})
    shapes = vendor.placed.rows.shapes(NO_SESSION, (each for each in [PEOPLE, ORDERS, OTHER]))
    assert list(cast(Iterator[TableName], vendor.got[1])) == [THERE, PEOPLE, OTHER]
    assert shapes == {PEOPLE: TableShape(PEOPLE, (), ()), ORDERS: TableShape(ORDERS, (), ())}


def test_a_row_whose_table_is_elsewhere_is_displaced_there_and_known_by_the_masters_name() -> None:
    there = replace(CHANGE, table=THERE)
    part = Recorded()
    part._given = part
    replayer = part.placed.applying.Merger(NO_SESSION, cascades=False).replayer()
    part._given = [DisplacedRow(there, ("1",))]
    assert replayer.missing([DisplacedRow(CHANGE, ("1",))]) == [DisplacedRow(CHANGE, ("1",))]
    (given,) = cast(list[DisplacedRow], part.got[-1])
    assert given.table == THERE and str(given.table) == 'public.people ("Shop ""x""".select on the slave)'


def test_a_foreign_key_of_a_slave_says_what_the_masters_says() -> None:
    there = [foreign_key(PEOPLE, THERE), replace(foreign_key(THERE, OTHER, validated=False), name="begun")]
    found = by_id(Recorded(there).placed.following.present(NO_SESSION, [ORDERS]))
    same = by_id([foreign_key(ORDERS, PEOPLE), replace(foreign_key(PEOPLE, OTHER, validated=False), name="begun")])
    assert found == same and None in same.values() and len(same) == 2


@pytest.mark.parametrize(
    "value",
    [
        View(PEOPLE, (), (), (), "SELECT", (ORDERS,)),
        FreeSequence(PEOPLE, "bigint", 1, 1, 1, 9, 1, False, None, True, "people"),
        DomainCheck("public", "people", "c", "CHECK (VALUE > 0)"),
        *(Defined(kind, PEOPLE, "", "") for kind in (DefinedKind.VIEWS, DefinedKind.SEQUENCES, DefinedKind.DOMAINS)),
    ],
)
def test_definitions_beside_tables_have_the_masters_names(value: object) -> None:
    vendor = Recorded([value])
    assert vendor.placed.following.present_beside(NO_SESSION, cast(Any, None), ["public"]) == [value]
    vendor.placed.following.drop(NO_SESSION, cast(Any, value))
    assert vendor.got[-1] is value
    vendor.placed.following.drop(NO_SESSION, Defined(DefinedKind.CHECKS, PEOPLE, "c", ""))
    assert vendor.got[-1] == Defined(DefinedKind.CHECKS, THERE, "c", "")


def test_an_error_names_both_and_is_known_by_the_masters_name() -> None:
    there = PLACEMENT.slave_name(PEOPLE)
    vendor = Recorded(error=Drift(there, {"id": "1"}, "UPDATE", "one row", "none"))
    with pytest.raises(Drift, match=r'public.people \("Shop ""x""".select on the slave\), row id') as raised:
        vendor.placed.load_target.analyze(NO_SESSION, PEOPLE)
    assert raised.value.table == PEOPLE and not isinstance(raised.value.table, PlacedName)
    # Also one that is given, for the caller to raise.
    given = Recorded(ChangeRefused(replace(CHANGE, table=there), "no")).placed.applying.row_stays(CHANGE, "no")
    assert isinstance(given, ChangeRefused) and (given.table, given.change) == (PEOPLE, CHANGE)


def test_a_function_that_is_handed_over_hears_the_masters_names() -> None:
    vendor, heard = Recorded(), list[TableName]()
    vendor.placed.applying.at_commit(None, lambda table: bool(heard.append(table)))
    hides = cast(Callable[[TableName], bool], vendor.got[-1])
    assert hides(THERE) is False and hides(PEOPLE) is False and heard == [PEOPLE, ORDERS]
    own = PLACEMENT.master_name(ORDERS)
    assert isinstance(own, NameOfSlave), "the slave's table of that name is no table of the master's"


def test_without_other_places_the_vendor_is_unchanged() -> None:
    vendor = cast(Target, Recorded())
    assert placed.placed(vendor, Placement()) is vendor
    assert placed.placed(vendor, PLACEMENT).sessions is vendor.sessions, "a part that names no tables"


PASSED_ON = {
    DefinitionChange: "a `CutItem`, which is a dataclass",
    AbstractContextManager[BlockRead]: "of a master: blocks are read there",
    Replication: "the configuration, whose patterns are texts",
    object: "of a merge; nobody looks at it",
}
CONTAINERS = (tuple, Mapping, list, Set, Iterator, Iterable, Collection, Sequence)


WRAPPED = {part.__bases__[1] for part in placed._Part.__subclasses__()}
"""The protocols of the parts whose names of tables are translated."""
OF_MASTERS_ALONE = {"accounts"}
"""Parts of a vendor that are asked of masters alone."""
WITH_OWN_NAMES = {"load_locks", "own_tables", "queries", "sessions"}
"""Those that name no tables but Sluice's own."""


def members(protocol: type) -> list[str]:
    return [name for name in dir(protocol) if not name.startswith("_") or name == "__getitem__"]


def hints(protocol: type, name: str) -> dict[str, Any]:
    member = getattr(protocol, name)
    return hinted(member.fget if isinstance(member, property) else member)


def hinted(what: Any) -> dict[str, Any]:
    return get_type_hints(what, localns={"pa": pa})  # which some modules import for mypy alone


def names_tables(kind: Any, seen: frozenset[object] = frozenset()) -> bool:
    """Whether a value of this type, or one of its results, may contain names of tables."""
    if kind in seen:
        return False
    if isinstance(kind, type) and issubclass(kind, TableName):
        return True
    seen |= {kind}
    inside = [part for each in get_args(kind) for part in (each if isinstance(each, list) else [each])]
    if isinstance(kind, type) and (kind.__module__.startswith("sluice.") or kind is Hiding):
        inside += hinted(kind).values()
        for name in members(kind):
            if isinstance(getattr(kind, name), property) or getattr(kind, "_is_protocol", False):
                inside += hints(kind, name).values()
    return any(names_tables(each, seen) for each in inside)


def hidden(kind: Any, seen: frozenset[object] = frozenset()) -> Iterator[object]:
    """The types in `kind` whose values may contain names of tables that are not renamed."""
    origin, inside = get_origin(kind), get_args(kind)
    if kind in seen or kind in PASSED_ON:
        return
    if origin in (Union, UnionType, Callable) or (isinstance(origin, type) and issubclass(origin, CONTAINERS)):
        for each in inside:
            for part in each if isinstance(each, list) else [each]:
                yield from hidden(part, seen | {kind})
    elif is_dataclass(kind) and not issubclass(cast(type, kind), TableName):
        for one in fields(kind):
            yield from hidden(hinted(kind)[one.name], seen | {kind}) if one.init else ()
    elif isinstance(kind, type) and (issubclass(kind, TableName) or kind in WRAPPED):
        return
    elif kind is Any or names_tables(kind):
        yield kind


def test_names_of_tables_are_renamed_in_every_type_that_a_part_takes_or_gives() -> None:
    missed = [
        f"{part.__name__}.{name}: {label} may hold names in {each}"
        for part in WRAPPED
        for name in members(part)
        for label, kind in hints(part, name).items()
        for each in hidden(kind)
    ]
    assert not missed, "\n".join(missed)
    assert is_dataclass(CutItem) and not list(hidden(CutItem))


def test_each_part_that_names_tables_is_wrapped() -> None:
    given = {name: hints(Target, name)["return"] for name in members(Target)}
    silent = {name for name, part in given.items() if part not in WRAPPED and names_tables(part)}
    assert silent <= OF_MASTERS_ALONE | WITH_OWN_NAMES, "wrap it, or say here why not"


def test_a_part_gives_other_parts_wrapped() -> None:
    for wrapper in placed._Part.__subclasses__():
        for name in members(wrapper.__bases__[1]):
            if hints(wrapper.__bases__[1], name)["return"] in WRAPPED:
                given = getattr(
                    wrapper(Recorded(), placed._Renaming(PLACEMENT.slave_name, PLACEMENT.master_name)), name
                )
                assert isinstance(given() if callable(given) else given, placed._Part), f"{wrapper.__name__}.{name}"


class Hiding:
    table: TableName


def test_a_type_that_hides_names_is_found() -> None:
    assert list(hidden(dict[str, tuple[Hiding | None, ...]])) == [Hiding] and list(hidden(Any)) == [Any]
