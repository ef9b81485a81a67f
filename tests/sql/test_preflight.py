"""The preflight names all that an account lacks, and its statements mend it; on real servers, with hostile names."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg
import pytest

from embedded.postgres import PostgresServer
from sluice import config
from sluice.config import Replication
from sluice.domain.connection import ConnectionInfo
from sluice.domain.lack import Lack, Severity, errors, script
from sluice.install import resources
from sluice.preflight import checks
from sluice.vendors.postgres.connection import connect, quoted

SCHEMA = 'Odd "Schema'
RESOURCES = "select"
OWNER = 'Table "Owner'
ACCOUNT = "Sluice Account"

CONFIG = """
prefix: PRE_
master: {{conn_id: m, vendor: postgres, schema: '{resources}'}}
slaves:
  dr1: {{conn_id: s, vendor: postgres, schema: '{resources}'}}
tables:
  '"Odd ""Schema".*': {{}}
  public.order: {{}}
"""


@dataclass
class Ends:
    """A master with tables of an owner, an empty slave, an account without any privilege, and a superuser on both."""

    replication: Replication
    master: ConnectionInfo
    slave: ConnectionInfo
    master_admin: psycopg.Connection[Any]
    slave_admin: psycopg.Connection[Any]

    def lacks(self) -> list[Lack]:
        with connect(self.master, application="test", autocommit=True) as master:
            found = checks.of_master(master, self.replication)
            with connect(self.slave, application="test", autocommit=True) as slave:
                return found + checks.of_slave(slave, self.replication, self.replication.slave("dr1"), master=master)

    def mend(self, lacks: list[Lack]) -> None:
        self.master_admin.execute(script(lack for lack in lacks if lack.side == "master").encode())
        self.slave_admin.execute(script(lack for lack in lacks if lack.side == "slave dr1").encode())


@pytest.fixture
def ends(postgres: PostgresServer, database: Callable[..., ConnectionInfo], tmp_path: Path) -> Iterator[Ends]:
    master, slave = database().database, database(name='Slave "of" x').database
    postgres.create_role(ACCOUNT)
    postgres.create_role(OWNER)
    (tmp_path / "PRE.yaml").write_text(CONFIG.format(resources=RESOURCES))
    with mock.patch.dict(os.environ, SLUICE_REPLICATIONS=str(tmp_path)):
        replication = config.load("PRE_")
    with postgres.connect(master) as there, postgres.connect(slave) as here:
        for admin in (there, here):
            admin.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
            admin.execute(f"REVOKE TEMPORARY ON DATABASE {quoted(admin.info.dbname)} FROM PUBLIC".encode())
        owner, schema = quoted(OWNER), quoted(SCHEMA)
        there.execute(
            f"""CREATE SCHEMA {schema} AUTHORIZATION {owner};
            GRANT ALL ON SCHEMA public TO {owner};
            SET ROLE {owner};
            CREATE TYPE {schema}."Mood" AS ENUM ('sad', 'it''s "fine"');
            CREATE TABLE {schema}."Per son" (
                id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "user" text, m {schema}."Mood");
            CREATE TABLE public.order (id serial PRIMARY KEY, person int REFERENCES {schema}."Per son");
            CREATE TABLE {schema}.events (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
            CREATE TABLE {schema}."events 1" PARTITION OF {schema}.events FOR VALUES FROM (0) TO (1000);
            INSERT INTO {schema}."Per son" ("user", m) SELECT 'u' || g, 'sad' FROM generate_series(1, 100) g;
            INSERT INTO public.order (person) SELECT g FROM generate_series(1, 100) g;
            INSERT INTO {schema}.events SELECT g, 'v' FROM generate_series(1, 100) g;
            RESET ROLE""".encode()
        )
        yield Ends(replication, postgres.info(master, ACCOUNT), postgres.info(slave, ACCOUNT), there, here)
        for admin in (there, here):
            admin.execute(f"DROP OWNED BY {quoted(ACCOUNT)}, {owner} CASCADE".encode())
        there.execute(f"DROP ROLE {quoted(ACCOUNT)}, {owner}".encode())


def test_the_statements_of_all_lacks_leave_none(ends: Ends) -> None:
    found = ends.lacks()
    for lack in found:
        print(lack)
    assert errors(found)
    ends.mend(found)
    assert [lack for lack in ends.lacks() if lack.severity is not Severity.NOTE] == []
    with connect(ends.master, application="test") as master:
        resources.install(master, ends.replication.prefix, RESOURCES)
    assert [lack.what for lack in ends.lacks()] == ["event triggers"]
