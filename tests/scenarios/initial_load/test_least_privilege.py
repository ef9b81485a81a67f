"""An account with exactly the grants of docs/privileges.md: from the commands of the page to a verified slave."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from devstack.postgres import PostgresServer, binary
from sluice.capture import uninstall
from sluice.load import steps
from sluice.model.connection import ConnectionInfo
from sluice.model.issue import Severity
from sluice.model.names import TableName
from sluice.pair import Pair as Ends
from sluice.preflight import checks
from sluice.vendors.postgres.connection import connect, quoted
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import Outcome
from sluice.verify.resync import Action, resync
from tests.rig.rig import MakePair, Rig

pytestmark = pytest.mark.releases

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "privileges.md"

MADE = """
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TABLE people (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "user" text UNIQUE, m mood DEFAULT 'sad');
CREATE TABLE orders (id serial PRIMARY KEY, person int REFERENCES people, at timestamptz DEFAULT now());
CREATE TABLE events (id int, day date, v text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE heap (a int, b text);
INSERT INTO people ("user") SELECT 'user ' || g FROM generate_series(1, 300) g;
INSERT INTO orders (person) SELECT g FROM generate_series(1, 300) g;
INSERT INTO events SELECT g, '2026-01-01'::date + g % 30, 'v' FROM generate_series(1, 300) g;
INSERT INTO heap SELECT g % 7, 'x' FROM generate_series(1, 50) g;
"""


def commands(heading: str) -> str:
    """The commands of the page that follow a sentence."""
    found = re.search(rf"{heading}.*?```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None, heading
    return found[1]


def run(
    text: str, server: PostgresServer, database: str, owner: str, password: str
) -> "subprocess.CompletedProcess[str]":
    """Runs commands as an administrator, with other names, and answers the question for the password."""
    admin = server.info(database)
    text = text.replace("\\password sluice", f"ALTER ROLE sluice PASSWORD ''{password}''").replace("''", "'\\''")
    text = re.sub(r"\bDATABASE$", f'"{database}"', text, flags=re.MULTILINE)
    text = text.replace("cd include/sql/postgres\n", "").replace("shop_owner", owner)
    text = "".join(line for line in text.splitlines(keepends=True) if "CREATE DATABASE" not in line)
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", text],
        cwd=ROOT / "include" / "sql" / "postgres",
        env={
            **os.environ,
            "PATH": f"{binary('psql').parent}{os.pathsep}{os.environ['PATH']}",
            "PGHOST": admin.host,
            "PGPORT": str(admin.port),
            "PGUSER": admin.user,
            "PGPASSWORD": admin.password,
        },
        text=True,
        capture_output=True,
        check=False,
    )


@pytest.fixture
def least(
    postgres: PostgresServer, database: Callable[..., ConnectionInfo], pair_of: MakePair
) -> Iterator[tuple[psycopg.Connection[Any], Rig]]:
    """The owner of the master's tables, and the pair of an account that the page's commands created."""
    from devstack.secret import keep_secret

    master, slave = database().database, database().database
    postgres.create_role("shop_owner")
    password = keep_secret(postgres._password("sluice"))
    with postgres.connect(master) as there, postgres.connect(slave) as here:
        for admin in (there, here):
            admin.execute(f"REVOKE ALL ON DATABASE {quoted(admin.info.dbname)} FROM PUBLIC".encode())
            admin.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC; GRANT ALL ON SCHEMA public TO shop_owner")
        there.execute(f"GRANT CONNECT ON DATABASE {quoted(master)} TO shop_owner".encode())
    with postgres.connect(master, "shop_owner") as owner:
        owner.execute(MADE)
        for text, name in (("On the master, once", master), ("On each slave, once", slave)):
            done = run(commands(text), postgres, name, "shop_owner", password)
            assert done.returncode == 0, done.stderr
        pair = pair_of(
            "public.*",
            master=postgres.info(master, "sluice"),
            slave=postgres.info(slave, "sluice"),
            schema="sluice",
        )
        yield owner, pair
        pair.master.close()
        pair.slave.close()
    for name in (master, slave):
        with postgres.connect(name) as admin:
            admin.execute("DROP OWNED BY sluice, shop_owner CASCADE")
    with postgres.connect() as admin:
        admin.execute("DROP ROLE sluice, shop_owner")


def issues(pair: Rig) -> list[str]:
    found = checks.of_master(pair.master, pair.replication)
    slave = pair.replication.slave("dr1")
    found += checks.of_slave(pair.slave, pair.replication, slave, master=pair.master)
    return [str(issue) for issue in found if issue.severity is not Severity.NOTE]


@pytest.mark.one_in(2)
def test_nothing_is_refused_from_the_installation_to_the_repair(
    least: tuple[psycopg.Connection[Any], Rig], caplog: pytest.LogCaptureFixture
) -> None:
    owner, pair = least
    assert issues(pair) == []
    update = pair.update()
    pair.prepare(update)
    with pair.apply():
        owner.execute("UPDATE people SET m = 'happy' WHERE id % 3 = 0; DELETE FROM orders WHERE id % 5 = 0")
        pair.load_to_normal(update)
        done = steps.finish(update)
        assert done.left_out == []
        owner.execute(
            "INSERT INTO people (\"user\") VALUES ('late'); UPDATE heap SET b = 'y' WHERE a = 3; TRUNCATE orders;"
            "ALTER TABLE people ADD note text DEFAULT 'n'; INSERT INTO people (\"user\", note) VALUES ('later', 'm');"
            "INSERT INTO events VALUES (1000, '2026-01-05', 'w')"
        )
        owner.execute("CREATE TABLE later (id serial PRIMARY KEY, v text)")
        pair.await_current()
        pair.slave.execute("DELETE FROM public.heap WHERE a = 2")
        ends = Ends.of(pair.replication, "dr1", {"m": pair.master_info, "s": pair.slave_info})
        found = resync(ends, pair.store, TableName("public", "heap"), CompareOptions(), Action.REPAIR, None)
        assert found.finding.outcome is Outcome.DIFFERENT
        assert found.outcome is Outcome.IDENTICAL, found
        for name in ("people", "orders", "events"):
            found = resync(ends, pair.store, TableName("public", name), CompareOptions(sessions=2), Action.VERIFY, None)
            assert found.outcome is Outcome.IDENTICAL, found
    # Default privileges cover the new table.
    assert issues(pair) == []
    assert [record.getMessage() for record in caplog.records if "denied" in record.getMessage()] == []
    (drawn,) = pair.slave.execute("SELECT pg_catalog.nextval('public.people_id_seq')").fetchone() or (0,)
    assert drawn > 300
    with connect(pair.master_info, application="test") as master:
        assert uninstall.uninstall(master, update.prefix, "sluice")


@pytest.mark.long
def test_sequences_that_may_not_be_read_are_a_warning_with_the_grant(
    least: tuple[psycopg.Connection[Any], Rig], caplog: pytest.LogCaptureFixture
) -> None:
    owner, pair = least
    owner.execute("REVOKE SELECT ON orders_id_seq FROM sluice")
    update = pair.update()
    pair.prepare(update)
    pair.load(update)
    pair.declare_normal()
    steps.finish(update)
    (warning,) = [record.getMessage() for record in caplog.records if "sequences were not set" in record.getMessage()]
    assert 'GRANT SELECT ON SEQUENCE "public"."orders_id_seq" TO sluice;' in warning
    owner.execute("GRANT SELECT ON orders_id_seq TO sluice")
    caplog.clear()
    steps.finish(update)
    assert "sequences were not set" not in caplog.text
    assert pair.slave.execute("SELECT last_value FROM public.orders_id_seq").fetchone() == (300,)


def test_the_commands_fail_as_a_whole_where_a_statement_fails(
    postgres: PostgresServer, database: Callable[..., ConnectionInfo]
) -> None:
    name = database().database
    with postgres.connect(name) as admin:
        admin.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    done = run(commands("On the master, once"), postgres, name, "no_such_owner", "secret")
    assert done.returncode != 0
    assert 'role "no_such_owner" does not exist' in done.stderr
    with postgres.connect(name) as admin:
        assert admin.execute("SELECT to_regnamespace('sluice') IS NULL").fetchone() == (True,)
        admin.execute("DROP OWNED BY sluice; DROP ROLE sluice")
