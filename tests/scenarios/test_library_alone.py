"""A machine that has the library and its configuration, and nothing of the devstack: `./sluice` there.

`./sluice import` is in `initial_files/test_import_command.py`.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from devstack.postgres import PostgresServer
from sluice import config
from sluice.capture.reconcile import reconcile
from sluice.capture.resources import install
from sluice.configuration.model import DEFAULT_SCHEMA
from sluice.database.registry import reach
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres import catalog
from tests.catalogue import catalogue, differences
from tests.library import command, copied

PASSWORD = "of: the account\\"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("another machine"))


@pytest.fixture
def account(postgres: PostgresServer) -> Iterator[str]:
    """A role that may log in, without other privileges."""
    name = "alone"
    with postgres.connect() as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")
    yield name
    with postgres.connect() as connection:
        for (database,) in connection.execute("SELECT datname FROM pg_database WHERE datallowconn").fetchall():
            with postgres.connect(database) as inside:
                inside.execute(f"DROP OWNED BY {name}")
        connection.execute(f"DROP ROLE {name}")


class Machine:
    """`./sluice` with the environment of a person there."""

    def __init__(self, library: Path, folder: Path, **variables: str) -> None:
        self.library, self.folder, self.variables = library, folder, variables

    def run(self, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
        variables = {"SLUICE_REPLICATIONS": str(self.folder), **self.variables, **more}
        return subprocess.run(
            **command(self.library, *arguments, **variables),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def done(self, *arguments: str, **more: str) -> str:
        ran = self.run(*arguments, **more)
        assert ran.returncode == 0, ran.stderr + ran.stdout
        assert PASSWORD not in ran.stdout + ran.stderr
        return ran.stdout


def in_environment(info: ConnectionInfo, account: str) -> str:
    """A connection in the format of Airflow's variables."""
    login = f"{account}:{quote(PASSWORD, safe='')}"
    return f"postgresql://{login}@{info.host}:{info.port}/{quote(info.database, safe='')}?connect_timeout=9"


@pytest.mark.long
def test_a_replication_is_added_looked_at_recorded_and_removed_without_the_devstack(
    library: Path, database: Callable[..., ConnectionInfo], account: str, redis_url: str, tmp_path: Path
) -> None:
    assert not (library / "devstack").exists()
    master, slave = database(), database()
    with psycopg.connect(host=master.host, port=master.port, dbname=master.database, user=master.user,
                         password=master.password, autocommit=True) as connection:  # fmt: skip
        connection.execute("CREATE SCHEMA shop CREATE TABLE orders (id int PRIMARY KEY, note text)")
        connection.execute("INSERT INTO shop.orders VALUES (1, 'before')")
        before = catalogue(connection)
        passwords = tmp_path / "pgpass"
        known = PASSWORD.replace("\\", "\\\\").replace(":", "\\:")
        passwords.write_text(f"*:*:*:{master.user}:{master.password}\n*:*:*:{account}:{known}\n")
        passwords.chmod(0o600)
        folder = tmp_path / "replications"
        folder.mkdir()
        machine = Machine(library, folder, PGPASSFILE=str(passwords), SLUICE_REDIS_URL=redis_url)
        place = f"{account}@{master.host}:{master.port}"
        sides = ["--master", f"postgresql://{place}/{master.database}", "--slave",
                 f"dr1=postgresql://{place}/{slave.database}"]  # fmt: skip

        refused = machine.run("add", "SHOP", *sides)
        assert refused.returncode == 1 and "Which Airflow? Name it: --airflow URL" in refused.stderr
        added = machine.done("add", "SHOP", *sides, "--admin", master.user, "--airflow", "none", "--yes")
        assert "airflow connections add shop_master" in added
        (replication,) = config.survey(folder).replications
        unknown = machine.done("status")
        assert "The connection 'shop_master' is not known here" in unknown and "AIRFLOW_CONN_SHOP_MASTER" in unknown

        connections = {
            "AIRFLOW_CONN_SHOP_MASTER": in_environment(master, account),
            "AIRFLOW_CONN_SHOP_DR1": json.dumps(
                {"conn_type": "postgres", "host": slave.host, "port": slave.port, "schema": slave.database,
                 "login": account, "password": PASSWORD, "extra": {"connect_timeout": "9"}}
            ),
        }  # fmt: skip
        machine = Machine(library, folder, SLUICE_REDIS_URL=redis_url, **connections)
        assert "nothing is installed on the master yet" in machine.done("status")
        with reach(ConnectionInfo("postgres", master.host, master.port, master.database, account, PASSWORD),
                   "test") as session:  # fmt: skip
            install(session, replication.prefix, DEFAULT_SCHEMA)
            reconcile(session, replication.prefix, DEFAULT_SCHEMA, replication.resolve(catalog.tables(session)))
        connection.execute("INSERT INTO shop.orders VALUES (2, 'captured')")
        looked = json.loads(machine.done("status", "--json"))
        assert any("1 table" in line and "DbResources version" in line for line in looked["pairs"])
        assert [pair["slave"] for pair in looked["verified"]] == ["dr1"]

        url = sides[1]
        recorded = machine.done(
            "record", "SHOP_", "--location", str(tmp_path / "stream"), "--database", url, "--once", PGPASSWORD=PASSWORD
        )
        assert "0 changes recorded" in recorded
        connection.execute("INSERT INTO shop.orders VALUES (3, 'recorded')")
        recorded = machine.done(
            "record", "SHOP_", "--location", str(tmp_path / "stream"), "--once",
            PGHOST=master.host, PGPORT=str(master.port), PGDATABASE=master.database, PGUSER=account,
            PGPASSWORD=PASSWORD,
        )  # fmt: skip
        assert "1 change recorded" in recorded
        assert any("recorded" in file.read_text() for file in (tmp_path / "stream").iterdir() if file.is_file())

        removed = machine.done(
            "remove",
            "SHOP",
            "--airflow",
            "none",
            "--yes",
            "--revoke",
            "--admin",
            master.user,
            PGPASSFILE=str(passwords),
        )
        assert "triggers and resources are removed" in removed and "airflow connections delete shop_dr1" in removed
        assert not differences(before, catalogue(connection))
    assert machine.done("status").endswith("no replication is configured: ./sluice add makes one\n")
