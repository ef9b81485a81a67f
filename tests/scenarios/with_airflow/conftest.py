"""The stack with Airflow that all files here share, since a start takes longer than most tests."""

import shutil
from collections.abc import Iterator

import pytest

from devstack.account import new_folder
from devstack.demo import start
from devstack.stack import Stack
from sluice.control.checkpoint import CheckpointStore
from sluice.model.names import Prefix
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.connection import connect
from tests.traces import nothing_runs


@pytest.fixture(scope="package")
def stack() -> Iterator[Stack]:
    """A stack with the demo's configuration; its slave stays in state INITIAL, in which the apply runs and waits."""
    folder = new_folder("sluice-test-") / "home"
    made = Stack(folder, durable=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_HOME", str(folder))
        try:
            start.write(made.home.replications, ["dr1"])
            made.up()
            patch.setenv("SLUICE_REDIS_URL", made.redis_url)
            with connect(made.connection("dr1"), application="test") as slave:
                store = CheckpointStore(slave, Prefix("DEMO_"), "sluice", "dr1")
                store.ensure()
                store.move(SlaveState.INITIAL, "held there by a test")
            yield made
        finally:
            made.down()
            left = not nothing_runs(folder)
            shutil.rmtree(folder.parent)
    assert not left, "down left a process"
