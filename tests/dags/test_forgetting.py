"""Housekeeping deletes settled rejects, carried files and Redis keys after their time, and nothing else."""

import time
from pathlib import Path

import pytest

from sluice.airflow import state_paths
from sluice.airflow.steps_housekeeping import clear_files, forget_rejects, tell_people
from sluice.control.own_tables import LoadOwner
from sluice.control.rejects import RejectStore
from sluice.coordination import redis_store
from sluice.coordination.records import UsedLocations
from sluice.coordination.verification_log import VerificationLog
from sluice.model.location import Location, folder_name
from sluice.model.names import Prefix, TableName
from sluice.model.slave_state import SlaveState
from tests.dags.test_housekeeping import DEMO, TO_NORMAL, World, run, world

__all__ = ["world"]
DAY = 24 * 3600


@pytest.fixture
def replication(world: World, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the configuration."""
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    return tmp_path / "DEMO.yaml"


def configure(file: Path, text: str) -> None:
    file.write_text(file.read_text() + text)


# -- REJECTS


def set_aside(world: World, slave: str) -> RejectStore:
    """Adds rejects: of each status a very old one, one settled recently, and one settled 100 days ago."""
    session = world.slaves[slave]
    session.execute(
        "INSERT INTO sluice.demo_rejects"
        " (slave, repl_key, schema, tablename, action, reason, rejected_at, status, asked_at, settled_at)"
        " SELECT %s, n, 'public', 'T \"x\"', 'DELETE', 'found none', now() - interval '9 years', s, now(),"
        " CASE WHEN s IN ('applied', 'dropped') THEN now() - days * interval '1 day' END"
        " FROM unnest(ARRAY['set aside', 'asked', 'applied', 'dropped', 'applied', 'dropped'],"
        " ARRAY[0, 0, 1, 1, 100, 100]) WITH ORDINALITY t (s, days, n)",
        [slave],
    )
    return RejectStore(session, DEMO, "sluice", slave)


def left(world: World, slave: str) -> list[int]:
    rows = world.slaves[slave].execute("SELECT repl_key FROM sluice.demo_rejects WHERE slave = %s ORDER BY 1", [slave])
    return [key for (key,) in rows.fetchall()]


def test_old_settled_rejects_are_deleted_and_open_ones_stay(world: World, replication: Path) -> None:
    world.slave("a", *TO_NORMAL)
    set_aside(world, "a")
    assert run(forget_rejects) == "2 settled changes forgotten", "b has no REJECTS"
    assert left(world, "a") == [1, 2, 3, 4]
    configure(replication, "housekeeping: {keep_rejects_days: 1}\n")
    assert run(forget_rejects) == "2 settled changes forgotten"
    assert left(world, "a") == [1, 2]


def test_rejects_of_another_slave_in_the_same_table_stay(world: World, replication: Path) -> None:
    world.slave("a", *TO_NORMAL)
    set_aside(world, "a")
    world.slaves["a"].execute("UPDATE sluice.demo_rejects SET slave = 'other'")
    assert run(forget_rejects) == "0 settled changes forgotten"


def test_settled_rejects_stay_if_the_configuration_keeps_them(world: World, replication: Path) -> None:
    world.slave("a", *TO_NORMAL)
    set_aside(world, "a")
    configure(replication, "housekeeping: {keep_rejects_days: 0}\n")
    assert run(forget_rejects) == "0 settled changes forgotten"
    assert len(left(world, "a")) == 6


# -- carried files


UPDATE = "manual__2026-01-01T00:00:00 a"
BLOCK = "7-20260101T000000.000000001Z"


def folder(place: Path, days: float, update: str = UPDATE, prefix: Prefix = DEMO) -> Path:
    """The folder of an unfinished export that began so many days ago."""
    made = place / folder_name(int((time.time() - days * DAY) * 1e9))
    made.mkdir(parents=True)
    (made / "INCOMPLETE").write_text(f"{prefix} a {update}\nIncomplete: …\n")
    (made / BLOCK).write_text("rows")
    (made / f".{BLOCK}.half").write_text("ro")
    return made


@pytest.fixture
def disk(replication: Path, tmp_path: Path) -> Path:
    place = tmp_path / "disk"
    place.mkdir()
    configure(replication, f"initial: {{locations: [{place}]}}\n")
    return place


def belongs_to(world: World, slave: str, update: str, *path: SlaveState) -> None:
    world.slave(slave, *path)
    LoadOwner(world.slaves[slave], DEMO, "sluice", slave).name(update)


def test_old_folders_are_deleted_with_sluices_files(world: World, disk: Path, redis_url: str) -> None:
    belongs_to(world, "a", UPDATE, *TO_NORMAL)
    old, young, mixed = folder(disk, 31), folder(disk, 29), folder(disk, 32)
    (mixed / "notes of a person").write_text("mine")
    below = folder(disk / "below", 31)
    assert run(clear_files) == "2 folders removed"
    assert not old.exists() and young.exists() and below.exists()
    assert [each.name for each in mixed.iterdir()] == ["notes of a person"]
    with redis_store.connect(redis_url) as client:
        UsedLocations(client, DEMO).add(Location.parse(str(disk / "below")))
        UsedLocations(client, DEMO).add(Location.parse(str(disk.parent / "elsewhere")))
    elsewhere = folder(disk.parent / "elsewhere", 31)
    assert run(clear_files) == "1 folder removed"
    assert not below.exists() and elsewhere.exists(), "no longer allowed by the configuration"


@pytest.mark.parametrize("path", [TO_NORMAL[:1], TO_NORMAL[:2]], ids=["preparing", "loading"])
def test_a_folder_that_a_slave_waits_for_stays_however_old(
    world: World, disk: Path, path: tuple[SlaveState, ...]
) -> None:
    belongs_to(world, "b", UPDATE, *path)
    old, other = folder(disk, 4000), folder(disk, 4001, "an earlier one")
    assert run(clear_files) == "1 folder removed"
    assert old.exists() and not other.exists()


def test_a_folder_stays_while_blocks_of_a_normal_slave_are_in_it(world: World, disk: Path) -> None:
    belongs_to(world, "a", UPDATE, *TO_NORMAL)
    old = folder(disk, 31)
    world.slaves["a"].execute(
        "INSERT INTO sluice.demo_blocks (slave, schema, tablename, block, state, file)"
        f" VALUES ('a', 'public', 't', 1, 'exported', '{BLOCK}')"
    )
    assert run(clear_files) == "0 folders removed"
    world.slaves["a"].execute("UPDATE sluice.demo_blocks SET state = 'stored'")
    assert run(clear_files) == "1 folder removed"
    assert not old.exists()


def test_folders_stay_while_a_slave_is_unreachable(world: World, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = folder(disk, 31)
    monkeypatch.delenv("AIRFLOW_CONN_B")
    assert run(clear_files) == "held"
    assert old.exists()


def test_folders_of_other_replications_stay(world: World, disk: Path) -> None:
    foreign, copied, damaged = folder(disk, 31, prefix=Prefix("OTHER_")), folder(disk, 32), folder(disk, 33)
    (copied / "INCOMPLETE").unlink()
    (damaged / "INCOMPLETE").write_text("DEMO_")
    link = disk / folder_name(int((time.time() - 40 * DAY) * 1e9))
    link.symlink_to(folder(disk / "linked", 41))
    assert run(clear_files) == "0 folders removed"
    assert all((each / BLOCK).exists() for each in (foreign, copied, damaged, link))


def test_folders_stay_if_the_configuration_keeps_them(world: World, disk: Path, replication: Path) -> None:
    old = folder(disk, 4000)
    configure(replication, "housekeeping: {keep_files_days: 0}\n")
    assert run(clear_files) == "0 folders removed"
    assert old.exists()


# -- what is verified


@pytest.mark.long
def test_verified_through_survives_an_emptied_redis_but_not_an_initial_update(
    world: World, replication: Path, redis_url: str
) -> None:
    table = str(TableName("public", "T x"))
    world.master.execute('CREATE TABLE public."T x" (id int PRIMARY KEY); CREATE TABLE public.u (id int)')
    belongs_to(world, "a", "first", *TO_NORMAL)
    with redis_store.connect(redis_url) as client:
        verified = VerificationLog(client, DEMO, "a")
        run(tell_people)
        through = {"outcome": "identical", "time": "2026-01-01T00:00:00Z", "position": "p", "rows": 3, "checked": "x"}
        verified.write(table, through)
        run(tell_people)
        known = verified.read()
        assert known[table].items() >= through.items() and set(known) == {table, "public.u"}
        kept = state_paths.verified_folder() / "DEMO_.a.json"
        assert kept.stat().st_mode & 0o777 == 0o600
        client.flushall()
        run(tell_people)
        assert verified.read() == known

        client.flushall()
        verified.write(table, {"outcome": "different", "checked": "y", "differ": 2})
        run(tell_people)
        now = verified.read()[table]
        assert (now["outcome"], now["time"], now["since"]) == (
            "different",
            through["time"],
            known[table]["since"],
        )

        client.flushall()
        LoadOwner(world.slaves["a"], DEMO, "sluice", "a").name("second")
        run(tell_people)
        assert all("time" not in seen for seen in verified.read().values()), "loaded again, nothing is verified"
