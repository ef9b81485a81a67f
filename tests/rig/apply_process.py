"""The apply of a pair in its own process, to be killed.

with ApplyProcess(rig) as apply:
    apply.kill_in_the_middle(table)      # and it begins again
"""

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psycopg

from sluice.apply.apply_loop import ApplyLoop
from sluice.coordination import lease, redis_store
from sluice.executor import ThreadExecutor
from sluice.model.names import TableName
from sluice.vendors.postgres.connection import connect, quoted
from sluice.with_parent import with_parent
from tests.library import ROOT
from tests.rig.rig import Rig


class ApplyProcess(AbstractContextManager["ApplyProcess"]):
    """It is killed at the end, too. An await of the rig raises what ended it by itself."""

    def __init__(self, rig: Rig, *paths: Path):
        """`paths`: folders with modules of the configuration's owner."""
        self._rig = rig
        self._paths = paths
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "ApplyProcess":
        self._rig.failure = None
        self._begin()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        failure = self._rig.failure
        self.kill()
        if kind is None and failure is not None:
            raise failure

    def kill(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        process.kill()
        process.wait()

    def kill_in_the_middle(self, table: TableName, change: str) -> None:
        """Kills it within the transaction in which it applies `change`, a statement of the master, to `table` of the
        slave, and starts it again."""
        rig = self._rig
        with connect(rig.slave_info, application="holder") as holder:
            holder.execute(f"LOCK TABLE {quoted(table.schema, table.name)} IN SHARE MODE".encode())
            rig.master.execute(change.encode())
            rig.await_that(lambda: waiting(rig.slave))
            self.kill()
        self._begin()

    def restart(self, between: Callable[[], object] = lambda: None) -> None:
        """Kills it, calls `between`, and starts it again."""
        self.kill()
        between()
        self._begin()

    def _begin(self) -> None:
        # Of the one that was killed: nobody waits until it expires.
        rig = self._rig
        rig.store.delete(lease.key(rig.pair.prefix, rig.name))
        folders = os.pathsep.join(map(str, [ROOT / "plugins", ROOT, *self._paths]))
        self._process = process = subprocess.Popen(
            with_parent([sys.executable, "-m", "tests.rig.apply_process"]),
            stdin=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": folders},
        )  # fmt: skip
        threading.Thread(target=self._watch, args=[process], daemon=True).start()

    def _watch(self, process: "subprocess.Popen[bytes]") -> None:
        _, said = process.communicate(pickle.dumps((self._rig.pair, self._rig.redis_url)))
        if self._process is process:  # nobody has killed it
            self._rig.failure = AssertionError(f"the apply ended with {process.returncode}:\n{said.decode()}")


def waiting(slave: "psycopg.Connection[Any]") -> bool:
    """Whether an apply waits there for a lock on a table."""
    found = slave.execute(
        "SELECT FROM pg_stat_activity JOIN pg_locks USING (pid) WHERE application_name LIKE 'sluice DEMO%' "
        "AND locktype = 'relation' AND NOT granted AND datname = current_database()"
    ).fetchall()
    return bool(found)


def main() -> None:
    pair, redis_url = pickle.load(sys.stdin.buffer)
    ApplyLoop(pair, redis_store.connect(redis_url), ThreadExecutor(2), threading.Event()).run()


if __name__ == "__main__":
    main()
