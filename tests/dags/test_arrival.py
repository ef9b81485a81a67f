"""Files that arrive at the slave are noticed by the run that waits for them."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred

from sluice.airflow import transfer_form
from sluice.airflow.approval import ApproveTransfer, AwaitFiles
from sluice.airflow.arrival_trigger import ArrivalTrigger
from sluice.airflow.selection_form import update_of
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination.gate import APPROVAL, CARRIED, Gate
from sluice.load.transfer import transfer_steps
from sluice.load.transfer.importer import import_in_threads
from sluice.load.transfer.transfer_folder import TransferFolder
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import connect
from tests.airflow_connections import connect_airflow
from tests.dags.walk import Walk

DEADLINE_SECONDS = 120
AWAIT, APPROVE = AwaitFiles(task_id="await_files"), ApproveTransfer(task_id="approve")


class Carried(Walk):
    """A run whose folder is written to `out` and travels to `in`."""

    def __init__(self, slave: ConnectionInfo, root: Path, **params: Any):
        super().__init__(slave="one", location=str(root / "out"), **params)
        self.slave, self.root = slave, root

    @property
    def written(self) -> Path:
        return Path(transfer_form.written(self.context).path)

    @property
    def arrived(self) -> Path:
        return self.root / "in" / self.written.name

    def look(self) -> str | ArrivalTrigger:
        """What the task returns, or what it waits for."""
        self.ti.task_id = "await_files"
        try:
            found = AWAIT.execute(self.context)
        except TaskDeferred as waits:
            return ArrivalTrigger(**{**waits.trigger.serialize()[1], "earliest": 0.0})
        self.ti.xcom_push("return_value", found)
        return found

    @property
    def message(self) -> str:
        with connect(self.slave, application="test", autocommit=True) as connection:
            checkpoint = CheckpointStore(connection, Prefix("DEMO_"), "sluice", "one").read()
        assert checkpoint is not None
        return checkpoint.message

    @property
    def closure(self) -> tuple[str, str]:
        (closure,) = Gate(self.work.redis, Prefix("DEMO_"), "one").closures()
        return closure.by, closure.reason


@pytest.fixture
def carried(
    database: Callable[..., ConnectionInfo], redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Carried:
    infos = {name: database() for name in ("m", "one")}
    for name, info in infos.items():
        connect_airflow(monkeypatch, name, info)
    for name in ("conf", "out", "in"):
        (tmp_path / name).mkdir()
    configure(tmp_path, "person")
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path / "conf"))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    monkeypatch.setattr("sluice.airflow.arrival_trigger.POLL_SECONDS", 0.05)
    monkeypatch.setattr("sluice.airflow.arrival_trigger.SLAVE_SECONDS", 0.05)
    with connect(infos["m"], application="test", autocommit=True) as master:
        for table in ("a", "b"):
            master.execute(f"CREATE TABLE public.{table} (id int PRIMARY KEY)".encode())
            master.execute(f"INSERT INTO public.{table} SELECT pg_catalog.generate_series(1, 100)".encode())
    return Carried(infos["one"], tmp_path)


def configure(root: Path, approves: str) -> None:
    (root / "conf" / "DEMO.yaml").write_text(
        "prefix: DEMO_\nmaster: {conn_id: m, allow_superuser: true}\n"
        f"slaves: {{one: {{conn_id: one, allow_superuser: true, initial_files_location: {root}/in}}}}\n"
        f"tables:\n  public.*: {{}}\ninitial: {{locations: [{root}/out], approve_transfer: {approves}}}\n"
    )


async def fired(trigger: ArrivalTrigger, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Returns when the trigger fires; `meanwhile` is called once it has looked."""
    waits = asyncio.ensure_future(anext(trigger.run()))
    await asyncio.sleep(0.3)
    assert not waits.done(), "there was nothing new yet"
    await asyncio.to_thread(meanwhile)
    await asyncio.wait_for(waits, DEADLINE_SECONDS)


def wait(trigger: str | ArrivalTrigger, meanwhile: Callable[[], object]) -> None:
    assert isinstance(trigger, ArrivalTrigger), trigger
    asyncio.run(fired(trigger, meanwhile))


def test_a_folder_that_arrives_is_noticed_checked_and_told_in_the_question(carried: Carried) -> None:
    carried.prepare()
    carried.export()
    waiting = f"Manual Data transfer: WAITING (stored on '{carried.written}')"
    nothing = carried.look()
    by, reason = carried.closure
    assert by == CARRIED
    assert reason.startswith(f"{waiting}. Copy that folder with all that is in it to '{carried.arrived}'")
    assert carried.message == waiting

    # A part of it: no file is read.
    names = sorted(os.listdir(carried.written))
    wait(nothing, lambda: shutil.copytree(carried.written, carried.arrived, ignore=lambda *_: names[:1]))
    partial = carried.look()
    assert carried.closure[1].endswith(f"{len(names) - 1} of {len(names)} files are at {carried.arrived}.")
    assert carried.message == waiting

    # All of it, and one was damaged on its way.
    whole = (carried.written / names[0]).read_bytes()
    wait(partial, lambda: (carried.arrived / names[0]).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1])))
    damaged = carried.look()
    assert f"- {names[0]} is altered: its SHA-256 is another one" in carried.message
    assert f"- {names[0]} is altered: its SHA-256 is another one" in carried.closure[1]

    wait(damaged, lambda: (carried.arrived / names[0]).write_bytes(whole))
    found = f"Manual Data transfer: {len(names)} of {len(names)} files are there and verified ('{carried.arrived}')"
    assert carried.look() == carried.message == found
    assert carried.closure == (APPROVAL, found)


def test_what_the_slaves_own_machine_has_imported_is_noticed(carried: Carried) -> None:
    carried.prepare()
    carried.export()
    update, written = update_of(carried.work), transfer_form.written(carried.context)
    folder = TransferFolder(written)
    wait(carried.look(), lambda: import_in_threads(update, folder, folder.manifest(), 2))
    assert carried.look() == "Manual Data transfer: all files were imported on the slave's own machine"


def test_with_arrival_nobody_is_asked(carried: Carried) -> None:
    configure(carried.root, "arrival")
    carried.prepare()
    carried.export()
    shutil.move(carried.written, carried.root / "in")
    assert isinstance(carried.look(), str)
    assert str(APPROVE.execute(carried.context)).endswith("approve_transfer is arrival: nobody is asked")
    assert carried.closure == ("initial update", transfer_steps.IMPORTING)


def test_online_nothing_is_awaited(carried: Carried) -> None:
    carried.params["transfer"] = "online"
    with pytest.raises(AirflowSkipException):
        AWAIT.execute(carried.context)
