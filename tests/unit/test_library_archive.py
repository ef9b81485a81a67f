"""The library as it travels to Spark's executors: one archive, its statements with it."""

import subprocess
import sys
from pathlib import Path

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
    assert "sluice.zip" in place
    assert text.strip() == sql_files.render("postgres", "relation_exists").strip()


def test_a_statement_that_the_archive_lacks_is_named(tmp_path: Path) -> None:
    archive = library.archive(tmp_path)
    read = READ.replace("relation_exists", "no")
    code = f"import sys; sys.path.insert(0, {str(archive)!r}); {read}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={}, capture_output=True, text=True, check=False
    )
    assert "SqlFileMissing" in done.stderr and "no.sql" in done.stderr


def test_the_archive_says_which_library_it_was_made_from(tmp_path: Path) -> None:
    archive = library.archive(tmp_path)
    code = f"import sys; sys.path.insert(0, {str(archive)!r}); from sluice import library; print(library.fingerprint())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == library.fingerprint()
