"""A slave that crashes starts again, whatever the apply had been doing there."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluice.vendors.postgres.target import stage
from tests.rig.rig import Rig
from tests.scenarios.faults.pair import pair
from tests.scenarios.faults.plan import plan
from tests.scenarios.faults.servers import Servers


@pytest.fixture
def rig(servers: Servers, tmp_path: Path) -> Iterator[Rig]:
    """A pair whose windows are staged, and a slave that flushes its log only when it must."""
    with servers.slave.connect() as admin:
        admin.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")  # type: ignore[union-attr]
        admin.execute("SELECT pg_reload_conf()")  # type: ignore[union-attr]
    with pair(replace(plan(1), stage=300), servers, tmp_path) as (ends, _):
        assert isinstance(ends.rig, Rig)
        yield ends.rig
    servers.start_all()
    with servers.slave.connect() as admin:
        admin.execute("ALTER SYSTEM RESET wal_writer_delay")  # type: ignore[union-attr]
        admin.execute("SELECT pg_reload_conf()")  # type: ignore[union-attr]


def test_it_starts_again_after_a_crash_while_changes_were_staged(
    rig: Rig, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed = threading.Event()

    def copy(*arguments: Any) -> int:
        # Backends of a killed postmaster roll back, and what they write of it never reaches the disk.
        if not crashed.is_set():
            with servers.slave.connect() as other:
                other.execute("SELECT pg_logical_emit_message(true, 'all before this', 'is on the disk')")  # type: ignore[union-attr]
            servers.slave.kill()
            crashed.set()
        return real(*arguments)

    real = stage.copy
    monkeypatch.setattr(stage, "copy", copy)
    rig.slave.execute("CHECKPOINT")
    with rig.apply(parallelism=1):
        rig.await_current()
        rig.master.execute("INSERT INTO public.accounts SELECT g, g, g FROM generate_series(1, 2000) g")
        assert crashed.wait(30)
        rig.close()
        servers.start_all()
        rig = Rig.between(rig.pair, rig.redis_url)
        rig.await_current()
    assert rig.differences() == {}
    assert len(rig.rows(rig.slave, rig.tables(rig.slave)[0])) == 2000
    rig.close()
