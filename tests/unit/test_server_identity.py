"""Whether a master continues the server on which a position was taken."""

import pytest

from sluice.vendors.postgres import snapshot_position
from sluice.vendors.postgres.snapshot_position import Origin, SnapshotPosition
from tests.errors import raises_code

SEEN = Origin("77", 3, 0x2_5000)
HISTORY = "1\t0/3000148\tno recovery target specified\n\n2\t0/5000000\tbefore\n# a comment\n3\t0/26000\tpromoted\n"


def now(timeline: int = 3, lsn: int = 0x9_0000, system: str = "77") -> Origin:
    return Origin(system, timeline, lsn)


def test_a_server_identity_is_kept_in_a_position() -> None:
    kept = SnapshotPosition.parse(SnapshotPosition(5, 5, origin=SEEN).text())
    assert kept.origin == SEEN
    assert SnapshotPosition.parse(SnapshotPosition(5, 5).text()).origin is None
    assert snapshot_position.offset("1/A0") == (1 << 32) + 0xA0


def test_the_same_server_needs_no_proof() -> None:
    assert snapshot_position.same_server(SEEN, now())
    assert snapshot_position.same_server(SEEN, SEEN)
    assert not snapshot_position.same_server(SEEN, now(timeline=4))


@pytest.mark.parametrize("other", [now(system="78"), now(timeline=2), now(lsn=0x2_4000)])
def test_servers_that_can_never_continue_it(other: Origin) -> None:
    with raises_code("master-replaced", match="Start an initial update"):
        snapshot_position.same_server(SEEN, other)


def test_the_history_decides_where_it_can_be_read() -> None:
    left = snapshot_position.switches(HISTORY)
    assert left == {1: 0x3000148, 2: 0x5000000, 3: 0x26000}
    snapshot_position.prove(SEEN, now(timeline=4), left, 0)
    snapshot_position.prove(SEEN, now(timeline=9), left, None)
    with raises_code("master-replaced", match="4096 bytes"):
        snapshot_position.prove(SEEN, now(timeline=4), {**left, 3: 0x2_4000}, 0x9_0000)
    with raises_code("master-replaced", match="does not descend"):
        snapshot_position.prove(SEEN, now(timeline=4), {1: 5, 2: 9}, None)


def test_without_a_history_the_replayed_position_decides_for_one_promotion() -> None:
    snapshot_position.prove(SEEN, now(timeline=4), None, 0x2_5000)
    with raises_code("master-replaced"):
        snapshot_position.prove(SEEN, now(timeline=4), None, 0x2_4FFF)
    for timeline, replayed in ((5, 0x9_0000), (4, None)):
        with raises_code("failover-unproven", match="GRANT EXECUTE"):
            snapshot_position.prove(SEEN, now(timeline=timeline), None, replayed)


def test_the_header_of_an_empty_page_is_no_lost_record() -> None:
    snapshot_position.prove(Origin("77", 3, 0x2_4000 + 24), now(timeline=4), None, 0x2_4000)
    with raises_code("master-replaced"):
        snapshot_position.prove(Origin("77", 3, 0x2_4000 + 48), now(timeline=4), None, 0x2_4000)
