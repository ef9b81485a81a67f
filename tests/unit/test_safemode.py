"""When safe mode is on, and what ends it."""

from sluice.model.position import Position
from sluice.model.safemode import OFF, at_start
from sluice.vendors.postgres.snapshot_position import SnapshotPosition


def position(xid: int) -> Position:
    return SnapshotPosition(xid, xid)


def test_configured_safe_mode_never_ends() -> None:
    mode = at_start(configured=True, exit_point=position(5), master_now=position(9), clock=0, checkpoint_interval=30)
    assert mode.after(position(100), 1e9) is mode
    assert "safe_mode: true" in mode.explain(0)


def test_safe_mode_lasts_until_a_stored_exit_point_is_passed() -> None:
    mode = at_start(configured=False, exit_point=position(50), master_now=position(90), clock=0, checkpoint_interval=30)
    assert mode.after(position(49), 1e9) is mode
    assert mode.after(position(50), 0.0) is OFF


def test_without_an_exit_point_safe_mode_lasts_two_intervals() -> None:
    mode = at_start(configured=False, exit_point=None, master_now=position(90), clock=100, checkpoint_interval=30)
    assert mode.after(position(95), 159.9) is mode
    assert mode.after(position(95), 160.0) is OFF


def test_a_slow_slave_stays_in_safe_mode_until_it_is_past_the_start() -> None:
    mode = at_start(configured=False, exit_point=None, master_now=position(90), clock=100, checkpoint_interval=30)
    assert mode.after(position(89), 1e9) is mode
    assert mode.after(position(90), 1e9) is OFF


def test_a_lagging_checkpoint_may_have_more_applied_behind_the_exit_point() -> None:
    mode = at_start(
        configured=False,
        exit_point=position(50),
        master_now=position(90),
        clock=0,
        checkpoint_interval=30,
        overlap=True,
    )
    assert mode.after(position(89), 1e9) is mode
    assert mode.after(position(90), 0.0) is OFF


def test_safe_mode_reports_its_reason_and_end() -> None:
    now = SnapshotPosition(90, 90, time="2026-01-02T03:04:05Z")
    started = at_start(configured=False, exit_point=None, master_now=now, clock=100, checkpoint_interval=30)
    assert started.explain(110.4) == (
        "on after the start, for 50 s more and until everything up to 2026-01-02T03:04:05Z is applied"
    )
    stopped = at_start(configured=False, exit_point=now, master_now=now, clock=100, checkpoint_interval=30)
    assert stopped.explain(0) == ("on after an abnormal stop, until everything up to 2026-01-02T03:04:05Z is applied")
    assert OFF.explain(0) == "off"
