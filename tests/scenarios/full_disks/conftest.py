"""Small file systems that a test fills."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from devstack.account import new_folder

MB = 1 << 20


@dataclass(frozen=True)
class Disk:
    """An ext4 file system in a file."""

    folder: Path

    def fill(self) -> None:
        """Until nobody finds room for a block."""
        with (self.folder / "ballast").open("wb", buffering=0) as file:
            for size in (MB, 4096, 1024):
                while self.free() >= size:
                    try:
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)
                    except OSError:
                        break

    def free(self) -> int:
        return shutil.disk_usage(self.folder).free

    def make_room(self) -> None:
        (self.folder / "ballast").unlink()


@pytest.fixture(scope="module")
def disk() -> Iterator[Callable[[int], Disk]]:
    """A factory by megabytes. Needs root: only root mounts."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    folder = new_folder("sluice-test-")
    mounted: list[Path] = []

    def make(size: int) -> Disk:
        image, place = folder / f"image{len(mounted)}", folder / f"disk{len(mounted)}"
        with image.open("wb") as file:
            file.truncate(size * MB)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=True, capture_output=True)
        place.mkdir()
        subprocess.run(["mount", "-o", "loop", image, place], check=True, capture_output=True)
        mounted.append(place)
        return Disk(place)

    yield make
    for place in mounted:
        subprocess.run(["umount", "--lazy", place], check=True, capture_output=True)
    shutil.rmtree(folder)
