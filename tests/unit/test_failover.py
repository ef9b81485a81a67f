"""The phases of a failover, and the values that sequences are set to."""

from types import SimpleNamespace

import pytest

from sluice.failover.attempt import Failover
from sluice.failover.survey import Facts, blockers
from sluice.model.checkpoint import Checkpoint
from sluice.model.connection import ConnectionInfo
from sluice.model.failover import MOVES, Action, Phase, SequenceValue, Sheet, passed, under_way
from sluice.model.names import TableName
from sluice.model.schema_definitions import Definition
from sluice.model.slave_state import SlaveState
from sluice.pair import Pair
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from tests.errors import raises_code

AT_REST = Checkpoint("a", SlaveState.NORMAL, position=SnapshotPosition(5, 5))


def test_a_slave_that_cannot_be_a_master_is_refused_by_name() -> None:
    replication = SimpleNamespace(master=SimpleNamespace(stream=None), prefix="P_")
    slave = SimpleNamespace(name="dr2")
    infos = [ConnectionInfo(vendor, "db", 1, "d", "u", "p") for vendor in ("postgres", "mysql")]
    pair = Pair(replication, slave, *infos)  # type: ignore[arg-type]
    with raises_code("vendor-cannot-be-master", match=r"mysql cannot become the master .*slave of postgres"):
        Failover.named(pair, "run", Action.CHECK)


def test_every_phase_leads_to_an_end() -> None:
    assert set(MOVES) == set(Phase)
    assert {phase for phase, next_ones in MOVES.items() if not next_ones} == {Phase.FINISHED, Phase.ABORTED}
    assert {phase for phase in Phase if not under_way(phase)} == {Phase.FINISHED, Phase.ABORTED}


def test_there_is_a_way_back_until_the_slave_is_a_master() -> None:
    for phase in Phase:
        way_back = Phase.ABORTED in MOVES[phase]
        assert way_back == (not passed(phase, Phase.SWITCHED) and phase is not Phase.ABORTED)


@pytest.mark.parametrize(
    ("increment", "last", "used", "gap", "value"),
    [
        (1, 10, None, 0, 10),
        (1, 10, 300, 0, 300),
        (1, None, None, 1000, None),
        (1, None, 7, 1000, 1007),
        (5, 100, 90, 1000, 5100),
        (-2, -10, -30, 10, -50),
        (1, 9_990, 1, 1000, 10_000),
        (-1, -9_990, 1, 1000, -10_000),
    ],
)
def test_a_sequence_is_set_beyond_all_that_is_known(
    increment: int, last: int | None, used: int | None, gap: int, value: int | None
) -> None:
    sequence = SequenceValue(None, "", "s", "n", increment, -10_000, 10_000, last)
    assert sequence.beyond(used, gap) == value


def test_stored_definitions_of_a_master_are_read_back() -> None:
    sheet = Sheet(
        "u@h:1/d",
        "2026-01-01T00:00:00Z",
        (Definition("trigger", 'o"dd', "ä", "t", "x", ("a", "b"), ("c",)),),
        (
            SequenceValue(TableName("s", "t"), "c", "s", "n", 1, 1, 9, None),
            SequenceValue(None, "", "s", "m", 1, 1, 9, 4),
        ),
        (TableName("s", "u"),),
        (TableName("s", "t"),),
    )
    assert Sheet.parse(sheet.text()) == sheet


@pytest.mark.parametrize(
    ("silent", "refuses", "reason"),
    [
        ("", False, "The master db1 answers. Choose the action planned"),
        ("refused", True, "The master db1 is there, but: refused Fix that. Choose the action planned"),
        ("timeout", False, None),
    ],
)
def test_a_master_that_may_be_in_use_is_left_behind_by_override_alone(
    silent: str, refuses: bool, reason: str | None
) -> None:
    facts = Facts("P_ → a", "db1", "a", silent=silent, refuses=refuses, checkpoint=AT_REST, position=AT_REST.position)
    found = blockers(facts, Action.FORCED)
    assert [text.startswith(reason) for text in found] == [True] if reason else found == []
    assert blockers(facts, Action.FORCED, override=True) == []
    planned = blockers(facts, Action.PLANNED)
    assert bool(silent) == any("Bring it back, or choose the action forced" in text for text in planned)
