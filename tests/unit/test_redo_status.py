"""The status of the capture from redo logs."""

from sluice.cli.status import redo
from sluice.coordination.redo_state import RedoStatus, ThreadStatus
from sluice.model.names import Prefix

PREFIX = Prefix("ORA_")


def test_each_thread_is_reported_with_its_place_lag_and_error() -> None:
    one = ThreadStatus("1_1", "running", 15, 2_267_720, 990.0, 0, "", 2)
    two = ThreadStatus("1_2", "failed", 0, 0, 0.0, 3, "program is run as root", None, "log 3 of thread 2 is deleted")
    status = RedoStatus(
        "process 7 on db", 4, 1000.0, (one, two), "the merge is behind", "no answer", "thread 3 is not read"
    )
    found = redo(PREFIX, status, 1001.0)
    assert found == [
        "ORA_: the redo logs are read by process 7 on db, epoch 4",
        "    thread 1_1: running, log 15, SCN 2267720, 11 s and 2 logs behind",
        "    thread 1_2: failed, started again 3 times: program is run as root",
        "        log 3 of thread 2 is deleted",
        "    the merge is behind",
        "    thread 3 is not read",
        "    no answer",
    ]


def test_a_supervisor_that_says_nothing_or_was_never_there_is_reported() -> None:
    assert "start the DAG capture_redo" in redo(PREFIX, None, 0.0)[0]
    assert "silent for 100 s" in redo(PREFIX, RedoStatus("process 7 on db", 4, 1000.0, ()), 1100.0)[0]
