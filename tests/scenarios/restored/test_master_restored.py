"""A master whose files, or whose database, are restored, copied, renamed or upgraded (docs/restores.md).

A restored master soon comes past the transactions, keys and places in its log that it had before. A slave that believes
these numbers skips changes in silence.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devstack.account import service_account
from devstack.postgres import PostgresServer, binary
from devstack.postgres_programs import programs
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo
from sluice.model.slave_state import SlaveState
from tests.errors import raises_code
from tests.rig.rig import Database, Rig
from tests.standby import servers

TABLE = "CREATE TABLE public.orders (id int PRIMARY KEY, note text)"
MUCH = 300
"""Transactions, more than a test has before."""
DEBIAN = Path("/usr/lib/postgresql/15/bin")
"""A former release with all programs, as Debian 12 has it."""


@pytest.fixture(scope="module")
def make_server() -> Iterator[Callable[[str], PostgresServer]]:
    with servers() as make:
        yield make


@pytest.fixture(scope="module")
def server(make_server: Callable[[str], PostgresServer]) -> PostgresServer:
    """A master of its own, since its files are exchanged."""
    master = make_server("master")
    master.start(die_with_parent=True)
    return master


@pytest.fixture
def rig(
    server: PostgresServer, database: Database, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Rig]:
    """A NORMAL slave of a database of `server`; the slave is on another server."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    made = Rig.empty(database, redis_url, tmp_path, master=database(server=server), interval=0.1)
    made.begin(TABLE)
    yield made
    made.close()


def insert(rig: Rig, first: int, count: int = 1) -> None:
    """As many transactions."""
    for number in range(first, first + count):
        rig.master.execute("INSERT INTO public.orders VALUES (%s, 'a note')", [number])


def apply_until_current(rig: Rig) -> None:
    with rig.apply():
        rig.await_current()


def reconnect(rig: Rig, master: ConnectionInfo | None = None) -> None:
    """`master`: the connection leads there from now on."""
    rig.master.close()
    rig.slave.close()
    fresh = Rig.between(replace(rig.pair, master_info=master or rig.pair.master_info), rig.redis_url)
    rig.pair, rig.master, rig.slave = fresh.pair, fresh.master, fresh.slave


def take_snapshot(server: PostgresServer, rig: Rig) -> None:
    """Copies the files as they are at one moment: a restore begins with crash recovery."""
    server.kill()
    shutil.rmtree(server.directory / "snapshot", ignore_errors=True)
    shutil.copytree(server.data, server.directory / "snapshot")
    server.start(die_with_parent=True)
    reconnect(rig)


def restore_snapshot(server: PostgresServer, rig: Rig) -> None:
    server.kill()
    put_back(server)
    server.start(die_with_parent=True)
    reconnect(rig)


def put_back(server: PostgresServer) -> None:
    shutil.rmtree(server.data)
    shutil.copytree(server.directory / "snapshot", server.data)
    if account := service_account():
        account.take_over(server.data)


def pass_numbers(rig: Rig) -> None:
    """The master comes past the places and transactions that it had before."""
    for _ in range(MUCH):
        rig.master.execute("SELECT pg_current_xact_id()")
    rig.master.execute("SELECT pg_logical_emit_message(false, 'other', repeat('x', 4000000))")


def expect_inconsistent(rig: Rig, why: str = "restore of its files") -> None:
    with rig.apply(), raises_code("master-replaced", match=why) as told:
        rig.await_that(lambda: False)
    assert "Start an initial update of this slave" in str(told.value)
    assert rig.checkpoint.state is SlaveState.INCONSISTENT
    assert "Start an initial update" in rig.checkpoint.message


def expect_goes_on(rig: Rig) -> None:
    apply_until_current(rig)
    assert rig.differences() == {}
    assert rig.state() is SlaveState.NORMAL


# -- the files of the server


def test_a_master_restored_from_a_snapshot_makes_the_slave_inconsistent_though_its_numbers_have_passed(
    rig: Rig, server: PostgresServer
) -> None:
    with rig.apply():
        insert(rig, 1, 5)
        rig.await_current()
    take_snapshot(server, rig)
    with rig.apply():
        insert(rig, 1001, 20)
        rig.await_current()
    restore_snapshot(server, rig)
    insert(rig, 5001, 40)
    pass_numbers(rig)
    expect_inconsistent(rig)


@pytest.mark.long
def test_a_running_apply_notices_a_master_that_was_restored_during_an_outage(rig: Rig, server: PostgresServer) -> None:
    apply_until_current(rig)
    take_snapshot(server, rig)
    with rig.apply():
        insert(rig, 1001, 20)
        rig.await_current()
        server.kill()
        put_back(server)
        # Others reach it first, at another port.
        elsewhere = PostgresServer(server.directory, port=server.port, settings={"port": "0", **server.settings})
        script = "".join(f"INSERT INTO public.orders VALUES ({number}, 'another');\n" for number in range(5001, 5401))
        single(elsewhere, rig.pair.master_info.database, script)
        server.start(die_with_parent=True)
        with raises_code("master-replaced", match="restore of its files"):
            rig.await_that(lambda: False)
    reconnect(rig)
    assert rig.checkpoint.state is SlaveState.INCONSISTENT


def single(server: PostgresServer, database: str, script: str) -> None:
    """Runs statements while the server is down."""
    command = [server.command()[0], "--single", "-j", "-D", str(server.data), database]
    options = {
        name: value
        for name, value in server.popen_options().items()
        if name not in ("stdin", "stdout", "stderr", "start_new_session")
    }
    (server.data / "postmaster.pid").unlink(missing_ok=True)
    done = subprocess.run(
        command, input=script.replace(";\n", ";\n\n").encode(), capture_output=True, check=False, **options
    )
    assert done.returncode == 0 and b"ERROR" not in done.stderr, done.stderr.decode()


@pytest.mark.long
def test_a_snapshot_of_after_the_last_change_loses_nothing_though_transactions_of_others_are_gone(
    rig: Rig, server: PostgresServer
) -> None:
    """The slave went by transactions without changes; after the restore changes have their IDs."""
    with rig.apply():
        insert(rig, 1, 5)
        rig.await_current()
    take_snapshot(server, rig)
    with rig.apply():
        pass_numbers(rig)
        rig.await_current()
    restore_snapshot(server, rig)
    insert(rig, 5001, 40)
    pass_numbers(rig)
    expect_goes_on(rig)


@pytest.mark.long
def test_a_snapshot_that_has_all_that_was_seen_is_no_loss(rig: Rig, server: PostgresServer) -> None:
    with rig.apply():
        insert(rig, 1, 5)
        rig.await_current()
    insert(rig, 101, 5)
    take_snapshot(server, rig)
    insert(rig, 201, 5)
    restore_snapshot(server, rig)
    insert(rig, 301, 5)
    expect_goes_on(rig)


@pytest.mark.long
def test_a_load_of_a_master_that_is_restored_meanwhile_is_not_believed(rig: Rig, server: PostgresServer) -> None:
    """Blocks were read behind the snapshot, and the start position lies before it."""
    insert(rig, 1, 300)
    rig.slave.execute("DROP TABLE public.orders")
    update = rig.update()
    rig.prepare(update)
    take_snapshot(server, rig)
    insert(rig, 1001, 20)
    rig.load(update)
    assert rig.state() is SlaveState.TRANSITION
    restore_snapshot(server, rig)
    insert(rig, 5001, 40)
    pass_numbers(rig)
    expect_inconsistent(rig)


@pytest.mark.long
@pytest.mark.parametrize("all_seen", [True, False], ids=["behind what was seen", "before it"])
def test_point_in_time_recovery(
    all_seen: bool, rig: Rig, server: PostgresServer, make_server: Callable[[str], PostgresServer]
) -> None:
    archive = server.directory / "archive"
    archive.mkdir(exist_ok=True)
    if account := service_account():
        account.own(archive)
    with server.connect() as admin:
        admin.execute("ALTER SYSTEM SET archive_mode = on")
        admin.execute(f"ALTER SYSTEM SET archive_command = 'cp %p {archive}/%f'")
    server.stop()
    server.start(die_with_parent=True)
    reconnect(rig)
    restored = make_server(f"restored {all_seen}".replace(" ", "_"))
    base_backup(server, restored)
    place = "SELECT pg_create_restore_point('here')"
    if not all_seen:
        rig.master.execute(place)
    with rig.apply():
        insert(rig, 1, 20)
        rig.await_current()
    if all_seen:
        rig.master.execute(place)
    insert(rig, 101, 5)
    switched = rig.master.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchone()
    assert switched is not None
    rig.await_that(lambda: (archive / switched[0]).exists())
    server.stop()
    with (restored.data / "postgresql.auto.conf").open("a", encoding="utf-8") as settings:
        settings.write(
            f"restore_command = 'cp {archive}/%f %p'\nrecovery_target_name = 'here'\n"
            "recovery_target_action = 'promote'\narchive_mode = off\n"
        )
    (restored.data / "recovery.signal").touch()
    if account:
        account.take_over(restored.data)
    restored.start(die_with_parent=True)
    with restored.connect() as admin:
        rig.await_that(lambda: admin.execute("SELECT NOT pg_is_in_recovery()").fetchone() == (True,))
    server.start(die_with_parent=True)
    reconnect(rig, replace(rig.pair.master_info, port=restored.port))
    insert(rig, 5001, 20)
    pass_numbers(rig)
    if all_seen:
        expect_goes_on(rig)
    else:
        expect_inconsistent(rig, "promoted .* short")


def base_backup(server: PostgresServer, copy: PostgresServer) -> None:
    copy.data.mkdir(parents=True, mode=0o700)
    account = service_account()
    if account:
        account.own(copy.data)
    shutil.copytree(server.directory / "passwords", copy.directory / "passwords")
    info = server.info()
    run(
        copy, programs(account) / "pg_basebackup", f"--host={info.host}", f"--port={info.port}",
        f"--username={info.user}", f"--pgdata={copy.data}", "--checkpoint=fast", "--no-sync",
        password=info.password,
    )  # fmt: skip


def run(
    server: PostgresServer, program: Path, *arguments: str, password: str | None = None, cwd: Path | None = None
) -> None:
    """A program with the account of the server."""
    unwanted = ("stdin", "stdout", "stderr", "start_new_session")
    options: dict[str, Any] = {name: value for name, value in server.popen_options().items() if name not in unwanted}
    options["env"] = {**options["env"], "PGPASSWORD": password or ""}
    done = subprocess.run(
        [str(program), *arguments],
        capture_output=True,
        text=True,
        check=False,
        **{**options, **({"cwd": cwd} if cwd else {})},
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


# -- its database


@pytest.mark.long
def test_a_renamed_database_is_told_and_waited_for(rig: Rig, server: PostgresServer) -> None:
    apply_until_current(rig)
    name = rig.pair.master_info.database
    rig.master.close()
    with server.connect() as admin:
        admin.execute(f'ALTER DATABASE "{name}" RENAME TO renamed'.encode())
    with rig.apply(), pytest.raises(Terminal, match=f'database "{name}" does not exist'):
        rig.await_that(lambda: False)
    rig.failure = None
    reconnect(rig, replace(rig.pair.master_info, database="renamed"))
    insert(rig, 1, 5)
    expect_goes_on(rig)
    rig.master.close()
    with server.connect() as admin:
        admin.execute(f'ALTER DATABASE renamed RENAME TO "{name}"'.encode())
    reconnect(rig, replace(rig.pair.master_info, database=name))
    insert(rig, 11, 5)
    expect_goes_on(rig)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("copied_first", [True, False], ids=["copied before what was seen", "copied after"])
def test_a_copy_by_template_in_the_place_of_the_master(
    copied_first: bool, rig: Rig, server: PostgresServer, request: pytest.FixtureRequest
) -> None:
    name = rig.pair.master_info.database
    copy = f"copy_{copied_first}".lower()
    apply_until_current(rig)

    def make_copy() -> None:
        rig.master.close()
        with server.connect() as admin:
            admin.execute(f'CREATE DATABASE {copy} TEMPLATE "{name}"'.encode())
        request.addfinalizer(lambda: drop(server, copy))
        reconnect(rig)

    if copied_first:
        make_copy()
    with rig.apply():
        insert(rig, 1, 20)
        rig.await_current()
    if not copied_first:
        make_copy()
    reconnect(rig, replace(rig.pair.master_info, database=copy))
    insert(rig, 5001, 20)
    if copied_first:
        expect_inconsistent(rig)
    else:
        expect_goes_on(rig)


def drop(server: PostgresServer, database: str) -> None:
    with server.connect() as admin:
        admin.execute(f"DROP DATABASE {database} WITH (FORCE)".encode())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("same_cluster", [True, False], ids=["same cluster", "another cluster"])
def test_a_dump_with_our_schema_in_it_that_lacks_what_was_seen(
    same_cluster: bool, rig: Rig, server: PostgresServer, database: Database
) -> None:
    apply_until_current(rig)
    dump = dumped(rig.pair.master_info)
    with rig.apply():
        insert(rig, 1, 20)
        rig.await_current()
    there = database(server=server) if same_cluster else database()
    restore_dump(dump, there)
    reconnect(rig, there)
    insert(rig, 5001, 20)
    pass_numbers(rig)
    expect_inconsistent(rig, "restore of its files" if same_cluster else "another database cluster")


@pytest.mark.long
def test_a_dump_restored_into_another_cluster_is_another_history_though_it_has_all(
    rig: Rig, database: Database
) -> None:
    """Its transactions have other IDs."""
    with rig.apply():
        insert(rig, 1, 20)
        rig.await_current()
    there = database()
    restore_dump(dumped(rig.pair.master_info), there)
    reconnect(rig, there)
    insert(rig, 5001, 20)
    expect_inconsistent(rig, "another database cluster")


def dumped(info: ConnectionInfo) -> bytes:
    arguments = ["-h", info.host, "-p", str(info.port), "-U", info.user, info.database]
    environment = {"PGPASSWORD": info.password or ""}
    done = subprocess.run([binary("pg_dump"), *arguments], env=environment, check=True, capture_output=True)
    return done.stdout


def restore_dump(dump: bytes, info: ConnectionInfo) -> None:
    arguments = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", info.host, "-p", str(info.port), "-U", info.user]
    environment = {"PGPASSWORD": info.password or ""}
    subprocess.run(
        [binary("psql"), *arguments, info.database], env=environment, input=dump, check=True, capture_output=True
    )


@pytest.mark.long
@pytest.mark.skipif(not (DEBIAN / "pg_controldata").exists(), reason=f"no programs of a former release in {DEBIAN}")
def test_pg_upgrade_keeps_the_slaves(
    database: Database, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    make_server: Callable[[str], PostgresServer],
) -> None:  # fmt: skip
    """Its cluster has another identifier; the transactions are the same."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setattr(
        PostgresServer,
        "_programs",
        property(lambda self: DEBIAN if self.release == 15 else programs(service_account(), self.release)),
    )
    old, new = make_server("old"), make_server("new")
    old.release = 15
    for each in (old, new):
        each.settings["wal_level"] = "replica"
        each.start(die_with_parent=True)
    with old.connect() as admin:
        admin.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    info = old.info()
    rig = Rig.empty(database, redis_url, tmp_path, master=info, interval=0.1)
    rig.begin(TABLE)
    with rig.apply():
        insert(rig, 1, 20)
        rig.await_current()
    insert(rig, 101, 20)
    rig.master.close()
    old.stop()
    new.stop()
    # As initdb of release 15 made the old one.
    run(new, programs(service_account()) / "pg_checksums", "--disable", f"--pgdata={new.data}")
    shutil.rmtree(new.directory / "passwords")
    shutil.copytree(old.directory / "passwords", new.directory / "passwords")
    for each in (old, new):
        conf = each.data / "pg_hba.conf"
        conf.write_text("local all all trust\nhost all all 127.0.0.1/32 trust\n")
    work = new.directory / "upgrade"
    work.mkdir()
    if account := service_account():
        account.own(work)
    run(
        new, programs(account) / "pg_upgrade", f"--old-bindir={DEBIAN}", f"--new-bindir={programs(account)}",
        f"--old-datadir={old.data}", f"--new-datadir={new.data}", "--username=postgres", f"--socketdir={work}",
        "--no-sync", cwd=work,
    )  # fmt: skip
    new.start(die_with_parent=True)
    reconnect(rig, replace(info, port=new.port))
    insert(rig, 201, 20)
    expect_goes_on(rig)
    insert(rig, 301, 5)
    expect_goes_on(rig)
    rig.close()
