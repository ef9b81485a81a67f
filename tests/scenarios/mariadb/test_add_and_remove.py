"""`./sluice add` with a MariaDB slave, `remove`, and the statements for an administrator who does it by hand."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

import pytest

from devstack.cli import parser
from devstack.mariadb import MariaDBServer, program, quoted
from devstack.postgres import PostgresServer
from sluice import config, sql_files
from sluice.capture.reconcile import reconcile
from sluice.capture.resources import install
from sluice.cli import add, remove
from sluice.cli.connections import connection_unknown
from sluice.cli.where import Where
from sluice.configuration.model import DEFAULT_SCHEMA
from sluice.control.checkpoint import CheckpointStore
from sluice.database.errors import LoginRefused
from sluice.database.registry import reach
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.preflight.checks import NotReady
from sluice.vendors.mysql.accounts import MySQLPreflight
from sluice.vendors.mysql.connection import connect
from sluice.vendors.postgres import catalog
from tests.rig.console import Told

DATABASE, ACCOUNT = "shop `copy`_1 %", "Re'pl\"_%"
MASTER = "mariadb shop"
PREFIX = Prefix("SHOP_")
DURABLE = "innodb_flush_log_at_trx_commit"


@dataclass
class Shop:
    """A master with a table, and a MariaDB that has neither the slave's database nor an account."""

    postgres: PostgresServer
    mariadb: MariaDBServer
    folder: Path
    passwords: dict[str, ConnectionInfo] = field(default_factory=dict)

    @property
    def sides(self) -> list[str]:
        master, slave = self.postgres.info(), self.mariadb.info()
        account, database = quote(ACCOUNT, safe=""), quote(DATABASE, safe="")
        return [
            *("--master", f"postgresql://mariadb_shop@{master.host}:{master.port}/{quote(MASTER)}"),
            *("--slave", f"dr1=mysql://{account}@{slave.host}:{slave.port}/{database}"),
        ]

    def where(self, store_url: str | None = None) -> Where:
        return Where(self.folder, None, self.connections, store_url, "")

    def connections(self, conn_id: str, vendor: str) -> ConnectionInfo:
        if conn_id not in self.passwords:
            raise connection_unknown(conn_id)
        return self.passwords[conn_id]

    def add(self, console: Told, *options: str) -> list[str] | None:
        arguments = ["add", "SHOP", *self.sides, *options, "--airflow", "none"]
        return add.run(parser().parse_args(arguments), console, self.where())

    def remove(self, console: Told, *options: str) -> None:
        remove.run(parser().parse_args(["remove", "SHOP", *options, "--airflow", "none"]), console, self.where())

    def grants(self) -> list[str]:
        with self.mariadb.connect() as admin, admin.cursor() as cursor:
            cursor.execute("SELECT 1 FROM mysql.user WHERE user = %s", (ACCOUNT,))
            if not cursor.fetchall():
                return []
            cursor.execute("SHOW GRANTS FOR %s@'%%'", (ACCOUNT,))
            return [text for (text,) in cursor.fetchall()]

    def slave(self) -> ConnectionInfo:
        return replace(self.mariadb.info(), database=DATABASE, user=ACCOUNT, password="of the account")


@pytest.fixture
def shop(
    postgres: PostgresServer, mariadb_server: MariaDBServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    made = Shop(postgres, mariadb_server, tmp_path)
    with postgres.connect() as connection:
        connection.execute(f'CREATE DATABASE "{MASTER}"')
    with postgres.connect(MASTER) as connection:
        connection.execute('CREATE TABLE "Or""der" (id bigint PRIMARY KEY, note text, tags text[])')
    monkeypatch.setenv("PGPASSWORD", postgres.info().password)
    monkeypatch.setenv("MYSQL_PWD", mariadb_server.info().password)
    with mariadb_server.connect() as admin, admin.cursor() as cursor:
        cursor.execute(f"SET GLOBAL {DURABLE} = 1")
        try:
            yield made
        finally:
            cursor.execute(f"SET GLOBAL {DURABLE} = 0")
            cursor.execute(f"DROP DATABASE IF EXISTS {quoted(DATABASE).replace('%', '%%')}", ())
            cursor.execute("DROP USER IF EXISTS %s@'%%'", (ACCOUNT,))
    with postgres.connect() as connection:
        connection.execute(f'DROP DATABASE "{MASTER}" WITH (FORCE)')
        if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'mariadb_shop'").fetchone():
            connection.execute("DROP OWNED BY mariadb_shop; DROP ROLE mariadb_shop")


@pytest.mark.long
def test_add_makes_what_the_slave_lacks_and_remove_takes_it_back(shop: Shop, redis_url: str) -> None:
    administrators = ["--admin", "postgres", "--admin", "dr1=root"]
    printed = Told(yes=True)
    assert shop.add(printed, *administrators, "--print-sql") is None
    assert shop.grants() == []
    assert f"CREATE DATABASE {quoted(DATABASE)};" in printed.text and "ACCOUNT LOCK;" in printed.text
    console = Told(yes=True, answers={"A password for the new account": "of the account"})
    assert shop.add(console, *administrators) == ["dr1"]
    assert "of the account" not in console.text
    assert "warning: slave dr1" in console.text and 'lossy_columns: ["public.Or\\"der.tags"]' in console.text
    granted = shop.grants()
    assert len(granted) == 2 and "GRANT USAGE ON *.*" in granted[0] and "SELECT" in granted[1]
    (replication,) = config.survey(shop.folder).replications
    assert replication.slave("dr1").vendor == "mysql"
    # Nothing is lacking any more: again, with the account's own password and no administrator.
    (shop.folder / "SHOP.yaml").unlink()
    master = replace(shop.postgres.info(MASTER), user="mariadb_shop", password="of the account")
    shop.passwords |= {"shop_master": master, "shop_dr1": shop.slave()}
    assert shop.add(Told(yes=True)) == ["dr1"]
    with reach(master, "test") as session:
        install(session, PREFIX, DEFAULT_SCHEMA)
        reconcile(session, PREFIX, DEFAULT_SCHEMA, replication.resolve(catalog.tables(session)))
    with connect(shop.slave(), application="test") as session:
        CheckpointStore(session, PREFIX, "", "dr1").ensure()
        session.run("CREATE TABLE shop_stage_1_2_inserts (a int)")
        session.run('CREATE TABLE "Or""der" (id int)')
    with shop.mariadb.connect() as admin, admin.cursor() as cursor:
        shop.remove(Told(yes=True), *administrators, "--revoke")
        cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (DATABASE,))
        assert cursor.fetchall() == (('Or"der',),)
    assert shop.grants() == granted[:1]


def test_an_account_that_is_missing_beside_a_database_that_is_there_is_made(shop: Shop) -> None:
    """As in an installation whose database an administrator has made: SHOW GRANTS of the account is error 1141."""
    with shop.mariadb.connect() as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {quoted(DATABASE)}".replace("%", "%%"), ())
    console = Told(yes=True, answers={"A password for the new account": "of the account"})
    assert shop.add(console, "--admin", "postgres", "--admin", "dr1=root") == ["dr1"]
    assert console.text.count("CREATE USER") == 1 and "CREATE DATABASE" not in console.text
    with connect(shop.slave(), application="test") as session:
        session.run("CREATE TABLE t (id int PRIMARY KEY)")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("password", ["", "of nobody"])
def test_an_account_without_a_name_that_hides_the_new_one_is_named_with_its_remedy(shop: Shop, password: str) -> None:
    with shop.mariadb.connect() as admin, admin.cursor() as cursor:
        cursor.execute("SELECT SUBSTRING_INDEX(USER(), '@', -1)")
        ((host,),) = cursor.fetchall()
        cursor.execute("CREATE OR REPLACE USER ''@%s IDENTIFIED BY %s", (host, password))
        try:
            console = Told(yes=True, answers={"A password for the new account": "of the account"})
            with pytest.raises(LoginRefused) as refused:
                shop.add(console, "--admin", "postgres", "--admin", "dr1=root")
            remedy = f"DROP USER ''@'{host}'"
            assert remedy in str(refused.value)
            cursor.execute(remedy)
            with connect(shop.slave(), application="test") as session:
                session.run("CREATE TABLE t (id int PRIMARY KEY)")
        finally:
            cursor.execute("DROP USER IF EXISTS ''@%s", (host,))


def test_an_account_that_lacks_a_privilege_gets_that_alone(shop: Shop) -> None:
    with shop.mariadb.connect() as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {quoted(DATABASE)}".replace("%", "%%"), ())
        cursor.execute("CREATE USER %s@'%%' IDENTIFIED BY 'of the account'", (ACCOUNT,))
    shop.passwords["shop_dr1"] = shop.slave()
    console = Told(yes=True, answers={"A password for the new account": "of the account"})
    assert shop.add(console, "--admin", "postgres", "--admin", "dr1=root") == ["dr1"]
    assert "CREATE USER" not in console.text and "CREATE DATABASE" not in console.text
    assert console.text.count("CREATE TEMPORARY TABLES") == 1


def test_without_an_administrator_it_says_what_must_be_run_and_writes_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = quoted(DATABASE.replace("_", "\\_").replace("%", "\\%"))
    with shop.mariadb.connect() as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {quoted(DATABASE)}".replace("%", "%%"), ())
        cursor.execute("CREATE USER %s@'%%' IDENTIFIED BY 'of the account'", (ACCOUNT,))
        cursor.execute(f"GRANT SELECT ON {pattern.replace('%', '%%')}.* TO %s@'%%'", (ACCOUNT,))
    monkeypatch.setenv("MYSQL_PWD", "of the account")
    console = Told(yes=True, answers={"A password for the new account": "x", "An administrator of": "-"})
    with pytest.raises(NotReady) as raised:
        shop.add(console, "--admin", "master=postgres", "--tables", "public.*")
    assert f"CREATE TEMPORARY TABLES ON {pattern}.* TO" in str(raised.value) and "SELECT" not in str(raised.value)
    assert list(shop.folder.iterdir()) == []


def test_the_file_for_an_administrator_gives_all_that_an_account_needs(shop: Shop) -> None:
    text = sql_files.render("mysql", "slave_account", role="Anna O", database="shop_1", pattern="shop\\_1")
    info = shop.mariadb.info()
    for _ in range(2):
        client = [program("mariadb"), f"--host={info.host}", f"--port={info.port}", f"--user={info.user}"]
        subprocess.run(client, input=text, text=True, check=True, env={"MYSQL_PWD": info.password})
    with shop.mariadb.connect() as admin, admin.cursor() as cursor:
        try:
            cursor.execute("ALTER USER 'Anna O'@'%' IDENTIFIED BY 'x' ACCOUNT UNLOCK")
            own = replace(info, database="shop_1", user="Anna O", password="x")
            (shop.folder / "SHOP.yaml").write_text(
                "prefix: SHOP_\nmaster: {conn_id: m}\nslaves: {dr1: {conn_id: s, vendor: mysql}}\ntables: {a.b: {}}\n"
            )
            replication = config.survey(shop.folder).replications[0]
            with connect(own, application="test") as session:
                assert MySQLPreflight().of_slave(session, replication, replication.slave("dr1"), None) == []
        finally:
            cursor.execute("DROP DATABASE shop_1")
            cursor.execute("DROP USER 'Anna O'@'%'")
