"""The plan from the registered tables to the configured ones."""

from hypothesis import given
from hypothesis import strategies as st

from sluice.capture.plan import Add, Alter, Remove, Reorder, Repair, plan
from sluice.configuration.resolve import ResolvedTable
from sluice.database.capture import RegisteredTable
from sluice.model.names import TableName

IUD = frozenset("IUD")


def table(name: str) -> TableName:
    return TableName("public", name)


def configured(
    name: str, actions: str = "IUD", sequence: int = -1, trigger: str | None = None, debug: bool = False
) -> ResolvedTable:
    return ResolvedTable(table(name), frozenset(actions), sequence, trigger, debug)


def registered(name: str, key: int, actions: str = "IUD", *faults: str, debug: bool = False) -> RegisteredTable:
    return RegisteredTable(table(name), frozenset(actions), "OK", key, f"DEMO_{key}", debug, faults)


def test_nothing_is_planned_when_nothing_differs() -> None:
    assert plan([configured("a"), configured("b")], [registered("a", 7), registered("b", 3)]) == []


def test_new_tables_are_added_in_the_order_of_their_sequence() -> None:
    steps = plan([configured("b", sequence=-1), configured("a", sequence=2)], [])
    assert steps == [Add(table("b"), IUD, None, False), Add(table("a"), IUD, None, False)]


def test_tables_no_longer_configured_are_removed_first() -> None:
    assert plan([configured("b")], [registered("a", 1)]) == [Remove(table("a")), Add(table("b"), IUD, None, False)]


def test_other_actions_debug_or_trigger_alter_a_table() -> None:
    (step,) = plan([configured("a", "DI", trigger="X", debug=True)], [registered("a", 1)])
    assert step == Alter(
        table("a"),
        frozenset("ID"),
        "X",
        True,
        ("actions IUD become ID", "trigger DEMO_1 becomes X", "debug goes on"),
    )


def test_an_unnamed_trigger_keeps_the_name_it_has() -> None:
    (step,) = plan([configured("a", "")], [registered("a", 1)])
    assert isinstance(step, Alter)
    assert step.trigger == "DEMO_1"
    assert str(step) == "alter public.a: actions IUD become initial content only"


def test_faults_are_repaired() -> None:
    (step,) = plan([configured("a")], [registered("a", 1, "IUD", "trigger x is missing", "status is CREATING")])
    assert step == Repair(table("a"), ("trigger x is missing", "status is CREATING"))
    assert str(step) == "repair public.a: trigger x is missing, status is CREATING"


def test_a_changed_sequence_moves_only_the_tables_that_must() -> None:
    have = [registered("a", 1), registered("b", 2), registered("c", 3)]
    want = [configured("b", sequence=1), configured("c", sequence=2), configured("a", sequence=3)]
    assert plan(want, have) == [Reorder(table("a"))]


def test_a_table_added_in_between_moves_those_behind_it() -> None:
    have = [registered("a", 1), registered("c", 3)]
    want = [configured("a", sequence=1), configured("b", sequence=2), configured("c", sequence=3)]
    assert plan(want, have) == [Add(table("b"), IUD, None, False), Reorder(table("c"))]


NAMES = st.sampled_from("abcdefgh")


@given(
    want=st.dictionaries(NAMES, st.tuples(st.integers(-1, 3), st.sampled_from(["IUD", "I", ""]), st.booleans())),
    have=st.dictionaries(NAMES, st.tuples(st.integers(1, 50), st.sampled_from(["IUD", "D"]), st.booleans())),
)
def test_the_plan_leads_to_the_configuration_and_a_second_one_is_empty(
    want: dict[str, tuple[int, str, bool]], have: dict[str, tuple[int, str, bool]]
) -> None:
    goal = sorted(
        (configured(name, actions, sequence, None, debug) for name, (sequence, actions, debug) in want.items()),
        key=lambda entry: entry.sequence,
    )
    # Keys of registered tables are unique.
    state = {
        table(name): registered(name, key * 10 + number, actions, debug=debug)
        for number, (name, (key, actions, debug)) in enumerate(have.items())
    }
    last = 1000
    for step in plan(goal, state.values()):
        last += 1
        if isinstance(step, Remove):
            del state[step.table]
        elif isinstance(step, Add):
            state[step.table] = registered(step.table.name, last, "".join(step.actions), debug=step.debug)
        elif isinstance(step, Reorder):
            old = state[step.table]
            state[step.table] = RegisteredTable(old.table, old.actions, "OK", last, old.trigger, old.debug)
        elif isinstance(step, Alter):
            old = state[step.table]
            state[step.table] = RegisteredTable(old.table, step.actions, "OK", old.repl_key, step.trigger, step.debug)
    assert plan(goal, state.values()) == []
    order = sorted(state.values(), key=lambda entry: entry.repl_key)
    sequences = {entry.table: entry.sequence for entry in goal}
    assert [sequences[entry.table] for entry in order] == sorted(sequences.values())
    assert {entry.table: (entry.actions, entry.debug) for entry in order} == {
        entry.table: (entry.actions, entry.debug) for entry in goal
    }
