"""How a slave gets the master's definitions beyond columns: `sluice.model.defined`."""

from hypothesis import given
from hypothesis import strategies as st

from sluice.model.defined import Defined, DefinedKind, Drop, Forget, Know, Make, ObjectId, Rename, Step, outdated, steps
from sluice.model.names import TableName

T = TableName("public", "t")
OTHER = TableName("public", "other")


def index(name: str, definition: str = "(n)", *, making: bool = False, table: TableName = T) -> Defined:
    return Defined(DefinedKind.INDEXES, table, name, definition, making)


def check(name: str, definition: str = "CHECK (n > 0)") -> Defined:
    return Defined(DefinedKind.CHECKS, T, name, definition)


def having(*objects: Defined) -> dict[ObjectId, str | None]:
    return {one.id: one.definition for one in objects}


def test_new_definitions_of_the_master_are_created() -> None:
    assert steps([index("a")], {}, [], [T]) == [Make(index("a"))]


def test_existing_definitions_are_recorded() -> None:
    assert steps([index("a")], having(index("a")), [], [T]) == [Know(index("a"))]


def test_definitions_removed_on_the_slave_are_not_created_again() -> None:
    assert steps([index("a")], {}, [index("a")], [T]) == []


def test_the_slaves_own_definitions_are_left_alone() -> None:
    assert steps([], having(index("own")), [], [T]) == []


def test_dropped_definitions_are_dropped_and_missing_ones_forgotten() -> None:
    gone = [index("a"), index("b")]
    assert steps([], having(index("a")), gone, [T]) == [Drop(index("a")), Forget(index("b"))]


def test_a_new_name_for_the_same_is_a_rename() -> None:
    assert steps([index("b")], having(index("a")), [index("a")], [T]) == [Rename(index("a"), "b")]


def test_another_definition_of_the_name_replaces_it() -> None:
    new = index("a", "(m)")
    assert steps([new], having(index("a")), [index("a")], [T]) == [Drop(index("a")), Make(new)]


def test_a_column_that_both_sides_renamed_is_no_other_definition() -> None:
    new = index("a", "(m)")
    assert steps([new], having(new), [index("a")], [T]) == [Know(new)]


def test_unfinished_definitions_are_created_again() -> None:
    half: dict[ObjectId, str | None] = {index("a").id: None}
    assert steps([index("a")], half, [index("a", making=True)], [T]) == [Make(index("a"))]
    assert steps([index("a")], {}, [index("a", making=True)], [T]) == [Make(index("a"))]
    assert steps([index("a")], having(index("a")), [index("a", making=True)], [T]) == [Know(index("a"))]
    assert steps([], half, [index("a", making=True)], [T]) == [Drop(index("a"))]


def test_a_rename_that_was_not_noted_is_done_or_found_done() -> None:
    known = [index("a"), index("b", making=True)]
    assert steps([index("b")], having(index("a")), known, [T]) == [Rename(index("a"), "b")]
    assert steps([index("b")], having(index("b")), known, [T]) == [Forget(index("a")), Know(index("b"))]
    assert steps([], having(index("b")), known, [T]) == [Drop(index("b")), Forget(index("a"))]


def test_definitions_that_a_load_has_created_are_recorded_and_others_are_made() -> None:
    assert steps([index("a")], having(index("a")), [], [T]) == [Know(index("a"))]
    assert steps([index("a")], {}, [], [T]) == [Make(index("a"))]


def test_tables_that_the_master_has_no_more_are_left_as_they_are() -> None:
    assert steps([], having(index("a", table=OTHER)), [index("a", table=OTHER)], [T]) == []


def test_foreign_keys_go_first_and_come_last() -> None:
    key = Defined(DefinedKind.FOREIGN_KEYS, T, "f", "…")
    unique = Defined(DefinedKind.UNIQUE, T, "u", "…")
    assert steps([], having(unique, key), [unique, key], [T]) == [Drop(key), Drop(unique)]
    assert steps([key, unique], {}, [], [T]) == [Make(unique), Make(key)]


def test_a_constraint_that_the_master_lacks_or_has_otherwise_is_outdated() -> None:
    assert outdated([], having(check("c")), [check("c")]) == [check("c")]
    assert outdated([check("c", "CHECK (n > 1)")], having(check("c")), [check("c")]) == [check("c")]
    half: dict[ObjectId, str | None] = {check("c").id: None}
    assert outdated([], half, [check("c")]) == [check("c")]


def test_constraints_of_the_master_and_of_the_slave_alone_stay() -> None:
    assert outdated([check("c")], having(check("c")), [check("c")]) == []
    assert outdated([], having(check("own")), []) == []
    renamed = check("c", "CHECK (m > 0)")
    assert outdated([renamed], having(renamed), [check("c")]) == []
    assert outdated([], having(index("i")), [index("i")]) == []


OBJECTS = st.builds(
    Defined,
    st.sampled_from([DefinedKind.INDEXES, DefinedKind.CHECKS]),
    st.just(T),
    st.sampled_from("abc"),
    st.sampled_from(["(n)", "(m)"]),
)
LISTS = st.lists(st.lists(OBJECTS, unique_by=lambda one: one.id, max_size=5), min_size=1, max_size=6)


@given(LISTS, st.integers(0, 30))
def test_any_history_ends_with_what_the_master_has_wherever_rounds_are_killed(
    history: list[list[Defined]], killed: int
) -> None:
    slave: dict[ObjectId, str | None] = {}
    known: dict[ObjectId, Defined] = {}
    for master in history:
        done = 0
        while todo := steps(master, slave, list(known.values()), [T]):
            done += 1
            assert done < 50, "it never ends"
            for step in todo:
                if not act(step, slave, known, killed := killed - 1):
                    break
        assert slave == having(*master)
        assert set(known.values()) == set(master)


def act(step: Step, slave: dict[ObjectId, str | None], known: dict[ObjectId, Defined], left: int) -> bool:
    """Executes one step like the follower; False if it is killed half-way."""
    one = step.object
    if isinstance(step, Make):
        known[one.id] = Defined(one.kind, one.table, one.name, one.definition, making=True)
        slave[one.id] = None if left == 0 else one.definition
    elif isinstance(step, Rename):
        new = step.renamed
        known[new.id] = Defined(new.kind, new.table, new.name, new.definition, making=True)
        slave[step.renamed.id] = slave.pop(one.id)
    elif isinstance(step, Drop):
        del slave[one.id]
    if left in (0, 1):
        return False
    if isinstance(step, Make | Know):
        known[one.id] = one
    elif isinstance(step, Rename):
        known[step.renamed.id] = step.renamed
        del known[one.id]
    else:
        del known[one.id]
    return True
