"""The library for Spark's executors: one archive, with its statements."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from sluice import library, sql_files

READ = "from sluice import sql_files; print(sql_files.__file__); print(sql_files.render('postgres', 'relation_exists'))"


@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
def test_statements_are_found_inside_the_archive(tmp_path: Path, relative: bool) -> None:
    archive = library.archive(tmp_path)
    entry = f"./{archive.name}" if relative else str(archive)  # as Spark names it on its workers
    code = f"import sys; sys.path.insert(0, {entry!r}); {READ}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=archive.parent, env={}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    place, _, text = done.stdout.partition("\n")
    assert archive.name in place
    assert text.strip() == sql_files.render("postgres", "relation_exists").strip()


def test_one_library_gives_one_name_and_one_content_wherever_and_whenever_it_is_packed(tmp_path: Path) -> None:
    """Otherwise a Spark server with the archive of one session refuses that of the next."""
    (tmp_path / "a").mkdir()
    first = library.archive(tmp_path)
    with ZipFile(first) as zipped:
        assert {entry.date_time for entry in zipped.infolist()} == {(1980, 1, 1, 0, 0, 0)}, "no time of a file"
    again = library.archive(tmp_path / "a")
    assert library.fingerprint() in first.name == again.name
    assert first.read_bytes() == again.read_bytes()


def test_a_statement_that_the_archive_lacks_is_named(tmp_path: Path) -> None:
    archive = library.archive(tmp_path)
    read = READ.replace("relation_exists", "no")
    code = f"import sys; sys.path.insert(0, {str(archive)!r}); {read}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={}, capture_output=True, text=True, check=False
    )
    assert "this SQL file is missing" in done.stderr and "no.sql" in done.stderr


def test_the_archive_says_which_library_it_was_made_from(tmp_path: Path) -> None:
    archive = library.archive(tmp_path)
    code = f"import sys; sys.path.insert(0, {str(archive)!r}); from sluice import library; print(library.fingerprint())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == library.fingerprint()
