"""A redo proxy over disk groups of ASM. Storage and its driver are stand-ins: no ASM instance was at hand.

`Instance` answers the statements of include/sql/oracle/asm_*.sql as DBMS_DISKGROUP is described: no first block, 32,767
bytes a call at most.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import oracledb
import pytest
from oracledb import errors as driver_errors

from sluice.cli.streams import CannotServe, files_of
from sluice.database.errors import DatabaseUnreachable
from sluice.redo import blocks
from sluice.redo.disk_groups import ServedDiskGroups
from sluice.redo.proxy import Refused
from sluice.redo.stager import Archive, Entry, Stager
from sluice.vendors.oracle.source.asm import LARGEST_RAW, Disks
from tests.unit import redo_vectors

FOLDER = "+FRA/ORCL/ARCHIVELOG"
LOG = f"{FOLDER}/2026_11_23/thread_1_seq_15.261.1224959854"
HEADER = blocks.LogHeader(1, 15, 1_224_959_854, 8_000, 9_000, 200)


def log_of(header: blocks.LogHeader) -> bytes:
    """A whole log, as in a file system."""
    assert header.blocks is not None
    made = [blocks.block(number, header.sequence, b"%d" % number * 50) for number in range(2, header.blocks)]
    return b"".join([blocks.first_block(512, header.blocks - 1), blocks.header_block(header), *made])


class Value:
    """A variable of the driver."""

    def __init__(self) -> None:
        self.value: Any = None

    def setvalue(self, position: int, value: Any) -> None:
        assert position == 0
        self.value = value

    def getvalue(self) -> Any:
        return self.value


class Instance:
    """An ASM instance with these files, and the cursors of its connections."""

    def __init__(self, files: dict[str, bytes]):
        self.contents = files
        self.opened: dict[int, str] = {}
        self.connections = 0
        self.away = False

    def connect(self) -> "Instance":
        self.connections += 1
        return self

    def cursor(self) -> "Instance":
        return self

    def close(self) -> None:
        pass

    def var(self, kind: Any, size: int = 0) -> Value:
        return Value()

    def execute(self, statement: str, values: dict[str, Any]) -> None:
        if self.away:
            raise raised(3113, "end-of-file on communication channel")
        self.found = values
        call = next(call for call in CALLS if call in statement)
        CALLS[call](self, values)

    def attributes(self, values: dict[str, Any]) -> None:
        if values["name"] not in self.contents:
            raise raised(15173, f"entry '{values['name']}' does not exist")
        values["kind"].value, values["block_size"].value = 4, 512
        values["blocks"].value = len(self.contents[values["name"]]) // 512 - 1

    def open(self, values: dict[str, Any]) -> None:
        assert (values["kind"], values["block_size"]) == (4, 512)
        values["handle"].value = len(self.opened) + 1
        self.opened[values["handle"].value] = values["name"]

    def read(self, values: dict[str, Any]) -> None:
        length = values["length"].getvalue()
        assert values["block"] >= 1, "the first block cannot be read"
        assert 0 < length <= LARGEST_RAW
        at = values["block"] * 512
        data = self.contents[self.opened[values["handle"]]][at : at + length]
        values["data"].value, values["length"].value = data or None, len(data)

    def shut(self, values: dict[str, Any]) -> None:
        del self.opened[values["handle"]]

    def listed(self, values: dict[str, Any]) -> None:
        assert values["disk_group"] == "FRA"

    def fetchall(self) -> list[tuple[Any, ...]]:
        logs = [(name.removeprefix("+FRA"), len(data) // 512, 512, 0) for name, data in self.contents.items()]
        return [*logs, ("/ORCL/ARCHIVELOG/users.257.1", 12_801, 8_192, 0), ("/ORCL/an alias", None, None, None)]


CALLS: dict[str, Callable[[Instance, dict[str, Any]], None]] = {
    "GETFILEATTR": Instance.attributes,
    "DBMS_DISKGROUP.OPEN": Instance.open,
    "DBMS_DISKGROUP.READ": Instance.read,
    "DBMS_DISKGROUP.CLOSE": Instance.shut,
    "V$ASM_ALIAS": Instance.listed,
}


def raised(code: int, text: str) -> oracledb.Error:
    """The error that the driver raises for a server's answer."""
    info = driver_errors._Error(message=f"ORA-{code:05}: {text}", code=code)
    return info.exc_type(info)


@pytest.fixture
def instance() -> Iterator[Instance]:
    made = Instance({LOG: log_of(HEADER)})
    yield made
    assert made.opened == {}, "every file was closed"


def served(instance: Instance) -> ServedDiskGroups:
    return ServedDiskGroups([FOLDER], Disks(instance.connect, "sys@asm:1521/+ASM"))


class Brought:
    """Like `sluice.redo.stager.Files`, without HTTP."""

    def __init__(self, files: ServedDiskGroups):
        self.served = files

    def files(self, folder: str) -> list[Entry]:
        return [Entry(each.name, each.size) for each in self.served.files(folder)]

    def read(self, path: str, offset: int, length: int) -> bytes:
        return self.served.read(path, offset, length)


@pytest.mark.parametrize(
    ("offset", "length"),
    [(0, 8192), (0, 1), (511, 2), (512, 512), (513, 30_000), (1_000, 100_000), (102_399, 9), (102_400, 9), (0, 0)],
)
def test_any_piece_of_a_log_is_as_in_a_file_with_a_first_block(instance: Instance, offset: int, length: int) -> None:
    whole = log_of(HEADER)
    assert len(whole) == 102_400
    assert served(instance).read(LOG, offset, length) == whole[offset : offset + length]
    assert served(instance).attributes(LOG).size == len(whole)


def test_a_real_log_has_all_fields_that_readers_use() -> None:
    whole = (redo_vectors.required() / "redo" / "arch1_16_1224959854.dbf").read_bytes()
    found = served(Instance({LOG: whole})).read(LOG, 0, len(whole))
    assert blocks.block_size(found) == blocks.block_size(whole)
    assert found[512:] == whole[512:]
    assert found[20:32] == whole[20:32], "size of a block, number of blocks, order of bytes"


def test_a_stager_brings_a_log_out_of_a_disk_group(instance: Instance, tmp_path: Path) -> None:
    stager = Stager(Archive(Brought(served(instance)), [FOLDER]), tmp_path, 1, HEADER.resetlogs, piece=8192)
    assert stager.turn() == 1
    assert stager.file(15).read_bytes() == log_of(HEADER)


def test_only_what_can_be_a_log_below_a_root_is_listed(instance: Instance) -> None:
    instance.contents["+FRA/OTHER/ARCHIVELOG/thread_1_seq_1"] = b"\0" * 1024
    assert [each.name for each in served(instance).files(FOLDER)] == [LOG.removeprefix(f"{FOLDER}/")]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("+FRA/OTHER/log", 403),
        ("+DATA/ORCL/ARCHIVELOG/log", 403),
        (f"{FOLDER}X/log", 403),
        (f"{FOLDER}/../OTHER/log", 400),
        (f"{FOLDER}/a'; DROP", 400),
        ("/etc/passwd", 400),
        (f"{FOLDER}/none", 404),
    ],
)
def test_paths_that_are_not_served_are_refused(instance: Instance, path: str, status: int) -> None:
    with pytest.raises(Refused) as refused:
        served(instance).read(path, 0, 10)
    assert refused.value.status == status


def test_an_instance_that_was_away_is_asked_over_a_new_connection(instance: Instance) -> None:
    files = served(instance)
    instance.away = True
    with pytest.raises(Refused) as refused:
        files.read(LOG, 0, 10)
    assert refused.value.status == 503
    instance.away = False
    assert len(files.read(LOG, 0, 600)) == 600
    assert instance.connections == 2


def test_a_root_in_a_disk_group_needs_its_instance() -> None:
    with pytest.raises(CannotServe, match="Give --asm"):
        files_of([FOLDER], None)
    with pytest.raises(DatabaseUnreachable):
        files_of([FOLDER], "oracle://sys@127.0.0.1:1/+ASM")
