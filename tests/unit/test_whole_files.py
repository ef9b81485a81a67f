"""Files are replaced atomically, with the requested mode, and without leftovers."""

import os
import stat
from pathlib import Path

import pytest

from sluice import whole_files


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(("content", "written"), [("é", "é".encode()), (b"\xff", b"\xff")])
def test_a_file_is_replaced(content: str | bytes, written: bytes, durable: bool, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("an older one, which was longer")
    whole_files.write(file, content, durable=durable)
    assert file.read_bytes() == written and os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_a_mode_does_not_depend_on_the_umask(mode: int, tmp_path: Path) -> None:
    was = os.umask(0o027)
    try:
        whole_files.write(tmp_path / "asked", "", mode=mode)
        whole_files.write(tmp_path / "left", "")
    finally:
        os.umask(was)
    assert stat.S_IMODE((tmp_path / "asked").stat().st_mode) == mode
    assert stat.S_IMODE((tmp_path / "left").stat().st_mode) == 0o640


def test_a_failed_replacement_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder" / "full").mkdir(parents=True)
    with pytest.raises(OSError):
        whole_files.write(tmp_path / "folder", "text")
    assert os.listdir(tmp_path) == ["folder"]
