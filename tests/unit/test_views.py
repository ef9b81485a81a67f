"""Which views of a master follow, and in which order."""

from sluice.model.defined import Defined, DefinedKind, Drop, Forget, Know, Make, SetAgain, Taken, outdated, steps
from sluice.model.names import TableName
from sluice.model.views import View, replicated

T, U = TableName("public", "t"), TableName("public", "u")


def view(name: str, *reads: str | TableName, types: str = "integer") -> View:
    found = tuple(TableName("public", one) if isinstance(one, str) else one for one in reads)
    return View(TableName("public", name), ("a",), (types,), (), "SELECT a", found)


def test_views_follow_that_read_replicated_tables_alone_each_after_what_it_reads() -> None:
    found = replicated(
        [view("c", "b", T), view("b", "a"), view("a", T), view("other", U), view("above", "other", "a"), view("none")],
        [T],
    )
    names = [one.name.name for one in found]
    assert set(names) == {"a", "b", "c", "none"} and names.index("a") < names.index("b") < names.index("c")
    by_name = {one.name.name: one for one in found}
    assert [one.name.name for one in by_name["a"].readers] == ["b", "c"] and by_name["c"].readers == ()
    assert by_name["c"].tables == {T} and by_name["none"].tables == frozenset()


def test_views_that_read_each_other_in_a_circle_do_not_follow() -> None:
    assert replicated([view("a", "b"), view("b", "a")], [T]) == []


def of(kind: DefinedKind, name: str, definition: str = "1", *, making: bool = False) -> Defined:
    return Defined(kind, TableName("public", name), "", definition, making)


def test_views_and_sequences_are_replaced_in_place_and_what_the_slave_has_of_its_own_stays() -> None:
    for kind in (DefinedKind.VIEWS, DefinedKind.SEQUENCES):
        old, new = of(kind, "v", "1"), of(kind, "v", "2")
        begun = of(kind, "v", "2", making=True)
        about = [old.table]
        assert steps([old], {}, [], about) == [Make(old)]
        assert steps([old], {}, [], about, set_again=about) == [Make(old)], "no load brings it"
        assert steps([old], {old.id: "1"}, [], about) == [Know(old)]
        assert steps([new], {old.id: "1"}, [], about) == [Taken(new)]
        assert steps([new], {old.id: "1"}, [old], about) == [Make(new)]
        assert steps([new], {old.id: "1"}, [begun], about) == [Make(new)], "killed before it was replaced"
        assert steps([new], {old.id: "2"}, [begun], about) == [Know(new)]
        assert steps([old], {old.id: "1"}, [old], about) == []
        assert steps([old], {}, [old], about) == [], "somebody removed it there"
        assert steps([], {old.id: "1"}, [old], about) == [Drop(old)]
        assert steps([], {}, [old], about) == [Forget(old)]


def test_after_a_load_the_values_of_sequences_are_set_again() -> None:
    one = of(DefinedKind.SEQUENCES, "s")
    assert steps([one], {one.id: "1"}, [one], [one.table], set_again=[one.table]) == [SetAgain(one)]


def test_views_go_before_those_that_they_read_and_before_tables_lose_anything() -> None:
    base, above = of(DefinedKind.VIEWS, "base"), of(DefinedKind.VIEWS, "above")
    check = Defined(DefinedKind.CHECKS, T, "c", "1")
    present = {one.id: "1" for one in (check, base, above)}
    found = steps([], present, [base, check, above], [T, base.table, above.table])
    assert found == [Drop(above), Drop(base), Drop(check)]


def test_a_view_is_outdated_where_the_masters_has_other_columns_and_a_sequence_never_is() -> None:
    old, sequence = of(DefinedKind.VIEWS, "v", "integer"), of(DefinedKind.SEQUENCES, "s")
    present = {old.id: "integer", sequence.id: "1"}
    assert outdated([of(DefinedKind.VIEWS, "v", "bigint")], present, [old, sequence]) == [old]
    assert outdated([old], present, [old, sequence]) == []
