"""`add` and `remove` on real servers: what they print and run, and that nothing remains."""

import argparse
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from devstack.cli import parser
from devstack.postgres import PostgresServer
from sluice import config
from sluice.capture.reconcile import reconcile
from sluice.capture.resources import install
from sluice.cli import add, remove, sides
from sluice.cli.connections import connection_unknown
from sluice.cli.sides import NoPassword
from sluice.cli.where import Where
from sluice.configuration.model import DEFAULT_SCHEMA
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination import redis_store
from sluice.database.addresses import BadAddress, PasswordShown
from sluice.database.errors import StatementFailed
from sluice.database.registry import reach
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.preflight.checks import NotReady
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.accounts import parse
from sluice.vendors.postgres.connection import quoted
from tests.catalogue import catalogue, differences
from tests.errors import raises_code
from tests.rig.console import Told
from tests.rig.net import until

PREFIX = Prefix("SHOP_")
ACCOUNT = 'Re"pl %s $sluice$ '.ljust(63, "x")
"""Of the longest name that there is."""


@dataclass
class Shop:
    """A master with an owner and tables, beside it an empty database, on one server; names that need quotes."""

    server: PostgresServer
    master: str
    slave: str
    owner: str
    account: str
    folder: Path
    passwords: dict[str, ConnectionInfo] = field(default_factory=dict)

    def url(self, database: str) -> str:
        info = self.server.info()
        return f"postgresql://{quote(self.account, safe='')}@{info.host}:{info.port}/{quote(database, safe='')}"

    @contextmanager
    def administrator(self, database: str) -> Iterator[psycopg.Connection[Any]]:
        with self.server.connect(database) as connection:
            yield connection

    def where(self, store_url: str | None = None) -> Where:
        return Where(self.folder, None, self.connections, store_url, "")

    def connections(self, conn_id: str, vendor: str) -> ConnectionInfo:
        if conn_id not in self.passwords:
            raise connection_unknown(conn_id)
        return self.passwords[conn_id]

    def add(self, console: Told, *arguments: str) -> list[str] | None:
        return add.run(parsed("add", "SHOP", *arguments), console, self.where())


def parsed(*arguments: str) -> argparse.Namespace:
    return parser().parse_args([*arguments, "--airflow", "none"])


@pytest.fixture
def shop(
    postgres: PostgresServer, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    folder = tmp_path / "replications"
    folder.mkdir()
    made = Shop(postgres, 'Shop "of" %s', "shöp copy", "table", ACCOUNT, folder)
    names = [made.master, made.slave]
    with postgres.connect() as connection:
        connection.execute(f"CREATE ROLE {quoted(made.owner)}")
        connection.execute(f"CREATE DATABASE {quoted(made.master)} OWNER {quoted(made.owner)}")
    with made.administrator(made.master) as connection:
        connection.execute(
            f"""
            SET ROLE {quoted(made.owner)};
            CREATE SCHEMA "Mixed Case";
            CREATE TABLE "Mixed Case"."Or""der" (id bigserial PRIMARY KEY, made date NOT NULL DEFAULT now());
            CREATE TABLE "Mixed Case".events (id int, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
            CREATE TABLE "Mixed Case".events_2026 PARTITION OF "Mixed Case".events
                FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
            INSERT INTO "Mixed Case"."Or""der" SELECT FROM generate_series(1, 10);
            RESET ROLE
            """
        )
    monkeypatch.setenv("PGPASSWORD", postgres.info().password)
    yield made
    with postgres.connect() as connection:
        for name in names:
            connection.execute(f"DROP DATABASE IF EXISTS {quoted(name)} WITH (FORCE)")
        for role in (made.owner, made.account):
            if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
                connection.execute(f"DROP OWNED BY {quoted(role)}; DROP ROLE {quoted(role)}")


def sides_of(shop: Shop) -> list[str]:
    return ["--master", shop.url(shop.master), "--slave", f"dr1={shop.url(shop.slave)}"]


def added(shop: Shop, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Told:
    """Adds everything, as an administrator; the account's password is kept in Airflow's connections."""
    console = Told(yes=True, answers={"A password for the new account": "of the account"})
    assert shop.add(console, *sides_of(shop), "--admin", "postgres", *arguments) == ["dr1"]
    for name, database in (("shop_master", shop.master), ("shop_dr1", shop.slave)):
        info = shop.server.info(database)
        shop.passwords[name] = ConnectionInfo(
            "postgres", info.host, info.port, database, shop.account, "of the account"
        )
    return console


def test_print_sql_prints_all_that_is_needed_and_changes_nothing(shop: Shop) -> None:
    with shop.administrator(shop.master) as connection:
        before = catalogue(connection)
        console = Told(yes=True)
        assert shop.add(console, *sides_of(shop), "--admin", "postgres", "--print-sql") is None
        assert not differences(before, catalogue(connection))
        roles = connection.execute("SELECT rolname FROM pg_roles WHERE rolname = %s", [shop.account]).fetchall()
    assert roles == [] and list(shop.folder.iterdir()) == []
    for part in (
        f"CREATE ROLE {quoted(shop.account)} LOGIN;",
        f"CREATE DATABASE {quoted(shop.slave)} OWNER {quoted(shop.account)} ENCODING 'UTF8'",
        f"GRANT SET ON PARAMETER session_replication_role TO {quoted(shop.account)};",
        'ON SCHEMA "Mixed Case" TO',
        'ALTER DEFAULT PRIVILEGES FOR ROLE "table" IN SCHEMA "Mixed Case"',
    ):
        assert part in console.text, console.text
    assert "PASSWORD" not in console.text
    lines = console.text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith(("GRANT", "ALTER", "CREATE")):
            above = next(one for one in reversed(lines[:number]) if one.startswith("--"))
            assert above.endswith(":"), f"{line} has no reason"
    role = lines.index(f"CREATE ROLE {quoted(shop.account)} LOGIN;")
    assert lines[role + 1].startswith("-- Then you give it a password") and "-- \\password " in lines[role + 2]


@pytest.mark.long
def test_the_printed_statements_are_all_that_an_account_needs(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    console = added(shop, monkeypatch)
    assert "of the account" not in console.text
    assert console.text.count("GRANT SET ON PARAMETER session_replication_role") == 1
    (command,) = [line for line in console.text.splitlines() if "airflow connections add shop_dr1 " in line]
    assert {f"--conn-schema={shop.slave}", f"--conn-login={shop.account}"} <= set(shlex.split(command))
    found = config.survey(shop.folder)
    assert not found.mistakes
    (replication,) = found.replications
    assert list(replication.slaves) == ["dr1"] and str(replication.tables[0].pattern) == '"Mixed Case".*'
    # Nothing is lacking any more, and a second slave joins by its address alone.
    more = Told(yes=True)
    again = ["--slave", f"dr2={shop.url('postgres')}", "--admin", "postgres", "--print-sql"]
    assert shop.add(more, *again) is None
    assert "master:" not in more.text


@pytest.mark.long
def test_without_an_administrator_it_says_what_must_be_run_and_writes_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shop.administrator("postgres") as connection:
        connection.execute(f"CREATE ROLE {quoted(shop.account)} LOGIN PASSWORD 'secret'")
        connection.execute(f"CREATE DATABASE {quoted(shop.slave)} OWNER {quoted(shop.account)}")
    monkeypatch.setenv("PGPASSWORD", "secret")
    console = Told(yes=True)
    with pytest.raises(NotReady, match=r'GRANT .* ON SCHEMA "Mixed Case"'):
        shop.add(console, *sides_of(shop))
    assert list(shop.folder.iterdir()) == []
    with shop.administrator(shop.master) as connection:
        connection.execute(";".join(console.statements).encode())
    assert shop.add(Told(yes=True), *sides_of(shop)) == ["dr1"]


@pytest.mark.long
def test_a_person_is_asked_for_what_is_not_given(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    password = shop.server.info().password
    answers = {
        "Address of the master": shop.url(shop.master),
        "Name of the slave": "dr1",
        "Address of dr1": shop.url(shop.slave),
        "An administrator of": "postgres",
        "Tables to replicate": '"Mixed Case".events',
        "Password of the administrator": password,
        "A password for the new account": "of the account",
    }
    monkeypatch.setenv("PGPASSWORD", "")
    console = Told(answers)
    assert shop.add(console) == ["dr1"]
    assert '"Mixed Case": 2 tables' in console.text or "Mixed Case: 2 tables" in console.text
    assert password not in console.text
    assert "events" in (shop.folder / "SHOP.yaml").read_text()
    with raises_code("unanswered", match="--master URL"):
        add.run(parsed("add", "OTHER"), Told(), shop.where())


@pytest.mark.parametrize("event_triggers", [False, True])
def test_remove_leaves_the_catalogue_as_it_was(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, redis_url: str, event_triggers: bool
) -> None:
    with shop.administrator("postgres") as connection:
        connection.execute(f"CREATE ROLE {quoted(shop.account)} LOGIN PASSWORD 'of the account'")
        connection.execute(f"CREATE DATABASE {quoted(shop.slave)}")
    before = {}
    for name in (shop.master, shop.slave):
        with shop.administrator(name) as connection:
            before[name] = catalogue(connection)
    for name, database in (("shop_master", shop.master), ("shop_dr1", shop.slave)):
        shop.passwords[name] = replace(shop.server.info(database), user=shop.account, password="of the account")
    added(shop, monkeypatch, *(["--event-triggers"] if event_triggers else []))
    (replication,) = config.survey(shop.folder).replications
    with reach(shop.passwords["shop_master"], "test") as session:
        install(session, PREFIX, DEFAULT_SCHEMA)
        reconcile(session, PREFIX, DEFAULT_SCHEMA, replication.resolve(catalog.tables(session)))
    with shop.administrator(shop.master) as connection:
        made = differences(before[shop.master], catalogue(connection))
        assert any("shop_items" in line for line in made)
        assert any("event triggers: shop_" in line for line in made) == event_triggers
    with reach(shop.passwords["shop_dr1"], "test") as session:
        CheckpointStore(session, PREFIX, DEFAULT_SCHEMA, "dr1").ensure()
    client = redis_store.connect(redis_url)
    client.set("sluice:SHOP_:dr1:status", "{}")
    client.set("sluice:SHOP_2_:dr1:status", "{}")
    console = Told(yes=True)
    options = ["--revoke", "--admin", "postgres"]
    remove.run(parsed("remove", "SHOP", *options), console, shop.where(redis_url))
    for name in (shop.master, shop.slave):
        with shop.administrator(name) as connection:
            assert differences(before[name], catalogue(connection)) == []
    assert client.keys() == ["sluice:SHOP_2_:dr1:status"]
    assert [file.name for file in shop.folder.iterdir()] == ["SHOP.yaml.removed"]


@pytest.mark.long
@pytest.mark.parametrize("revoke", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_removed_replication_is_added_again(shop: Shop, monkeypatch: pytest.MonkeyPatch, revoke: bool) -> None:
    """The removal deletes the connections, which alone had the account's password."""
    added(shop, monkeypatch)
    options = ["--revoke", "--admin", "postgres"] if revoke else []
    remove.run(parsed("remove", "SHOP", *options), Told(yes=True), shop.where())
    tables = {"Tables to replicate": '"Mixed Case".*', "Roles that will make tables": "-"}
    with reach(shop.passwords["shop_master"], "test"):
        shop.passwords.clear()
        with raises_code("unanswered", match="Password of the account"):  # somebody is logged in with the old one
            shop.add(Told(tables), *sides_of(shop), "--admin", "postgres")
    with pytest.raises(NoPassword, match=r'^The account Re"pl .* of master \(.* new one: psql -c .\\password "Re""pl '):
        shop.add(Told(yes=True), *sides_of(shop), "--admin", "postgres")
    console = Told({"A password for the account": "another one", **tables})
    assert shop.add(console, *sides_of(shop), "--admin", "postgres") == ["dr1"]
    assert console.text.count("has a new password") == 1, "both sides are on one server"
    assert "another one" not in console.text


def test_a_refused_administrator_is_named_with_what_to_do(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "wrong")
    with pytest.raises(NoPassword) as refused:
        shop.add(Told(yes=True), *sides_of(shop), "--admin", "postgres")
    text = str(refused.value)
    assert (
        text.startswith("The administrator postgres of master (postgres@") and "password authentication failed" in text
    )
    assert "taken from PGPASSWORD or ~/.pgpass" in text and "--admin master=LOGIN names another one." in text
    assert "Airflow" not in text and "is not there yet" not in text


@pytest.mark.long
def test_one_slave_is_removed_and_the_others_stay(shop: Shop, monkeypatch: pytest.MonkeyPatch, redis_url: str) -> None:
    added(shop, monkeypatch)
    with shop.administrator("postgres") as connection:
        connection.execute(f"CREATE DATABASE other OWNER {quoted(shop.account)}")
    try:
        shop.passwords["shop_dr2"] = _at(shop.passwords["shop_dr1"], "other")
        assert shop.add(Told(yes=True), "--slave", f"dr2={shop.url('other')}", "--admin", "postgres") == ["dr2"]
        for name in ("dr1", "dr2"):
            with reach(shop.passwords[f"shop_{name}"], "test") as session:
                CheckpointStore(session, PREFIX, DEFAULT_SCHEMA, name).ensure()
        remove.run(parsed("remove", "SHOP", "--slave", "dr1"), Told(yes=True), shop.where(redis_url))
        with reach(shop.passwords["shop_dr1"], "test") as session:
            assert not CheckpointStore(session, PREFIX, DEFAULT_SCHEMA, "dr1").exists()
        with reach(shop.passwords["shop_dr2"], "test") as session:
            assert CheckpointStore(session, PREFIX, DEFAULT_SCHEMA, "dr2").exists()
        assert list(config.survey(shop.folder).replications[0].slaves) == ["dr2"]
        with pytest.raises(Terminal, match="dr2 is the last slave"):
            remove.run(parsed("remove", "SHOP", "--slave", "dr2"), Told(yes=True), shop.where(redis_url))
    finally:
        with shop.administrator("postgres") as connection:
            connection.execute("DROP DATABASE other WITH (FORCE)")


@pytest.mark.long
def test_nothing_is_removed_without_a_yes_and_with_it_what_was_never_installed_leaves_no_trace(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shop.administrator(shop.master) as connection:
        before = catalogue(connection)
        added(shop, monkeypatch)
        with pytest.raises(Terminal, match="Nothing was removed"):
            remove.run(parsed("remove", "SHOP"), Told(agrees=False), shop.where())
        assert (shop.folder / "SHOP.yaml").exists()
        remove.run(parsed("remove", "SHOP", "--revoke", "--admin", "postgres"), Told(yes=True), shop.where())
        assert differences(before, catalogue(connection)) == []


@pytest.mark.long
def test_an_empty_master_first_and_tables_later_by_a_role_that_was_named(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shop.administrator("postgres") as connection:
        connection.execute('CREATE ROLE "Mi grator"')
        connection.execute(f"CREATE DATABASE {quoted(shop.slave)}")
    try:
        for database in (shop.master, shop.slave):
            with shop.administrator(database) as connection:
                connection.execute('CREATE SCHEMA later; GRANT USAGE, CREATE ON SCHEMA later TO "Mi grator"')
        answers = {
            "A password for the new account": "of the account",
            "Tables to replicate": "later.*",
            "Roles that will make tables": "Mi grator",
        }
        console = Told(answers)
        assert shop.add(console, *sides_of(shop), "--admin", "postgres") == ["dr1"]
        start = 'ALTER DEFAULT PRIVILEGES FOR ROLE "Mi grator" IN SCHEMA later GRANT'
        account = quoted(shop.account)
        assert f"{start} SELECT, TRIGGER ON TABLES TO {account}" in console.text
        assert "-- New tables and partitions there could not be read or given triggers" in console.text
        (replication,) = config.survey(shop.folder).replications
        assert replication.master.creators == ("Mi grator",)
        with shop.administrator(shop.master) as connection:
            connection.execute('SET ROLE "Mi grator"; CREATE TABLE later.made (id bigserial PRIMARY KEY); RESET ROLE')
            held = (
                "SELECT has_table_privilege(%s, 'later.made', 'SELECT'), "
                "has_table_privilege(%s, 'later.made', 'TRIGGER') AND has_schema_privilege(%s, 'later', 'USAGE')"
            )
            assert connection.execute(held, [shop.account] * 3).fetchone() == (True, True)
        with shop.administrator(shop.slave) as connection:
            held = "SELECT has_schema_privilege(%s, 'later', 'USAGE'), has_schema_privilege(%s, 'later', 'CREATE')"
            assert connection.execute(held, [shop.account, shop.account]).fetchone() == (True, True)
    finally:
        for database in (shop.master, shop.slave):
            with shop.administrator(database) as connection:
                connection.execute('DROP OWNED BY "Mi grator" CASCADE')
        with shop.administrator("postgres") as connection:
            connection.execute('DROP ROLE "Mi grator"')


def test_a_wildcard_without_tables_is_reported(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    console = added(shop, monkeypatch, "--tables", '"Mixed Case".e*', "--tables", "mixde.*")
    assert "tables named mixde.*: no table there has such a name. Correct the line" in console.text
    assert '"Mixed Case".e*: no table' not in console.text


class Busy(Told):
    """A console during whose question the application changes a table that the statements are for."""

    def __init__(self, shop: Shop):
        super().__init__(answers={"A password for the new account": "of the account"}, yes=True)
        self.shop = shop
        self.met = threading.Event()
        self.application = threading.Thread(target=self._change, daemon=True)
        self.changing = threading.Event()

    def confirm(self, question: str, option: str = "--yes") -> bool:
        self.application.start()
        assert self.changing.wait(30)
        return True

    def _change(self) -> None:
        master = self.shop.master
        with (
            self.shop.administrator(master) as watching,
            self.shop.administrator(master) as application,
            application.transaction(),
        ):
            application.execute('ALTER TABLE "Mixed Case"."Or""der" ADD note text')
            self.changing.set()
            until(lambda: watching.execute(GRANT_WAITS).fetchone() is not None)
            self.met.set()


GRANT_WAITS = """
    SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'GRANT SELECT, TRIGGER%'
"""


def test_a_table_that_is_altered_meanwhile_gets_its_grants(shop: Shop) -> None:
    console = Busy(shop)
    assert shop.add(console, *sides_of(shop), "--admin", "postgres") == ["dr1"]
    console.application.join(30)
    assert console.met.is_set(), "no GRANT met the ALTER TABLE"


def test_an_error_of_an_administrators_session_is_shown_unchanged(shop: Shop) -> None:
    side = sides.Side("master", "shop_master", shop.server.info(shop.master), admin=shop.server.info(shop.master))
    with pytest.raises(StatementFailed, match="division by zero"):
        sides.carried_out(side, ["SELECT 1/0"])


def test_a_foreign_file_is_never_overwritten(shop: Shop) -> None:
    (shop.folder / "SHOP.yaml").write_text("prefix: OTHER_\nmaster: {conn_id: m}\nslaves: {}\ntables: {a.b: {}}\n")
    with raises_code("file-in-use", match="holds no replication SHOP_"):
        shop.add(Told(yes=True), *sides_of(shop), "--admin", "postgres")


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("postgresql://a:secret@h/db", PasswordShown),
        ("postgresql://a@h/db?password=secret", PasswordShown),
        ("postgresql://a@h", BadAddress),
        ("postgresql:///db", BadAddress),
        ("host=h dbname=d", BadAddress),
        ("mysql://a@h/db", BadAddress),
        ("postgresql://a@h:x/db", BadAddress),
        ("postgresql://a@h/db?application_name=x", BadAddress),
    ],
)
def test_a_url_that_leads_nowhere_or_shows_a_password_is_refused_without_quoting_it(
    url: str, error: type[Exception]
) -> None:
    with pytest.raises(error) as raised:
        parse(url, "sluice")
    assert "secret" not in str(raised.value)


def test_a_slaves_name_is_checked_before_anything_else(shop: Shop) -> None:
    console = Told(yes=True)
    with pytest.raises(Terminal, match=r"'dr 1' is no slave's name; use letters"):
        shop.add(console, "--master", "postgresql://no.such.host/a", "--slave", "dr 1=postgresql://no.such.host/b")
    assert not console.text


def test_a_url_is_parsed() -> None:
    found = parse("postgresql://db.example:5433/Shop%20%22x%22?sslmode=require", "sluice")
    assert (found.host, found.port, found.database, found.user) == ("db.example", 5433, 'Shop "x"', "sluice")
    assert dict(found.options) == {"sslmode": "require"}


def _at(info: ConnectionInfo, database: str) -> ConnectionInfo:
    return ConnectionInfo(info.vendor, info.host, info.port, database, info.user, info.password)
