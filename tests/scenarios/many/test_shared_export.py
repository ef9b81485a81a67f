"""One export serves several slaves: the master is read once, and each slave goes its own way from the folder on."""

from collections import Counter
from pathlib import Path

import pytest

from sluice.control.blocks import BlockStore
from sluice.load import steps
from sluice.load.load_ownership import LoadEnded
from sluice.load.transfer import transfer_steps
from sluice.load.transfer.importer import import_in_threads
from sluice.load.transfer.transfer_folder import NotComplete, TransferFolder
from sluice.load.update import Update
from sluice.model.blocks import BlockState
from sluice.model.location import Location, S3Access
from sluice.model.manifest import Manifest
from sluice.model.slave_state import SlaveState
from tests.rig.net import Net, until
from tests.scenarios.initial_files.carrying import export
from tests.scenarios.initial_load.traffic import Traffic, Writable
from tests.scenarios.many.conftest import of_three_slaves

ORDERS = Writable("public.orders", ("id",), "floor(random() * 900)::int")


@pytest.fixture
def three(net: Net) -> Net:
    return of_three_slaves(net, third=", existing_tables: refuse")


def prepared(net: Net, *names: str) -> list[Update]:
    """The update of these slaves up to TRANSITION; the first one leads."""
    net.capture("DEMO_")
    updates = [net.update("DEMO_", name, "the update") for name in names]
    for update in updates:
        steps.begin(update, net.store)
        steps.create_tables(update)
    for update in reversed(updates):
        steps.plan(update, net.store, transfer_steps.QUEUEING, for_another=update is not updates[0])
    return updates


def exported(updates: list[Update], folder: Path) -> tuple[TransferFolder, Manifest]:
    folder.mkdir()
    carried = transfer_steps.folder_of(updates[0], Location.parse(str(folder)), S3Access(), None)
    export(updates[0], carried)
    return carried, transfer_steps.seal(updates[0], carried, updates[1:])


def imported(net: Net, update: Update, carried: TransferFolder) -> None:
    manifest = transfer_steps.examine(update, carried)
    steps.open_gate(update, net.store)
    import_in_threads(update, carried, manifest, 2)


@pytest.mark.long
def test_the_master_is_read_once_for_three_slaves(three: Net, reads: Counter[str], tmp_path: Path) -> None:
    net = three
    updates = prepared(net, "one", "two", "three")
    pairs = [("DEMO_", update.slave.name) for update in updates]
    # Even with open gates an apply waits with what it cannot decide yet.
    net.store.flushall()
    with net.applying(*pairs) as running:
        with Traffic(net.infos["m"], [ORDERS], writers=2) as traffic:
            until(lambda: traffic.transactions > 30, running)
            carried, manifest = exported(updates, tmp_path / "out")
            assert manifest.names == ["one", "two", "three"]
            assert reads == Counter(block.table.name for block in manifest.blocks)
            assert len(manifest.blocks) > 3
            for update in updates:
                found = net.checkpoint("DEMO_", update.slave.name)
                assert found and found.message == transfer_steps.WAITING.format(carried.location)
            # One after another, and each becomes NORMAL by itself.
            for update in updates:
                imported(net, update, carried)
                until(lambda update=update: net.state("DEMO_", update.slave.name) is SlaveState.NORMAL, running)
                steps.finish(update)
        assert sum(reads.values()) == len(manifest.blocks)
        for pair in pairs:
            net.await_current(*pair, running)
    for conn_id in ("s1", "s2", "s3"):
        net.assert_equal("m", conn_id, "orders", "heap")


@pytest.mark.long
def test_a_slave_that_fails_leaves_the_others_alone(three: Net, tmp_path: Path) -> None:
    net = three
    updates = prepared(net, "one", "two", "three")
    one, two, three_ = updates
    # The second one is canceled while the first one leads the export, and the third goes down before it ends.
    steps.cancel(two, net.store, "the disk of two is broken")
    info = net.infos["s3"]
    net.infos["s3"] = type(info)(info.vendor, info.host, 1, info.database, info.user, info.password, info.options)
    unreachable = net.update("DEMO_", "three", "the update")
    carried, manifest = exported([one, two, unreachable], tmp_path / "out")
    assert manifest.names == ["one"]
    assert transfer_steps.examine(one, carried) == manifest
    net.infos["s3"] = info
    with pytest.raises(LoadEnded, match="the disk of two is broken"):
        transfer_steps.examine(two, carried)
    with pytest.raises(transfer_steps.NothingExported, match="no block of this update was exported"):
        transfer_steps.examine(three_, carried)
    held = BlockStore(net.sessions["s3"], three_.prefix, "public", "three").map().tables.values()
    assert {block.state for table in held for block in table.blocks} == {BlockState.BEGUN}
    steps.cancel(three_, net.store)
    with net.applying(("DEMO_", "one")) as running:
        imported(net, one, carried)
        net.await_current("DEMO_", "one", running)
    net.assert_equal("m", "s1", "orders", "heap")


def test_the_folder_is_for_those_it_names_alone(three: Net, tmp_path: Path) -> None:
    net = three
    updates = prepared(net, "one", "two")
    carried, manifest = exported(updates, tmp_path / "out")
    assert {slave.name: (slave.schema, slave.existing_tables) for slave in manifest.slaves} == {
        "one": ("public", "empty"), "two": ("own", "keep"),
    }  # fmt: skip
    with pytest.raises(NotComplete, match="is for slave one, two: name one of them with --slave"):
        transfer_steps.found_for(carried.location, carried.access, None, net.infos["s2"], None)
    _, target = transfer_steps.found_for(carried.location, carried.access, None, net.infos["s2"], "two")
    assert (target.slave.schema, target.slave.existing_tables) == ("own", "keep")
    assert transfer_steps.seal(updates[0], carried, updates[1:]) == manifest, "a step that is run again finds it"
