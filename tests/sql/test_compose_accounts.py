"""The accounts that the servers of docker-compose.yaml create at their first start have all privileges of a
replication."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from devstack.account import new_folder
from devstack.postgres import PostgresServer, binary
from sluice import config
from sluice.model.connection import ConnectionInfo
from sluice.model.issue import errors
from sluice.preflight import checks
from sluice.vendors.postgres.connection import connect

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """
prefix: DEMO_
master: {conn_id: m, schema: sluice}
slaves: {dr1: {conn_id: s, schema: sluice}}
tables: {public.*: {}}
"""
SECRET = 'it\'s a "secret" $(id) `id`'


def start(server: PostgresServer, side: str, folder: Path) -> ConnectionInfo:
    """Runs the script like the entry point of the image; returns how the account sluice reaches the server."""
    (folder / "password").write_text(SECRET)
    info = server.info()
    variables = {
        "PATH": f"{binary('psql').parent}{os.pathsep}{os.environ['PATH']}",
        "PGHOST": info.host,
        "PGPORT": str(info.port),
        "PGPASSWORD": info.password,
        "SLUICE_SIDE": side,
        "SLUICE_SQL": str(ROOT / "include" / "sql" / "postgres"),
        "SLUICE_PASSWORD_FILE": str(folder / "password"),
    }
    script = ROOT / "include" / "docker" / "accounts.sh"
    done = subprocess.run(["bash", script], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    return ConnectionInfo("postgres", info.host, info.port, "shop", "sluice", SECRET)


@pytest.fixture
def servers(release: int) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A new master and a new slave."""
    # Not under pytest's own folder: that is closed to the account that runs the servers.
    folders = [new_folder("sluice-test-compose-") for _ in range(2)]
    made = [PostgresServer(folder, name="compose", settings={"fsync": "off"}, release=release) for folder in folders]
    try:
        for server in made:
            server.start(die_with_parent=True)
        yield made[0], made[1]
    finally:
        for server, folder in zip(made, folders, strict=True):
            server.stop()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.releases
def test_the_accounts_lack_nothing_and_are_no_superusers(
    servers: tuple[PostgresServer, PostgresServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = start(servers[0], "master", tmp_path), start(servers[1], "slave", tmp_path)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "DEMO.yaml").write_text(CONFIG)
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path / "conf"))
    replication = config.load("DEMO_")
    with servers[0].connect("shop") as admin:
        # Made later by the application, under the privileges that its tables get by themselves.
        admin.execute("SET ROLE application; CREATE TABLE public.orders (id serial PRIMARY KEY, name text)")
    with (
        connect(there, application="test", autocommit=True) as master,
        connect(here, application="test", autocommit=True) as slave,
    ):
        found = checks.of_master(master, replication)
        found += checks.of_slave(slave, replication, replication.slave("dr1"), master=master)
        assert errors(found) == []
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            master.execute("CREATE TABLE public.mine ()")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            master.execute("INSERT INTO public.orders (name) VALUES ('x')")
        slave.execute("CREATE TABLE public.orders (id integer)")
    with servers[1].connect("shop") as admin:
        admin.execute("SET ROLE application; SELECT FROM public.orders")
