"""Folders of carried files in a directory and in S3: only whole files, none replaced, nothing outside touched."""

import gzip
import os
import random
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.load.transfer.transfer_folder import FileDamaged, NotComplete, TransferFolder, new_folder
from sluice.load.transfer.transfer_steps import damaged, probe
from sluice.model.location import INCOMPLETE, Location, S3Access, file_name, is_folder_name
from sluice.model.manifest import File
from sluice.storage.folder import FileGone, FileThere, LocationUnusable
from tests.errors import raises_code

KEY = bytes(range(32))
NAME = file_name(7, 1)


def carried_at(location: tuple[Location, S3Access], key: bytes | None = None) -> TransferFolder:
    return new_folder(*location, key, "DEMO_ dr1 update")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"endpoint": "minio:9000"}, "Invalid endpoint: minio:9000"),
        ({"endpoint": "http://127.0.0.1:1", "region": "no region"}, "no region"),
    ],
)
def test_an_access_to_s3_that_can_never_work_needs_a_person(values: dict[str, str], said: str) -> None:
    access = S3Access("key", "a secret", **{"region": "us-east-1", **values})
    with pytest.raises(LocationUnusable, match=said) as raised:
        probe(Location.parse("s3://carried/in"), access)
    assert "a secret" not in str(raised.value)


@pytest.mark.long
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_a_file_is_read_as_it_was_written(location: tuple[Location, S3Access], key: bytes | None) -> None:
    carried = carried_at(location, key)
    data = os.urandom(20_000_000) + bytes(3_000_000)
    file = carried.write(NAME, [data[place : place + 130_000] for place in range(0, len(data), 130_000)])
    assert b"".join(carried.read(file)) == data
    assert carried.folder.sizes()[NAME] == file.size
    assert damaged(carried, [file]) == []


def test_a_folder_is_named_by_a_unique_moment_and_found_again_by_its_update(
    location: tuple[Location, S3Access],
) -> None:
    first = carried_at(location)
    assert is_folder_name(first.location.name)
    assert carried_at(location).location == first.location
    assert new_folder(*location, None, "DEMO_ dr1 another").location != first.location


def test_every_change_of_a_folder_changes_its_fingerprint(location: tuple[Location, S3Access]) -> None:
    """S3's times are whole seconds: there another content of the same size is seen by its ETag."""
    carried, seen = carried_at(location), set[str]()
    elsewhere = carried.location.parent.below("20200101T000000.000000Z")
    assert TransferFolder(elsewhere, carried.access).folder.fingerprint() == ""
    for content in ("one", "two", "longer"):
        carried.folder.remove(NAME)
        carried.write(NAME, [content.encode()], compressed=False)
        seen |= {carried.folder.fingerprint(), carried.folder.fingerprint()}
    carried.folder.remove(NAME)
    assert len(seen | {carried.folder.fingerprint()}) == 4


def test_two_updates_at_the_same_moment_get_different_folders(
    location: tuple[Location, S3Access], monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter([5_000, 5_000, 5_999, 6_000])
    monkeypatch.setattr("time.time_ns", lambda: next(moments))
    one = new_folder(*location, None, "one").location
    assert new_folder(*location, None, "two").location != one


def test_many_at_once_get_different_folders(location: tuple[Location, S3Access]) -> None:
    made: list[Location] = []
    threads = [
        threading.Thread(target=lambda number: made.append(new_folder(*location, None, f"{number}").location), args=[n])
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8


@pytest.mark.parametrize("size", [10, 9_000_000])
def test_a_file_that_was_not_finished_is_not_there(location: tuple[Location, S3Access], size: int) -> None:
    carried = carried_at(location)

    def pieces() -> Iterator[bytes]:
        yield os.urandom(size)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        carried.write(NAME, pieces())
    assert set(carried.folder.sizes()) == {INCOMPLETE}
    if location[0].bucket is None:
        assert os.listdir(carried.location.path) == [INCOMPLETE], "nothing is left aside"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("size", [10, 9_000_000])
def test_a_file_is_never_replaced(location: tuple[Location, S3Access], size: int) -> None:
    carried = carried_at(location)
    file = carried.write(NAME, [os.urandom(size)])
    with pytest.raises(FileThere):
        carried.write(NAME, [os.urandom(size)])
    assert damaged(carried, [file]) == []


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_a_byte_flipped_or_lost_anywhere_is_found_by_the_check_and_by_the_reader(
    tmp_path: Path, key: bytes | None
) -> None:
    carried = new_folder(Location.parse(str(tmp_path)), S3Access(), key, "x")
    file = carried.write(NAME, [random.Random(3).randbytes(3_000), b"a,b\n" * 2_000])
    path = Path(carried.location.path) / NAME
    whole = path.read_bytes()
    chance = random.Random(7)
    for place in [*range(40), *range(len(whole) - 40, len(whole)), *chance.sample(range(len(whole)), 200)]:
        altered = bytearray(whole)
        altered[place] ^= chance.randint(1, 255)
        for content in (bytes(altered), whole[:place]):
            path.write_bytes(content)
            assert len(damaged(carried, [file])) == 1
            with pytest.raises(FileDamaged):
                for _ in carried.read(file):
                    pass
    for content in (whole + b"x", whole + whole, whole + gzip.compress(b"more")):
        path.write_bytes(content)
        assert len(damaged(carried, [file])) == 1
        with pytest.raises(FileDamaged):
            for _ in carried.read(file):
                pass


def test_links_pipes_and_folders_in_place_of_files_are_not_read(tmp_path: Path) -> None:
    carried = new_folder(Location.parse(str(tmp_path)), S3Access(), None, "x")
    file = carried.write(NAME, [b"rows"])
    path = Path(carried.location.path) / NAME
    whole = path.read_bytes()
    path.rename(tmp_path / "elsewhere")

    def make_link() -> None:
        path.symlink_to(tmp_path / "elsewhere")

    for make, words in ((make_link, "is a link"), (lambda: os.mkfifo(path), "no plain"), (path.mkdir, "no plain")):
        make()
        (fault,) = damaged(carried, [file])
        assert words in fault
        with pytest.raises(FileGone):
            next(carried.read(file))
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    assert damaged(carried, [file]) == [f"{NAME} is missing"]
    path.write_bytes(whole)
    assert damaged(carried, [file]) == []


def test_a_folder_that_is_a_link_is_not_entered(tmp_path: Path) -> None:
    carried = new_folder(Location.parse(str(tmp_path)), S3Access(), None, "x")
    real = Path(carried.location.path)
    real.rename(tmp_path / "elsewhere")
    real.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileGone):
        carried.folder.sizes()
    with pytest.raises(NotComplete):
        carried.manifest()


def test_a_location_that_does_not_exist_or_must_not_be_written_is_reported(tmp_path: Path, s3: S3Access) -> None:
    with pytest.raises(LocationUnusable, match=r"/gone: is no directory on this machine\. Create it"):
        probe(Location.parse(str(tmp_path / "gone")), S3Access())
    with pytest.raises(LocationUnusable, match=r"The account .* must be able to read and write"):
        probe(Location.parse("/proc/self"), S3Access())
    with pytest.raises(LocationUnusable, match=r"NoSuchBucket.* Check the bucket"):
        probe(Location.parse("s3://no-such-bucket/x"), s3)
    probe(Location.parse(str(tmp_path)), S3Access())
    probe(Location.parse("s3://carried/x"), s3)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_location_that_runs_full_says_so_and_the_folder_says_that_it_is_incomplete(small_disk: Path) -> None:
    carried = new_folder(Location.parse(str(small_disk)), S3Access(), None, "x")
    with raises_code("location-full", match="its folder says that it is incomplete"):
        carried.write(NAME, [os.urandom(3_000_000)])
    assert set(carried.folder.sizes()) == {INCOMPLETE}
    with pytest.raises(NotComplete, match="it is incomplete"):
        carried.manifest()
    (small_disk / "filler").write_bytes(b"x" * 1_990_000)
    with raises_code("location-full"):
        probe(Location.parse(str(small_disk)), S3Access())


def test_a_file_opens_with_gzip(tmp_path: Path) -> None:
    carried = new_folder(Location.parse(str(tmp_path)), S3Access(), None, "x")
    file: File = carried.write(NAME, [b"id,v\n1,", b'""\n'])
    found = subprocess.run(
        ["gzip", "-dc"], input=(Path(carried.location.path) / NAME).read_bytes(), capture_output=True
    )
    assert found.stdout == b'id,v\n1,""\n'
    sums = subprocess.run(["sha256sum", NAME], cwd=carried.location.path, capture_output=True, text=True).stdout
    assert sums.split()[0] == file.sha256
