"""Sluice's tables on a slave: CHECKPOINT with its epoch, and BLOCKS of a load."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from sluice.control.blocks import BlockStore
from sluice.control.checkpoint import CheckpointStore
from sluice.control.rejects import RejectStore
from sluice.database.session import Session
from sluice.model.blocks import BlockState
from sluice.model.change import Action, RowChange
from sluice.model.checkpoint import Fenced
from sluice.model.conflict_rule import Decision, Winner
from sluice.model.names import TableName
from sluice.model.position import Position, Window
from sluice.model.reject import Rejected, RejectStatus
from sluice.model.slave_state import ForbiddenMove, SlaveState
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from tests.vendors.contender import PREFIX, SLAVE, Contender

A, B = TableName("public", "a"), TableName("public", 'B "quoted"')


def at(number: int) -> Position:
    """A position of some master: the slave keeps its text."""
    return SnapshotPosition(number, number)


@pytest.fixture
def store(target: Contender) -> Callable[..., CheckpointStore]:
    session = target.session()

    def made(slave: str = SLAVE) -> CheckpointStore:
        found = CheckpointStore(session, PREFIX, target.schema, slave)
        with session.transaction():
            found.ensure()
        return found

    return made


def test_an_unconfigured_slave_has_no_checkpoint(target: Contender) -> None:
    session = target.session()
    assert CheckpointStore(session, PREFIX, target.schema, SLAVE).read() is None


def test_ensure_twice_changes_nothing(store: Callable[..., CheckpointStore]) -> None:
    store().move(SlaveState.INITIAL, 'it\'s "here" %s')
    found = store().read()
    assert found is not None
    assert (found.state, found.message) == (SlaveState.INITIAL, 'it\'s "here" %s')


def test_states_move_only_as_the_table_allows(store: Callable[..., CheckpointStore]) -> None:
    with pytest.raises(ForbiddenMove):
        store().move(SlaveState.NORMAL)


def test_an_apply_with_an_old_epoch_is_fenced(target: Contender, store: Callable[..., CheckpointStore]) -> None:
    mine, session = store(), target.sessions[0]
    with session.transaction():
        mine.start_at(at(5))
        old = mine.claim()
    with session.transaction():
        new = mine.claim()
    assert new.epoch == old.epoch + 1
    with pytest.raises(Fenced), session.transaction():
        mine.advance(old, old.advanced(at(9), 3))
    with session.transaction():
        mine.advance(new, new.advanced(at(9), 3))
    found = mine.read()
    assert found is not None and (found.position, found.changes) == (at(9), 3)


def test_a_checkpoint_goes_with_the_transaction_that_carries_it(
    target: Contender, store: Callable[..., CheckpointStore]
) -> None:
    mine, session = store(), target.sessions[0]
    with session.transaction():
        mine.start_at(at(5))

    class Killed(Exception):
        pass

    with pytest.raises(Killed), session.transaction():
        now = mine.claim()
        mine.advance(now, now.advanced(at(9), 3))
        raise Killed
    found = mine.read()
    assert found is not None and found.position == at(5)


def test_slices_survive_a_round_trip(target: Contender, store: Callable[..., CheckpointStore]) -> None:
    mine, session = store(), target.sessions[0]
    with session.transaction():
        mine.start_at(at(5))
        before = mine.claim()
        after = replace(before.after(Window(at(5), at(9), 0, 17), 100), safemode_exit=at(8))
        mine.advance(before, after)
    found = mine.read()
    assert found is not None and found.catching_up and found.same_place(after)
    assert found.safemode_exit == at(8)


def test_two_slaves_share_a_table_and_nothing_else(store: Callable[..., CheckpointStore]) -> None:
    store().move(SlaveState.INITIAL)
    other = store("dr2").read()
    assert other is not None and other.state is SlaveState.UNCONFIGURED


@pytest.fixture
def blocks(target: Contender, store: Callable[..., CheckpointStore]) -> Callable[[], tuple[Session, BlockStore]]:
    """A loader: its own session, and its rows of BLOCKS."""
    store()

    def made() -> tuple[Session, BlockStore]:
        session = target.session()
        return session, BlockStore(session, PREFIX, target.schema, SLAVE)

    return made


def states(
    target: Contender, table: TableName
) -> list[tuple[BlockState, tuple[str, ...] | None, tuple[str, ...] | None]]:
    found = BlockStore(target.session(), PREFIX, target.schema, SLAVE).map()
    return [(block.state, block.lo, block.hi) for block in found.tables[table].blocks]


def test_a_loader_claims_cuts_off_and_stores(
    target: Contender, blocks: Callable[[], tuple[Session, BlockStore]]
) -> None:
    session, mine = blocks()
    with session.transaction():
        mine.plan([A])
    with session.transaction():
        claim = mine.claim()
        assert claim is not None and claim.block.table == A and (claim.block.lo, claim.block.hi) == (None, None)
        assert mine.begin(claim.block, ("5", "it's"), "loader/1")
    hi = ("5", "it's")
    assert states(target, A) == [(BlockState.BEGUN, None, hi), (BlockState.PLANNED, hi, None)]
    begun = replace(claim.block, hi=hi)
    assert mine.is_begun_by(begun, "loader/1") and not mine.is_begun_by(begun, "loader/2")
    with session.transaction():
        assert not mine.store(begun, "loader/2", at(7), 10, 100)
    with session.transaction():
        assert mine.store(begun, "loader/1", at(7), 10, 100)
    assert states(target, A)[0] == (BlockState.STORED, None, hi)
    with session.transaction():
        assert not mine.store(begun, "loader/1", at(8), 10, 100)


def test_two_loaders_never_claim_the_same_block(
    target: Contender, blocks: Callable[[], tuple[Session, BlockStore]]
) -> None:
    (one, first), (two, second) = blocks(), blocks()
    with one.transaction():
        first.plan([A, B])
    with one.transaction(), two.transaction():
        claims = [first.claim(), second.claim()]
        assert {claim.block.table for claim in claims if claim is not None} == {A, B}


def test_blocks_of_a_dead_loader_are_planned_again(
    target: Contender, blocks: Callable[[], tuple[Session, BlockStore]]
) -> None:
    session, mine = blocks()
    with session.transaction():
        mine.plan([A])
    with session.transaction():
        claim = mine.claim()
        assert claim is not None and mine.begin(claim.block, None, "job/dead")
    with session.transaction():
        assert mine.release() == 1
    assert states(target, A) == [(BlockState.PLANNED, None, None)]
    with session.transaction():
        assert not mine.store(claim.block, "job/dead", at(7), 1, 1)


def test_a_conflict_settled_by_a_rule_is_stored_once_and_needs_nobody(
    target: Contender, store: Callable[..., CheckpointStore]
) -> None:
    store()
    session = target.session()
    rejects = RejectStore(session, PREFIX, target.schema, SLAVE)
    changes = (RowChange(n, A, Action.INSERT, ("id",), {"id": str(n)}, {}, "<c/>", None) for n in (1, 2))
    waits, settled = (
        Rejected(change, "no", {"id": "1"}, decision=decision)
        for change, decision in zip(changes, (None, Decision(Winner.SLAVE, "as configured")), strict=True)
    )
    for _ in range(2):
        with session.transaction():
            rejects.put([waits, settled])
    assert [reject.repl_key for reject in rejects.open()] == [1]
    found = {reject.repl_key: reject for reject in rejects.read(tuple(RejectStatus))}
    assert len(found) == 2 and found[1].settled_at is None and found[1].answer is None
    assert (found[2].status, found[2].answer) == (settled.status, "as configured")
    assert found[2].settled_by == "conflict_rules" and found[2].settled_at is not None
    with session.transaction():
        assert rejects.move([found[1].id], RejectStatus.ASKED, "anna", force=True) == [found[1].id]
    (asked,) = rejects.read([RejectStatus.ASKED], [found[1].id], lock=True)
    assert (asked.asked_by, asked.force, asked.settled_at) == ("anna", True, None)
