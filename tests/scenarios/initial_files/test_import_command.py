"""The command that loads a folder on the slave's own machine: killed, with wrong arguments, and from S3."""

import base64
import random
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sluice.cli import command as cli
from sluice.load import steps
from sluice.load.transfer import transfer_steps
from sluice.load.transfer.importer import import_in_threads
from sluice.load.update import Update
from sluice.model.location import Location, S3Access
from tests.library import command, copied
from tests.rig.rig import MakePair, Rig
from tests.scenarios.initial_files.carrying import KEY, exported, location, moved, shop
from tests.waiting import until


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("slave's machine"))


def url_of(pair: Rig) -> str:
    info = pair.slave_info
    return f"postgresql://{info.user}@{info.host}:{info.port}/{info.database}"


def importing(library: Path, pair: Rig, place: Location, *options: str) -> dict[str, Any]:
    """`./sluice import` on a machine that has only the library."""
    return command(
        library,
        *("import", "--location", str(place), "--database", url_of(pair), *options),
        PGPASSWORD=pair.slave_info.password,
        SLUICE_REPLICATIONS="/nowhere",
    )


def imported_or_ended(update: Update, process: "subprocess.Popen[bytes]", goal: int) -> bool:
    return process.poll() is not None or transfer_steps.left_to_import(update) <= goal


@pytest.mark.long
def test_an_import_killed_anywhere_goes_on_and_loads_nothing_twice(
    library: Path, pair_of: MakePair, tmp_path: Path
) -> None:
    pair = shop(pair_of)
    update = pair.update()
    carried, manifest = exported(pair, update, location(tmp_path / "out"))
    pair.slow_down("public.orders", 0.0002)
    chance, kills = random.Random(11), 0
    command = importing(library, pair, carried.location)
    while left := transfer_steps.left_to_import(update):
        process = subprocess.Popen(**command, stdout=subprocess.DEVNULL)
        if kills < 4:
            goal = left - chance.randint(1, 1 + left // 4)
            until(partial(imported_or_ended, update, process, goal))
            process.kill()
            kills += process.wait() != 0
        else:
            assert process.wait(120) == 0
    assert kills > 1
    pair.assert_equal()
    before = pair.blocks()
    assert import_in_threads(update, carried, manifest, 2).blocks == 0
    assert pair.blocks() == before


@pytest.mark.long
def test_the_command_needs_nothing_but_the_slave_and_the_folder(
    library: Path, pair_of: MakePair, tmp_path: Path
) -> None:
    pair = shop(pair_of)
    update = pair.update()
    carried, manifest = exported(pair, update, location(tmp_path / "out"), key=KEY)
    there = moved(carried, tmp_path / "in")
    (tmp_path / "key").write_text(base64.b64encode(KEY).decode() + "\n")
    options = ("--key-file", str(tmp_path / "key"))

    def run(*more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            **importing(library, pair, there.location.parent, *options, *more),
            capture_output=True,
            text=True,
            timeout=120,
        )

    damaged = Path(there.location.path) / manifest.blocks[3].file.name
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-1])
    (Path(there.location.path) / manifest.blocks[5].file.name).rename(tmp_path / "away")
    refused = run()
    assert refused.returncode == 1
    assert f"{damaged.name} has {len(whole) - 1:,} bytes instead of {len(whole):,}" in refused.stderr
    assert f"{manifest.blocks[5].file.name} is missing" in refused.stderr
    assert transfer_steps.left_to_import(update) == len(manifest.blocks), "nothing was loaded"
    damaged.write_bytes(whole)
    (tmp_path / "away").rename(Path(there.location.path) / manifest.blocks[5].file.name)
    checked = run("--check")
    assert checked.returncode == 0, checked.stderr
    assert transfer_steps.left_to_import(update) == len(manifest.blocks)
    done = run()
    assert done.returncode == 0, done.stderr
    assert "approve the transfer in Airflow" in done.stdout
    assert transfer_steps.left_to_import(update) == 0
    pair.assert_equal()
    assert pair.slave_info.password not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://demo@host:s3cret/demo", "its port is no number"),
        ("postgresql://demo:s3cret@host/demo", "it is taken from PGPASSWORD"),
        ("postgresql://demo@host/demo?password=s3cret", "it is taken from PGPASSWORD"),
        (
            "postgresql://demo@host/demo?application_name=x",
            "has application_name; known are connect_timeout",
        ),
        ("postgresql://demo@host/demo?connect_timeout=soon", "it must be whole seconds"),
        ("redis://demo@host/demo", "Write postgresql://"),
    ],
)
def test_a_database_that_cannot_be_one_is_refused_without_its_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str, said: str
) -> None:
    assert cli.main(["import", "--location", str(tmp_path), "--database", url]) == 1
    told = capsys.readouterr().err
    assert said in told and "s3cret" not in told


def test_a_folder_is_found_by_a_path_from_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert cli.main(["import", "--location", "../gone", "--database", "postgresql://demo@127.0.0.1:1/demo"]) == 1
    assert f"{tmp_path}/gone: is no directory on this machine" in capsys.readouterr().err


@pytest.mark.long
def test_the_command_says_what_is_wrong(
    pair_of: MakePair, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = shop(pair_of)
    monkeypatch.setenv("PGPASSWORD", pair.slave_info.password)

    def said(place: Path, *options: str) -> str:
        assert cli.main(["import", "--location", str(place), "--database", url_of(pair), *options]) == 1
        return capsys.readouterr().err

    assert "is no directory on this machine" in said(tmp_path / "gone")
    (tmp_path / "empty").mkdir()
    assert "has no folder that this slave waits for" in said(tmp_path / "empty")
    update = pair.update()
    carried, _ = exported(pair, update, location(tmp_path / "out"), key=KEY)
    assert "is encrypted, and no key was given" in said(Path(carried.location.path))
    (tmp_path / "key").write_text("no key")
    assert "openssl rand -base64 32" in said(Path(carried.location.path), "--key-file", str(tmp_path / "key"))
    steps.cancel(update, pair.store)
    old_update = pair.update("an older one")
    old, _ = exported(pair, old_update, location(tmp_path / "out"))
    steps.cancel(old_update, pair.store)
    exported(pair, pair.update("a newer one"), location(tmp_path / "out"))
    refused = said(Path(old.location.path))
    assert "belongs to initial update a newer one, not to an older one" in refused
    assert "name one of them with --slave" in said(tmp_path / "out", "--slave", "dr2")


@pytest.mark.long
def test_the_command_imports_a_folder_of_s3(
    library: Path, pair_of: MakePair, s3: S3Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = shop(pair_of)
    update = pair.update()
    carried, manifest = exported(pair, update, Location.parse("s3://carried/through"), s3)
    assert transfer_steps.examine(update, carried) == manifest
    for name, value in (
        ("AWS_ACCESS_KEY_ID", s3.key_id), ("AWS_SECRET_ACCESS_KEY", s3.secret),
        ("AWS_ENDPOINT_URL", s3.endpoint), ("AWS_DEFAULT_REGION", s3.region),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    done = subprocess.run(
        **importing(library, pair, Location.parse("s3://carried/through")), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    pair.assert_equal()
