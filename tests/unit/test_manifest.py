"""The manifest and the names of carried files: exact, and safe against names that lead elsewhere."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.database import registry
from sluice.model.blocks import Block, BlockState
from sluice.model.location import Location, NoLocation, file_name, folder_name, is_file_name, is_folder_name
from sluice.model.manifest import Addressee, File, FileBlock, FileTable, Manifest, ManifestDamaged, faults
from sluice.model.names import Prefix, TableName
from sluice.model.shape import Column, TableShape
from sluice.vendors.postgres.snapshot_position import SnapshotPosition

SECOND = 1_000_000_000
NOW = 1_790_000_000 * SECOND
ORDERS = TableName("public", 'Odd "name".x')
MARKER = replace(SnapshotPosition(5, 9, frozenset({7}), 1, 2, 11, time="2026-01-01T00:00:00+00:00"), floors={7: 1})
keys = st.none() | st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.text())


def block(number: int, lo: Any = None, hi: Any = None) -> FileBlock:
    file = File(file_name(7, NOW + number), 10 + number, hashlib.sha256(b"%d" % number).hexdigest())
    return FileBlock(file, ORDERS, number, lo, hi, MARKER, 3, 40)


def manifest(*blocks: FileBlock) -> Manifest:
    shape = TableShape(ORDERS, (Column("id", "integer", 1, False, 1), Column("v", "text", 2, collation='"x"."y"')))
    return Manifest(
        Prefix("DEMO_"), (Addressee("dr1", "public", "empty", MARKER),), "manual__1", folder_name(NOW), False,
        (FileTable(shape, True),), blocks or (block(1, None, ("5",)), block(2, ("5",), None)),
        File(file_name(8, NOW + 9), 5, "0" * 64),
    )  # fmt: skip


def known(found: FileBlock, state: BlockState = BlockState.EXPORTED) -> Block:
    return Block(
        found.table, found.number, found.lo, found.hi, state, found.marker, found.rows, found.bytes,
        file=found.file.name, sha256=found.file.sha256,
    )  # fmt: skip


def forged(change: dict[str, Any]) -> str:
    """A manifest with other values and a SHA-256 that fits them."""
    values = json.loads(manifest().text())
    values.pop("sha256")
    for path, value in change.items():
        place: Any = values
        *way, last = path.split(".")
        for step in way:
            place = place[int(step)] if step.isdigit() else place[step]
        place[last] = value
    digest = hashlib.sha256((json.dumps(values, ensure_ascii=False, indent=1) + "\n").encode()).hexdigest()
    return json.dumps({**values, "sha256": digest}, ensure_ascii=False, indent=1) + "\n"


def test_a_written_manifest_is_read_again() -> None:
    assert Manifest.parse(manifest().text(), "here", registry.parse_position) == manifest()
    assert Manifest.parse(forged({}), "here", registry.parse_position) == manifest(), (
        "forging works, so that the next tests say something"
    )


@given(keys, keys, st.text(), st.integers(0, 10**15))
def test_any_keys_and_names_travel(lo: Any, hi: Any, name: str, rows: int) -> None:
    made = manifest(replace(block(1, lo, hi), rows=rows, table=TableName(name, name)))
    assert Manifest.parse(made.text(), "here", registry.parse_position) == made


def test_a_byte_flipped_anywhere_is_found() -> None:
    raw = manifest().text().encode()
    for place in range(len(raw)):
        for flip in (0x01, 0x20, 0x80):
            altered = bytearray(raw)
            altered[place] ^= flip
            try:
                text = altered.decode()
            except UnicodeDecodeError:
                continue
            with pytest.raises(ManifestDamaged):
                Manifest.parse(text, "here", registry.parse_position)


@pytest.mark.parametrize("cut", [0, 1, 100, -2, -1])
def test_a_manifest_that_was_cut_is_found(cut: int) -> None:
    with pytest.raises(ManifestDamaged, match=r"^here: .* Copy the folder again"):
        Manifest.parse(manifest().text()[:cut], "here", registry.parse_position)


@pytest.mark.parametrize(
    "change",
    [
        {"files.0.name": "../7-20260101T000000.000000000Z"},
        {"files.0.name": "/etc/passwd"},
        {"files.0.name": "7-20260101T000000.000000000Z/../x"},
        {"files.0.name": "7-20260101T000000.000000000Z\n"},
        {"files.0.name": ""},
        {"files.0.name": file_name(9, NOW)},
        {"files.0.name": "INCOMPLETE"},
        {"files.0.name": file_name(7, NOW + 2)},
        {"end.name": "../8-20260101T000000.000000000Z"},
        {"end.name": file_name(7, NOW)},
        {"folder": "../20260101T000000.000000Z"},
        {"folder": "."},
        {"format": "Sluice initial update, version 2"},
        {"files.0.size": None},
        {"files.0.marker": {}},
        {"files": {}},
        {"prefix": "no prefix"},
        {"tables.0.columns": [{"what": 1}]},
    ],
    ids=str,
)
def test_invalid_names_are_refused_even_with_a_valid_checksum(change: Any) -> None:
    with pytest.raises(ManifestDamaged):
        Manifest.parse(forged(change), "here", registry.parse_position)


def test_only_this_prefix_slave_and_update_are_taken() -> None:
    found, blocks = manifest(), [known(block) for block in manifest().blocks]
    assert faults(found, Prefix("DEMO_"), "dr1", "manual__1", blocks) == []
    assert "is for replication DEMO_, this one is OTHER_" in faults(found, Prefix("OTHER_"), "dr1", "manual__1", [])[0]
    assert "is for slave dr1, this one is dr2" in faults(found, Prefix("DEMO_"), "dr2", "manual__1", [])[0]
    (old,) = faults(found, Prefix("DEMO_"), "dr1", "manual__2", blocks)
    assert "of initial update manual__1, the slave waits for manual__2" in old


def test_files_must_match_what_the_slave_was_told() -> None:
    found = manifest()
    first, second = (known(block) for block in found.blocks)

    def wrong(*blocks: Block) -> list[str]:
        return faults(found, Prefix("DEMO_"), "dr1", "manual__1", blocks)

    assert "not what the slave was told" in wrong(replace(first, sha256="f" * 64), second)[0]
    assert "not what the slave was told" in wrong(replace(first, hi=("6",)), second)[0]
    assert "not what the slave was told" in wrong(replace(first, marker=SnapshotPosition(4, 9)), second)[0]
    assert "not in the manifest" in wrong(replace(first, file=file_name(7, NOW + 77)), second)[0]
    never = Block(ORDERS, 3)
    assert len(wrong(replace(first, sha256="f" * 64), replace(second, sha256="f" * 64), never)) == 3, "all at once"
    assert wrong(replace(first, state=BlockState.STORED), second) == []
    assert wrong(replace(never, state=BlockState.STORED), first, second) == []


@given(st.lists(st.integers(0, 4 * 10**18), min_size=2, max_size=5))
def test_names_sort_as_time_does_and_messages_come_last(moments: list[int]) -> None:
    moments.sort()
    names = [file_name(7, moment) for moment in moments]
    assert names == sorted(names)
    assert all(is_file_name(name, 7) for name in names)
    assert max(names) < file_name(8, moments[0]) < file_name(9, moments[0]), "whatever the clocks say"
    folders = [folder_name(moment) for moment in moments]
    assert folders == sorted(folders) and all(map(is_folder_name, folders))


@pytest.mark.parametrize("text", ["here", "./here", "/a/../b", "", "s3://", "s3://A_b/x", "file:///x", "/a\0b"])
def test_a_location_is_an_absolute_folder_or_in_s3(text: str) -> None:
    with pytest.raises(NoLocation, match=r"Write /some/folder or s3://bucket/prefix"):
        Location.parse(text)


@pytest.mark.parametrize("text", ["/", "/a", "/a b/c", "s3://bucket", "s3://bucket/a/b"])
def test_locations_are_shown_as_they_are_written(text: str) -> None:
    location = Location.parse(text)
    assert str(location) == text
    assert Location.parse(text.rstrip("/") + "/") == location or text == "/"
    assert location.below("x").parent == location
    assert location.below("x").name == "x"
