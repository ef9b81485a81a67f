"""The order in which transactions of several redo threads are released, and which repeated ones are recognized."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.vendors.stream.redo.merge import Merge, Released, Segment, ThreadId, Transaction
from tests.errors import raises_code
from tests.examples import examples
from tests.unit.redo_output import ONE, TWO


@pytest.mark.long
@settings(deadline=None, max_examples=examples(100))
@given(data=st.data())
def test_eight_threads_are_released_in_order(data: st.DataObject) -> None:
    threads = [ThreadId(1, number) for number in range(8)]
    merge = Merge(Released())
    for thread in threads:
        merge.join(thread)
    watermarks = dict.fromkeys(threads, 0)
    released: list[Transaction] = []
    for scn in range(1, 60):
        thread = data.draw(st.sampled_from(threads))
        assert merge.offer(Transaction(thread, str(scn), scn, None, 1, (Segment("f", scn, scn + 1),)))
        if data.draw(st.booleans()):
            for each in data.draw(st.lists(st.sampled_from(threads), unique=True)):
                merge.checkpoint(each, scn + 1)
                watermarks[each] = scn + 1
        while (found := merge.ready()) is not None:
            released.append(found)
            assert found.scn < min(watermarks.values())
    for thread in threads:
        merge.close(thread)
    while (found := merge.ready()) is not None:
        released.append(found)
    assert [each.scn for each in released] == list(range(1, 60))


def test_any_number_of_repeated_waiting_transactions_is_recognised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More transactions than are remembered of a thread: OpenLogReplicator restarts, and writes all of them again."""
    monkeypatch.setattr("sluice.vendors.stream.redo.merge.REMEMBERED", 2)
    merge = Merge(Released())
    merge.join(ONE)
    merge.join(TWO)
    made = [Transaction(ONE, str(scn), scn, None, 1, (Segment("f", scn, scn + 1),)) for scn in range(1, 8)]
    assert all(merge.offer(each) for each in made)
    merge.checkpoint(ONE, 100)
    assert not any(merge.offer(each) for each in made)
    merge.checkpoint(TWO, 5)
    assert [found.scn for found in iter(merge.ready, None)] == [1, 2, 3, 4]
    later = Transaction(ONE, "later", 101, None, 1, (Segment("f", 101, 102),))
    assert merge.offer(later)
    assert not any(merge.offer(each) for each in [*made, later]), "also those that are in the stream"
    merge.checkpoint(ONE, 200)
    merge.checkpoint(TWO, 200)
    assert [found.scn for found in iter(merge.ready, None)] == [5, 6, 7, 101]


def test_a_late_commit_is_never_dropped_silently() -> None:
    merge = Merge(Released())
    merge.join(ONE)
    part = (Segment("f", 0, 1),)
    merge.offer(Transaction(ONE, "a", 10, None, 1, part))
    merge.checkpoint(ONE, 20)
    assert merge.ready()
    assert not merge.offer(Transaction(ONE, "a", 10, None, 1, part)), "it came again"
    with raises_code("transaction-late", match="transaction b of SCN 15"):
        merge.offer(Transaction(ONE, "b", 15, None, 1, part))
    assert not merge.offer(Transaction(ONE, "a", 10, None, 1, ())), "the end of one that is known"
    with raises_code("beginning-lost", match="transaction c"):
        merge.offer(Transaction(ONE, "c", 30, None, 1, ()))
