"""The redo with which a program begins, and the report if its stream would lack something."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from sluice.configuration.redo import RedoOptions
from sluice.coordination.redo_state import RedoState
from sluice.database.recorder import Receiver
from sluice.database.redo_files import ArchivedLogs
from sluice.redo.checkpoints import read_folder
from sluice.redo.keeper import Keeper, MergedStream, StreamContent, missing_redo
from sluice.redo.missing_logs import LogWatch, Need
from sluice.redo.redo_thread import RedoThread


class Silent:
    """A receiver that has received nothing."""

    durable, sequence = None, 0

    def __init__(self, *_: object):
        pass


class Empty:
    """A Redis without data."""

    def stored(self, thread: str) -> dict[str, str]:
        return {}


def keeper(root: Path, threads: tuple[str, ...], number: int) -> Keeper:
    """The keeper of a thread without logs; the schema checkpoint is of SCN 60, in log 15."""
    thread = RedoThread(1, number, root / "spool", root / "work", root / "logs")
    thread.spool.mkdir()
    thread.state.mkdir(parents=True)
    options, state = RedoOptions(threads=threads), cast(RedoState, Empty())
    stream = MergedStream(cast(Callable[..., Receiver], Silent))
    return Keeper(thread, {"database": "T", "scn": 60, "seq": 15}, options, state, 1, stream)


@pytest.mark.parametrize(
    ("threads", "number", "begins"), [(("1",), 1, True), (("2",), 2, False), (("1", "2"), 1, False)]
)
def test_the_log_of_the_schema_checkpoint_is_one_of_thread_1(
    threads: tuple[str, ...], number: int, begins: bool, tmp_path: Path
) -> None:
    """Each thread counts its own logs."""
    made = keeper(tmp_path, threads, number)
    assert made._placed() is begins
    assert [checkpoint["seq"] for checkpoint in read_folder(made.thread.state).values()] == [15] * begins


def test_an_added_instance_needs_logs_from_its_start(tmp_path: Path) -> None:
    made = keeper(tmp_path, ("1", "2"), 2)
    assert made.need().scn == 60
    (made.thread.spool / "thread.json").write_text('{"since": 500}')
    assert made.need().scn == 500


STREAM = StreamContent(begins=60, incarnations={1})


@pytest.mark.parametrize(
    ("resetlogs", "since", "begins", "needed"),
    [
        (1, 0, 60, None),  # with the same schema checkpoint
        (1, 0, 50, None),
        (1, 0, 61, 60),  # with a newer one
        (1, 100, 100, None),  # an instance that was added since
        (1, 100, 101, 100),
        (2, 0, 500, None),  # a new incarnation begins with SCN 500
        (2, 0, 501, 500),
    ],
)
def test_redo_that_begins_after_the_needed_place_is_a_loss(
    resetlogs: int, since: int, begins: int, needed: int | None
) -> None:
    found = missing_redo(STREAM, resetlogs, 500, since, begins)
    assert bool(found) == (needed is not None)
    if needed is not None:
        assert (
            f"would begin with SCN {begins}, that of redo.schema. The stream needs the redo from SCN {needed}" in found
        )


def test_the_loss_is_reported_to_the_slaves_for_good(tmp_path: Path) -> None:
    watch = LogWatch(tmp_path, grace=0)
    watch.give_up("thread 1_1: it begins late")
    watch.check(ArchivedLogs(1, ()), Need(1, 1, 7, 60, ()), idle=True, now=0)
    assert (tmp_path / "lost").read_text().startswith("thread 1_1: it begins late; delete this file then")
    assert "INCONSISTENT" in watch.explained()
    (tmp_path / "lost").unlink()
    watch.give_up("thread 1_1: it begins late")
    assert not (tmp_path / "lost").exists(), "a person took it away"
