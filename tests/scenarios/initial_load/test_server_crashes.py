"""Either server crashes again and again while blocks load: what the slave's log lacks is read again."""

import os
import signal
import subprocess
from functools import partial

import pytest

from sluice.configuration.options import READS
from sluice.load import steps
from sluice.model.blocks import BlockState
from sluice.vendors.postgres.connection import connect
from tests.rig.rig import MakePair, Rig
from tests.scenarios.initial_load.killable import killable
from tests.standby import servers
from tests.waiting import until


def crash(pair: Rig, server: object) -> None:
    """Kills the server without a flush, then starts it to recover. The kernel keeps what it was given to write: this is
    the end of a server, not a power failure."""
    data = server.data  # type: ignore[attr-defined]
    pid = int((data / "postmaster.pid").read_text().split("\n", 1)[0])
    os.kill(pid, signal.SIGQUIT)
    until(lambda: not (data / "postmaster.pid").exists())
    server.start(die_with_parent=True)  # type: ignore[attr-defined]
    pair.master.close()
    pair.slave.close()
    pair.master = connect(pair.master_info, application="test", autocommit=True)
    pair.slave = connect(pair.slave_info, application="test", autocommit=True)


def some_stored_or_ended(pair: Rig, process: "subprocess.Popen[bytes]") -> bool:
    states = [block.state for block in pair.blocks()]
    return process.poll() is not None or (BlockState.BEGUN in states and states.count(BlockState.STORED) >= 2)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("side", "read"),
    [
        ("slave", "committed"),
        ("slave", "snapshot"),
        *(("master", read) for read in READS),
    ],
)
def test_a_crash_of_either_side_is_recovered_from(pair_of: MakePair, side: str, read: str) -> None:
    with servers() as make:
        server = make(side)
        server.start(die_with_parent=True)
        pair = pair_of(block_rows=200, seconds=0.05, **{side: server.info()})
        pair.master.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
        pair.master.execute("INSERT INTO public.t SELECT g, repeat('x', 50) FROM generate_series(1, 8000) g")
        pair.capture()
        update = pair.update(read=read)
        pair.prepare(update)
        pair.slow_down("public.t", 0.00015)
        crashes = 0
        while True:
            process = killable(update)
            if crashes < 3:
                until(partial(some_stored_or_ended, pair, process))
                assert process.poll() is None, "it was through before a crash could meet it"
                crash(pair, server)
                crashes += 1
            if process.wait(120) == 0:
                break
        steps.arrive(update, pair.store)
        blocks = pair.blocks()
        assert all(block.state is BlockState.STORED for block in blocks)
        assert sum(block.rows for block in blocks) == 8000
        pair.assert_equal()
        pair.master.close()
        pair.slave.close()
