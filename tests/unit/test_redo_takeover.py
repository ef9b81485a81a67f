"""A slave with changes from triggers continues in a stream of redo exactly after them, or is refused."""

from pathlib import Path

import pytest

from sluice.database.recorder import MergeOptions
from sluice.model.names import Prefix
from sluice.vendors.oracle.queue_position import Incarnation, QueuePosition
from sluice.vendors.stream.position import StreamPosition
from sluice.vendors.stream.redo.merger import Merger
from sluice.vendors.stream.redo.redo_stream import position_in_stream
from sluice.vendors.stream.session import StreamSession
from tests.errors import raises_code
from tests.unit.redo_output import ONE, RESETLOGS, TWO, checkpoint, folder, insert, transaction


def triggers(scn: int, resetlogs: int = RESETLOGS, oldest: int | None = None) -> QueuePosition:
    """A position of triggers; `oldest`: the start of the oldest running transaction."""
    return QueuePosition(
        7, 9, frozenset(), frozenset(), Incarnation(1, "", resetlogs, 0), scn, scn if oldest is None else oldest
    )


def stream(root: Path, *scns: int, ends_at: tuple[int, ...] = ()) -> Path:
    """A stream of two threads that have reached SCN 200, one change in each transaction."""
    for number, thread in enumerate((ONE, TWO)):
        mine = [transaction(scn, f"1.{scn}.9", [insert(0, scn)]) for scn in scns[number::2]]
        folder(root / "threads", thread, [*(line for lines in mine for line in lines), checkpoint(200)])
    Merger(root / "threads", root / "stream", Prefix("ORA_"), MergeOptions(ends_at=ends_at)).merge_once()
    return root / "stream"


def behind(made: Path, scn: int) -> int:
    """The number of the change after which a slave continues that has all up to `scn`."""
    found = position_in_stream(StreamSession(made), triggers(scn))
    assert isinstance(found, StreamPosition)
    return found.commit


@pytest.mark.parametrize(("scn", "changes"), [(103, 4), (104, 4), (108, 4), (109, 5), (150, 6), (199, 6), (60, 0)])
def test_a_transaction_of_the_stream_ends_where_it_is_to(scn: int, changes: int, tmp_path: Path) -> None:
    """Also between two transactions of the master, before the first one and after the last."""
    made = stream(tmp_path, 100, 101, 102, 103, 109, 110, ends_at=(scn,))
    assert behind(made, scn) == changes
    assert behind(made, 199) == 6, "the end of all is one as well"
    Merger(tmp_path / "threads", made, Prefix("ORA_"), MergeOptions(ends_at=(scn,))).merge_once()
    assert behind(made, scn) == changes, "a second run changes nothing"


def test_two_slaves_that_are_at_different_places_go_on_each_at_its_own(tmp_path: Path) -> None:
    made = stream(tmp_path, 100, 101, 102, 103, ends_at=(101, 102))
    assert [behind(made, scn) for scn in (101, 102)] == [2, 3]


def test_within_a_transaction_of_the_stream_no_slave_goes_on(tmp_path: Path) -> None:
    with raises_code("between-transactions", match=r"Write 102 under redo\.ends_at"):
        position_in_stream(StreamSession(stream(tmp_path, 100, 101, 102, 103)), triggers(102))


def test_a_part_that_the_stream_lacks_is_awaited(tmp_path: Path) -> None:
    with raises_code("not-there-yet", match="has come to SCN 199"):
        position_in_stream(StreamSession(stream(tmp_path, 100)), triggers(200))


def test_a_stream_that_begins_behind_the_slave_is_refused(tmp_path: Path) -> None:
    """The schema checkpoint of the threads is of SCN 60."""
    with raises_code("begins-later", match="capture begins with SCN 60"):
        stream(tmp_path / "a", 100, ends_at=(59,))
    with raises_code("between-transactions"):
        position_in_stream(StreamSession(stream(tmp_path / "b", 100)), triggers(59, oldest=60))


def test_no_slave_goes_on_from_transactions_older_than_the_stream(tmp_path: Path) -> None:
    """The schema checkpoint of the threads is of SCN 60."""
    made = StreamSession(stream(tmp_path, 100))
    assert position_in_stream(made, triggers(150, oldest=60)) == position_in_stream(made, triggers(150))
    with raises_code("older-open", match='says "oldest": 60 or more'):
        position_in_stream(made, triggers(150, oldest=59))
    older = QueuePosition.parse(triggers(150).text().replace('"oldest":150,', ""))
    with raises_code("older-open"):
        position_in_stream(made, older)


def test_positions_of_another_source_are_refused(tmp_path: Path) -> None:
    made = StreamSession(stream(tmp_path, 100))
    with raises_code("other-source", match="incarnation"):
        position_in_stream(made, triggers(150, RESETLOGS + 1))
    assert position_in_stream(made, StreamPosition("another stream", 1)) is None, (
        "the stream itself says what is wrong with it"
    )
