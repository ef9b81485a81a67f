"""The further steps of an initial update by files, beside those of `sluice.load.steps`.

probe → (begin, create tables, plan) → new folder → export → seal → … carried by hand … → examine → import
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from sluice.configuration.model import SlaveConfig
from sluice.configuration.placement import Placement
from sluice.control.blocks import BlockStore
from sluice.control.checkpoint import CheckpointStore
from sluice.counted import counted
from sluice.database.errors import DatabaseRefused
from sluice.database.registry import master_of
from sluice.database.session import Session
from sluice.errors import SluiceError, Terminal, Transient
from sluice.load import steps
from sluice.load.load_ownership import LoadEnded, owner_of
from sluice.load.transfer.transfer_folder import NotComplete, TransferFolder, new_folder
from sluice.load.update import LoadTarget, SlaveAlone, Update, on_master, on_slave
from sluice.model.blocks import Block, BlockState
from sluice.model.connection import ConnectionInfo
from sluice.model.location import (
    BLOCK_PRIORITY,
    END_PRIORITY,
    INCOMPLETE,
    MANIFEST_PRIORITY,
    Location,
    S3Access,
    is_file_name,
    is_folder_name,
)
from sluice.model.manifest import Addressee, File, FileBlock, FileTable, Manifest, ManifestDamaged, faults, order
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.slave_state import SlaveState
from sluice.storage.folder import LocationUnusable
from sluice.storage.opening import open_location
from sluice.transform.transforms import Transforms

log = logging.getLogger("sluice.load")

# One export for several slaves: the master is read once, and every slave gets the folder.
#
# One of the slaves leads: its BLOCKS decide what is read, as for a single slave. The blocks of the others are
# *begun* from their start positions on (`sluice.load.steps.plan`), so that an apply waits with every change: it
# must not drop one that an earlier read block lacks. When all is exported they are replaced by the leader's blocks,
# with their markers, each slave in a separate transaction. From then on no slave depends on the others.


def addressed(update: Update, tables: Iterable[TableName]) -> Addressee:
    """The slave of `update` for a manifest of `tables`. Raises `LoadEnded`, and errors of the session."""
    with on_slave(update) as slave:
        checkpoint = CheckpointStore.of(update, slave).read()
    if checkpoint is None or checkpoint.position is None:
        raise LoadEnded.of(update, checkpoint)
    names = tuple(update.placement.places(tables).items())
    return Addressee(update.slave.name, update.slave.schema, update.slave.existing_tables, checkpoint.position, names)


def adopted_by(first: Update, updates: Sequence[Update], blocks: Sequence[Block]) -> list[Addressee]:
    """Gives the `blocks` exported for the `first` slave to the others. Returns those that have them now.

    Logs why another one has not.
    """
    tables = sorted({block.table for block in blocks})
    with on_slave(first) as slave:
        states = CheckpointStore.of(first, slave).configured().tables
    left_out = {table: states.reasons.get(table, "") for table in states if table not in tables}
    addressees = []
    for update in updates:
        try:
            other = [str(table) for table in tables if update.transformation(table) != first.transformation(table)]
            if other:
                raise Terminal(
                    f"{update}: `where`, `columns` or `exit` of {', '.join(other)} are not those of the slave that the "
                    "files were written for. Start an initial update of this slave alone.",
                    code="other-rows-exported",
                )
            adopt(update, blocks, left_out)
            addressees.append(addressed(update, tables))
        except SluiceError as error:
            log.error("%s: the folder will not be for this slave: %s", update, error)
    return addressees


def adopt(update: Update, blocks: Sequence[Block], left_out: Mapping[TableName, str]) -> None:
    """Replaces the slave's begun blocks by the exported `blocks`; does nothing if that was done.

    `left_out`: tables that could not be exported → why; they are inconsistent here, too.
    Raises `LoadEnded`, `other-tables-exported`, and errors of the session.
    """
    with on_slave(update) as slave, slave.transaction():
        checkpoints = CheckpointStore.of(update, slave)
        checkpoints.read(lock=True)
        owner = owner_of(update, slave)
        if owner is None or owner.update_id != update.update_id or owner.state is not SlaveState.TRANSITION:
            raise LoadEnded.of(update, owner)
        own = BlockStore.of(update, slave).map().tables
        if not any(block.file is None for table in own.values() for block in table.blocks):
            return
        refused = {table: why for table, why in left_out.items() if table in own}
        if different := own.keys() ^ refused.keys() ^ {block.table for block in blocks}:
            raise Terminal(
                f"{update}: {', '.join(sorted(map(str, different)))} came or went while the slaves were prepared, so "
                "that the export is not whole for this one. Start an initial update of this slave alone.",
                code="other-tables-exported",
            )
        if refused:
            checkpoints.put_tables(checkpoints.configured().tables.leave_out(refused))
        store = BlockStore.of(update, slave)
        store.delete()
        store.adopt(blocks)
    log.info("%s: has the %s exported blocks as its own", update, len(blocks))


QUEUEING = "Manual Data transfer: the initial data is being written to files, changes are queued"
IMPORTING = "Manual Data transfer: the files are being imported, changes are queued"
WAITING = "Manual Data transfer: WAITING (stored on '{}')"
BY_HAND = "Manual Data transfer: all files were imported on the slave's own machine"
ARRIVED = "Manual Data transfer: {0} of {0} files are there and verified ('{1}')"
"""Messages of the slave, as in docs/manual-transfer.md."""
CHECKERS = 4
"""Files whose SHA-256 is computed at the same time."""


class NotAsSent(Terminal):
    """The files at the slave's location are not those that were sent; `problems`: one sentence each."""

    def __init__(self, target: LoadTarget, location: Location, problems: list[str]):
        listed = "\n".join(f"- {problem}" for problem in problems)
        super().__init__(
            f"{target}: the files at {location} cannot be imported. Nothing was loaded.\n{listed}\n"
            "Fix these, then try again."
        )
        self.problems = problems


class NothingExported(Terminal):
    """The slave does not wait for files."""

    def __init__(self, target: LoadTarget, why: str):
        super().__init__(f"{target}: {why}. Start an initial update with transfer: files.")


def probe(location: Location, access: S3Access) -> None:
    """Checks that the location can be written. Raises `LocationUnusable`, `location-full`, `LocationUnreachable`."""
    open_location(location, access).probe()


def folder_of(update: LoadTarget, location: Location, access: S3Access, key: bytes | None) -> TransferFolder:
    """The folder of this update, made at the first call."""
    return new_folder(location, access, key, f"{update.prefix} {update.slave.name} {update.update_id}")


def seal(update: Update, transfer_folder: TransferFolder, others: Sequence[Update] = ()) -> Manifest:
    """Writes the two end-of-update messages when all blocks are exported; returns the manifest, also of a former call.

    `others`: the same update for other slaves, which get the same blocks; the manifest names those that do. The slaves'
    message becomes `WAITING`. Raises `NotComplete` while blocks are missing, errors of the folder.
    """
    try:
        manifest = transfer_folder.manifest()
    except NotComplete:
        manifest = _manifest(update, transfer_folder, others)
        transfer_folder.finish(manifest)
    transfer_folder.folder.remove(INCOMPLETE)
    for each in (update, *others):
        if each.slave.name in manifest.names:
            _note_waiting(each, transfer_folder)
    log.info(
        "%s: written to %s: %s with %s. Carry that folder to the slave's location, then approve",
        update, transfer_folder.location, counted(len(manifest.blocks), "file"),
        counted(sum(block.rows for block in manifest.blocks), "row"),
    )  # fmt: skip
    return manifest


def _note_waiting(update: Update, transfer_folder: TransferFolder) -> None:
    try:
        steps.note(update, WAITING.format(transfer_folder.location))
    except SluiceError as error:
        log.warning("%s: the slave's message could not be written: %s", update, error)


def left_to_import(target: LoadTarget) -> int:
    """How many blocks are not imported yet. Raises `LoadEnded`, `NothingExported`, `Transient`."""
    return sum(block.state is not BlockState.STORED for block in _waiting(target))


def files_of(manifest: Manifest) -> int:
    """How many files a whole folder has, the manifest among them."""
    return len(manifest.files) + 1


def examine(target: LoadTarget, transfer_folder: TransferFolder, *, on_its_way: bool = False) -> Manifest:
    """Reads the whole folder, and checks its files, sizes and SHA-256, and that it is for this slave and update.

    `on_its_way`: nothing is read before all files are there with their sizes. Raises `NotAsSent` with all problems,
    `NotComplete` and `transfer-incomplete` for a folder on its way, `LoadEnded`, `NothingExported`, `Transient`.
    """
    blocks = _waiting(target)
    try:
        manifest = transfer_folder.manifest()
    except (NotComplete, ManifestDamaged, LocationUnusable) as error:
        if on_its_way and isinstance(error, NotComplete):
            raise
        raise NotAsSent(target, transfer_folder.location, [str(error)]) from error
    problems = faults(manifest, target.prefix, target.slave.name, target.update_id, blocks)
    if not problems:
        stored = {block.file for block in blocks if block.state is BlockState.STORED}
        files = [file for file in manifest.files if file.name not in stored]
        if on_its_way:
            _expect_all(transfer_folder, manifest, files)
        problems = damaged(transfer_folder, files)
    if problems:
        raise NotAsSent(target, transfer_folder.location, problems)
    return manifest


def _expect_all(transfer_folder: TransferFolder, manifest: Manifest, files: Iterable[File]) -> None:
    sizes = transfer_folder.folder.sizes()
    absent = sum(sizes.get(file.name, -1) < file.size for file in files)
    if absent:
        of = files_of(manifest)
        raise Terminal(
            f"{(of - absent)} of {counted(of, 'file')} are at {transfer_folder.location}.", code="transfer-incomplete"
        )


def damaged(transfer_folder: TransferFolder, files: Iterable[File]) -> list[str]:
    """The faults of `files` in the folder, one sentence each."""
    sizes = transfer_folder.folder.sizes()

    def fault(file: File) -> str | None:
        try:
            reason = transfer_folder.fault(file, sizes.get(file.name))
        except Transient:
            raise
        except SluiceError as error:
            return f"{file.name}: {error}"
        return f"{file.name} {reason}" if reason else None

    with ThreadPoolExecutor(CHECKERS) as pool:
        return [sentence for sentence in pool.map(fault, files) if sentence]


def at(location: Location, name: str) -> Location:
    """The folder `name` at `location`, or `location` itself if it is that folder."""
    return location if location.name == name else location.below(name)


def found_for(
    location: Location, access: S3Access, key: bytes | None, slave_info: ConnectionInfo, slave: str | None
) -> tuple[TransferFolder, LoadTarget]:
    """The newest folder at `location` that the slave waits for, and the slave as the manifest describes it.

    `location` may be that folder itself. Raises `NotComplete` with the reason for each folder, and errors
    of the folder and of the slave's server.
    """
    names = [location.name] if is_folder_name(location.name) else []
    root = location.parent if names else location
    reasons: list[str] = []
    for name in names or reversed(open_location(location, access).folders()):
        transfer_folder = TransferFolder(root.below(name), access, key)
        try:
            manifest = transfer_folder.manifest()
            matching = [one for one in manifest.slaves if slave is None or one.name == slave]
            if len(matching) != 1:
                raise NotComplete(
                    transfer_folder.location, f"is for slave {', '.join(manifest.names)}: name one of them with --slave"
                )
            (to,) = matching
            config = SlaveConfig(to.name, "", slave_info.vendor, to.schema, existing_tables=to.existing_tables)
            places = Placement.of_tables(dict(to.places))
            target = SlaveAlone(manifest.prefix, config, slave_info, manifest.update_id, places)
            left_to_import(target)
            return transfer_folder, target
        except DatabaseRefused:
            raise
        except Terminal as error:
            reasons.append(str(error))
    listed = "".join(f"\n- {reason}" for reason in reasons)
    raise NotComplete(location, f"has no folder that this slave waits for{':' + listed if listed else ''}")


def _waiting(target: LoadTarget) -> list[Block]:
    """All blocks of the slave, which belongs to this update. Raises `LoadEnded`, `NothingExported`."""
    with on_slave(target) as slave:
        owner = owner_of(target, slave)
        if owner is None:
            raise NothingExported(target, "the slave was never configured")
        if owner.update_id != target.update_id:
            raise NothingExported(
                target, f"the slave is {owner.state} and belongs to initial update {owner.update_id}, not to "
                f"{target.update_id}"
            )  # fmt: skip
        if owner.state not in (SlaveState.TRANSITION, SlaveState.NORMAL):
            raise LoadEnded.of(target, owner)
        blocks = _all(target, slave)
    if not any(block.file for block in blocks):
        raise NothingExported(target, "no block of this update was exported to a file")
    return blocks


def _manifest(update: Update, transfer_folder: TransferFolder, others: Sequence[Update]) -> Manifest:
    with on_slave(update) as slave:
        blocks = _all(update, slave)
    unfinished = [block for block in blocks if block.file is None or block.state is not BlockState.EXPORTED]
    if unfinished:
        raise NotComplete(transfer_folder.location, f"lacks {len(unfinished)} of {counted(len(blocks), 'block')}")
    names = list(dict.fromkeys(block.table for block in blocks))
    with on_master(update) as master:
        tables = _tables(update, master, names)
    named = {str(block.file) for block in blocks}
    sizes = transfer_folder.folder.sizes()
    # Files of loaders that were killed before BLOCKS had their file, and of earlier tries of this step.
    for name in sizes:
        stray = is_file_name(name, BLOCK_PRIORITY) and name not in named
        if stray or is_file_name(name, END_PRIORITY) or is_file_name(name, MANIFEST_PRIORITY):
            transfer_folder.folder.remove(name)
    gone = sorted(named - set(sizes))
    if gone:
        raise NotComplete(transfer_folder.location, f"lacks files that were written: {', '.join(gone)}")
    listed = [
        FileBlock(
            File(str(block.file), sizes[str(block.file)], str(block.sha256)),
            block.table, block.number, block.lo, block.hi, _marker(block), block.rows, block.bytes,
        )
        for block in blocks
    ]  # fmt: skip
    addressees = (addressed(update, names), *adopted_by(update, others, blocks))
    end = transfer_folder.end_message(len(listed), sum(block.rows for block in listed))
    return Manifest(
        update.prefix,
        addressees,
        update.update_id,
        transfer_folder.location.name,
        transfer_folder.key is not None,
        tuple(tables),
        order(listed),
        end,
    )


def _tables(update: Update, master: Session, names: list[TableName]) -> list[FileTable]:
    """The tables among `names` that the master still has, transformed for the slave."""
    rows, transforms = master_of(update.master_info.vendor).rows, Transforms(update.replication, update.slave)
    tables = []
    for shape in rows.shapes(master, names).values():
        transform = transforms.of(shape, master)
        transformed = shape if transform is None else transform.shape
        tables.append(FileTable(transformed, rows.key_order(master, shape).same_everywhere))
    return tables


def _all(target: LoadTarget, slave: Session) -> list[Block]:
    return [block for table in BlockStore.of(target, slave).map().tables.values() for block in table.blocks]


def _marker(block: Block) -> Position:
    assert block.marker is not None, "an exported block has its marker"
    return block.marker
