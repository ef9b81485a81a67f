"""`./sluice add` and `remove` with a MariaDB master whose log is recorded: what they say, run, write and take back."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from devstack.cli import parser
from devstack.mariadb import MariaDBServer
from devstack.postgres import PostgresServer
from sluice import config
from sluice.airflow.pages.new_pages import Chosen, examined, proven
from sluice.cli import add, remove
from sluice.cli.connections import connection_unknown
from sluice.cli.where import Where
from sluice.database.registry import reach
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.model.vendors import BINLOG
from sluice.operate.replication_file import usual_location
from sluice.preflight.checks import NotReady, of_master
from tests.airflow_connections import connect_airflow
from tests.rig.console import Told
from tests.scenarios.binlog.master import Master

ACCOUNT, PASSWORD = "logged_shop", "of the account"
ADMINISTRATORS = ("--admin", "master=root", "--admin", "dr1=postgres")
WRONG = "SET GLOBAL sync_binlog = 0, GLOBAL binlog_row_metadata = NO_LOG, GLOBAL binlog_format = MIXED"
RIGHT = "SET GLOBAL sync_binlog = 1, GLOBAL binlog_row_metadata = FULL, GLOBAL binlog_format = ROW"


@dataclass
class Shop:
    """A master without an account for Sluice, and an empty database on PostgreSQL."""

    master: Master
    slave: ConnectionInfo
    folder: Path
    passwords: dict[str, ConnectionInfo] = field(default_factory=dict)

    def where(self) -> Where:
        return Where(self.folder, None, self.connections, None, "")

    def connections(self, conn_id: str, vendor: str) -> ConnectionInfo:
        if conn_id not in self.passwords:
            raise connection_unknown(conn_id)
        return self.passwords[conn_id]

    @property
    def account(self) -> ConnectionInfo:
        return replace(self.master.info, user=ACCOUNT, password=PASSWORD)

    def add(self, console: Told, *options: str) -> list[str] | None:
        of_master, slave = self.master.info, self.slave
        arguments = [
            *("add", "SHOP", "--airflow", "none", "--location", str(self.master.folder)),
            *("--master", f"mysql://{ACCOUNT}@{of_master.host}:{of_master.port}/{of_master.database}"),
            *("--slave", f"dr1=postgresql://{ACCOUNT}@{slave.host}:{slave.port}/{slave.database}"),
        ]
        return add.run(parser().parse_args([*arguments, *options]), console, self.where())

    def remove(self, console: Told, *options: str) -> None:
        remove.run(parser().parse_args(["remove", "SHOP", *options, "--airflow", "none"]), console, self.where())

    def grants(self) -> list[str]:
        return [text for (text,) in self.master.run(f"SHOW GRANTS FOR {ACCOUNT}@'%'")]


@pytest.fixture
def shop(
    master: Master,
    logging_server: MariaDBServer,
    postgres: PostgresServer,
    database: Callable[[], ConnectionInfo],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Shop]:
    slave = database()
    master.run("CREATE TABLE items (id int primary key, name varchar(20))", "INSERT INTO items VALUES (1, 'a')")
    monkeypatch.setenv("MYSQL_PWD", logging_server.info().password)
    monkeypatch.setenv("PGPASSWORD", slave.password)
    folder = tmp_path / "replications"
    folder.mkdir()
    yield Shop(master, slave, folder)
    master.run(RIGHT, f"DROP USER IF EXISTS {ACCOUNT}@'%'")
    with postgres.connect(slave.database) as connection:
        if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [ACCOUNT]).fetchone():
            connection.execute(f"DROP OWNED BY {ACCOUNT}; DROP ROLE {ACCOUNT}".encode())


@pytest.mark.long
def test_add_grants_what_a_master_with_a_log_lacks_and_remove_takes_it_back(shop: Shop) -> None:
    shop.master.run(WRONG)
    printed = Told(yes=True)
    assert shop.add(printed, *ADMINISTRATORS, "--print-sql") is None
    assert shop.master.rows("SELECT 1 FROM mysql.user WHERE user = %s", ACCOUNT) == []
    console = Told(yes=True, answers={"A password for the new account": PASSWORD})
    assert shop.add(console, *ADMINISTRATORS) == ["dr1"]
    for text in (printed.text, console.text):
        assert f"CREATE USER '{ACCOUNT}'@'%' ACCOUNT LOCK;" in text
        assert "SET GLOBAL binlog_format = 'ROW';" in text and "until they connect again" in text.replace("\n-- ", " ")
        assert f"GRANT REPLICATION SLAVE ON *.* TO '{ACCOUNT}'@'%';" in text
    assert PASSWORD not in console.text
    (replication,) = config.survey(shop.folder).replications
    assert (replication.master.capture, replication.master.location) == (BINLOG, str(shop.master.folder))
    assert (replication.master.vendor, replication.slave("dr1").vendor) == ("mysql", "postgres")
    with reach(shop.account, "test") as session:
        assert of_master(session, replication) == []
    steps = add.next_steps(Prefix("SHOP_"), ["dr1"], shop.where())
    assert "capture_redo" in "\n".join(steps[:2]) and "initial_update" in "\n".join(steps)
    shop.passwords = {"shop_master": shop.account, "shop_dr1": replace(shop.slave, user=ACCOUNT, password=PASSWORD)}
    console = Told(yes=True)
    shop.remove(console, *ADMINISTRATORS, "--revoke")
    assert str(shop.master.folder) in console.text
    (left,) = shop.grants()
    assert left.startswith("GRANT USAGE ON *.*")
    assert [file.name for file in shop.folder.iterdir()] == ["SHOP.yaml.removed"]


def test_without_an_administrator_all_that_is_lacking_is_told_at_once_and_nothing_is_written(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = shop.master
    master.run(
        WRONG,
        f"CREATE USER {ACCOUNT}@'%' IDENTIFIED BY '{PASSWORD}'",
        f"GRANT SELECT ON {master.database}.items TO {ACCOUNT}@'%'",
        "CREATE TABLE m (id int primary key) ENGINE = MyISAM",
    )
    monkeypatch.setenv("MYSQL_PWD", PASSWORD)
    with pytest.raises(NotReady) as raised:
        answers = {"A password for the new account": PASSWORD, "An administrator of master": "-"}
        shop.add(Told(yes=True, answers=answers), "--admin", "dr1=postgres", "--tables", "public.*")
    said = str(raised.value)
    for statement in (
        "SET GLOBAL binlog_format = 'ROW'", "SET GLOBAL sync_binlog = 1", "SET GLOBAL binlog_row_metadata = 'FULL'",
        f"GRANT REPLICATION SLAVE ON *.* TO '{ACCOUNT}'@'%'", f"GRANT BINLOG MONITOR ON *.* TO '{ACCOUNT}'@'%'",
        f"GRANT SELECT, REFERENCES ON `{master.database.replace('_', chr(92) + '_')}`.* TO",
    ):  # fmt: skip
        assert statement in said
    assert list(shop.folder.iterdir()) == []


def test_the_page_offers_a_master_with_a_log_and_drafts_its_file(
    shop: Shop, logging_server: MariaDBServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    master, wish = shop.master, Chosen("SHOP", "mysql:m", (("dr1", "postgres:s"),), ("public.*",))
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(shop.folder))
    connect_airflow(monkeypatch, "m", master.info)
    connect_airflow(monkeypatch, "s", replace(shop.slave, user=ACCOUNT, password=PASSWORD))
    master.run("SET GLOBAL sync_binlog = 0")
    with reach(shop.slave, "test") as administrator:
        administrator.execute(f"CREATE ROLE {ACCOUNT} LOGIN PASSWORD '{PASSWORD}'".encode())
    tested = examined(wish)
    assert [str(one.table) for one in tested.tables] == ["public.items"]
    assert "SET GLOBAL sync_binlog = 1" in [issue.statement for issue in tested.issues if issue.side == "master"]
    with pytest.raises(NotReady, match="sync_binlog"):
        proven(wish)
    for _ in range(3):  # what is shown can be copied and run
        for issue in examined(wish).issues:
            with reach(logging_server.info() if issue.side == "master" else shop.slave, "test") as administrator:
                administrator.execute((issue.statement or "").encode())
    for location in ("", "/srv/streams/shop"):
        file, text = proven(replace(wish, location=location))
        made = config.checked(file, text).master
        assert (made.capture, made.vendor) == (BINLOG, "mysql")
        assert made.location == (location or usual_location(Prefix("SHOP_")))
