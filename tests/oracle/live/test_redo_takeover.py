"""A slave changes from an Oracle master's triggers to its redo, as docs/redo.md describes; the apply is killed on the
way."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from sluice import config
from sluice.coordination import lease, redis_store
from sluice.pair import Pair
from sluice.vendors.stream.position import StreamPosition
from tests.airflow_home import ROOT
from tests.oracle.live.master_rig import OracleMasterRig
from tests.oracle.live.test_redo_load import TABLES, Loaded
from tests.rig.redo_master import RedoMaster

ABLE = ["ivorysql"]
"""An Oracle server numbers its transactions itself, and its redo would have to be read."""
TO_REDO = """
prefix: DEMO_
master: {{capture: redo, location: {location}}}
slaves:
  dr1: {{conn_id: s}}
tables: {{PUBLIC.T: {{}}, PUBLIC.PAIRS: {{}}, PUBLIC.BAG: {{}}}}
apply: {{lease: 2.0, checkpoint_interval: 0.1, max_batch_changes: 10}}
redo: {{program: /none, schema: /none, exact_names: true, ends_at: {scn}}}
"""


@contextmanager
def killed(rig: Loaded) -> Iterator[None]:
    """An apply in its own process, which is killed at the end."""
    given = {"prefix": "DEMO_", "slave": rig.slave_info.to_dict(), "redis_url": rig.redis_url}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.scenarios.stream.killed_apply"],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}"},
        cwd=ROOT,
    )
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write(json.dumps(given).encode())
    try:
        yield
        assert process.poll() is None, "it ended by itself"
    finally:
        process.kill()
        process.wait()


def test_triggers_give_way_to_redo_without_a_load_whatever_is_killed(
    master_rig: Callable[..., OracleMasterRig], tmp_path: Path
) -> None:
    by_triggers = master_rig(";\n".join(TABLES))
    driver = by_triggers.master.driver  # type: ignore[attr-defined]
    # The redo before it is numbered lower than what positions of the triggers say.
    psycopg.ClientCursor(driver).execute(b"SELECT pg_catalog.setval('scn', 1000) FROM DUAL")
    driver.commit()

    def run(statement: str) -> None:
        psycopg.ClientCursor(driver).execute(statement.encode())

    redo = RedoMaster(tmp_path / "threads", 1, run, driver.commit, lambda scn: None)
    redo.transactions(20)
    update = by_triggers.load()
    with by_triggers.apply():
        by_triggers.await_current()
        by_triggers.finish(update)
        redo.transactions(10)
        by_triggers.await_current()
    position = by_triggers.checkpoint.position
    assert position is not None

    # The person stops the apply, and writes down what the checkpoint says; the master continues.
    scn = json.loads(position.text())["scn"]
    redo.scn = scn + 1
    redo.transactions(15)
    (tmp_path / "DEMO.yaml").write_text(TO_REDO.format(location=tmp_path, scn=scn))
    pair = Pair.of(config.load("DEMO_"), "dr1", {"s": by_triggers.pair.slave_info})
    store = redis_store.connect(by_triggers.redis_url)
    rig = Loaded(pair, by_triggers.redis_url, store, driver, by_triggers.slave)
    rig.redo, rig.stream = redo, tmp_path / "stream"
    with killed(rig):  # It waits for the stream.
        rig.await_that(lambda: lease.holder(store, lease.key("DEMO_", "dr1")))
        assert rig.checkpoint.position == position
    with rig.merging(ends_at=(scn,)):
        rig.await_that(lambda: list(rig.stream.glob("*.jsonl")))
    with killed(rig):
        rig.await_that(lambda: isinstance(rig.checkpoint.position, StreamPosition))
    before = rig.checkpoint.changes
    with rig.merging(ends_at=(scn,)):
        redo.transactions(30)
        with killed(rig):
            rig.await_that(lambda: rig.checkpoint.changes > before)
        with rig.apply():
            rig.await_same()
            redo.transactions(5)
            rig.await_same()
