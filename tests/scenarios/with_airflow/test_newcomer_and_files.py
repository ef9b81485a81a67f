"""A newcomer adds databases to a running Airflow by one command, has them repaired, loads them again by files that a
person carries, and removes them; no row passes through Airflow's machine."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import yaml

from devstack.stack import Stack
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import connect
from tests.rig.passage import MARK, SPARK, Passage, passage
from tests.scenarios.initial_files.runs import Run
from tests.stacks import until
from tests.waiting import DEADLINE_SECONDS

ROOT = Path(__file__).resolve().parents[3]
TABLES = f"""
CREATE TABLE customers (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), name text NOT NULL);
CREATE TABLE "Orders" (id bigserial PRIMARY KEY, customer uuid REFERENCES customers, v text);
INSERT INTO customers (name) SELECT E'{MARK.decode()} \\t' || g FROM generate_series(1, 500) g;
INSERT INTO "Orders" (customer, v) SELECT id, name || E'\\n' FROM customers;
"""


class Newcomer:
    """The commands of a person who has one database on the stack's master and wants it on the server of its slave."""

    def __init__(self, stack: Stack, folder: Path, passed: Passage):
        self.stack = stack
        stack.master.create_database("shop")
        with stack.master.connect("shop") as master:
            master.execute(TABLES.encode())
        self.servers = {"master": stack.master, "slave": stack.slaves["dr1"]}
        self.ports = {side: passed.before(server.info().port) for side, server in self.servers.items()}
        lines = [
            f"{info.host}:{self.ports[side]}:*:{info.user}:{info.password}\n"
            for side, info in ((side, server.info()) for side, server in self.servers.items())
        ]
        passwords = folder / "pgpass"
        passwords.write_text("".join(lines))
        passwords.chmod(0o600)
        self.environment = {**os.environ, "SLUICE_HOME": str(stack.home.root), "PGPASSFILE": str(passwords)}

    def url(self, side: str) -> str:
        return f"postgresql://{self.servers[side].info().host}:{self.ports[side]}/shop"

    def sluice(self, *arguments: str) -> str:
        done = subprocess.run(
            [ROOT / "sluice", *arguments], env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False, start_new_session=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def equal(self) -> bool:
        """Whether the slave has exactly the master's rows."""
        found = []
        for server in self.servers.values():
            with server.connect("shop") as session:
                try:
                    rows = [session.execute(f"SELECT t::text FROM public.{table} t ORDER BY 1".encode()).fetchall()
                            for table in ("customers", '"Orders"')]  # fmt: skip
                except psycopg.errors.UndefinedTable:
                    return False
                found.append(rows)
        return found[0] == found[1]


@pytest.fixture
def passed(stack: Stack) -> Iterator[Passage]:
    """Proxies before the databases. All that is no process of Spark counts as Airflow's machine, except for an apply
    that is a process because a busy Spark does not answer in time: it says so in its log."""

    def servers() -> list[int]:
        process = stack.await_running("spark").process
        return [process.pid] if process is not None else []

    with passage(servers, others=lambda command: " spark_jobs.apply " in command) as made:
        yield made


def test_databases_are_added_compared_loaded_again_by_files_after_approval_and_removed(
    stack: Stack, tmp_path: Path, passed: Passage
) -> None:
    configuration = tmp_path / "replications"
    configuration.mkdir()
    Stack(stack.home.root, replications=configuration).up()
    newcomer = Newcomer(stack, tmp_path, passed)
    addresses = ["--master", newcomer.url("master"), "--slave", f"dr1={newcomer.url('slave')}"]
    said = newcomer.sluice("add", "SHOP", *addresses, "--admin", "postgres", "--start", "--yes")
    assert "SHOP_ → dr1 is NORMAL" in said
    until(newcomer.equal, DEADLINE_SECONDS)

    with newcomer.servers["slave"].connect("shop") as slave:
        slave.execute("UPDATE customers SET name = 'spoilt' WHERE name ~ '7'")
    newcomer.sluice("verify", "SHOP", "dr1", "--repair", "--why", "a test", "--yes")
    assert newcomer.equal()

    out, received = tmp_path / "out", tmp_path / "in"
    for folder in (out, received):
        folder.mkdir()
    file = configuration / "SHOP.yaml"
    options = yaml.safe_load(file.read_text())
    options["initial"] = {"locations": [str(out)]}
    options["slaves"]["dr1"]["initial_files_location"] = str(received)
    file.write_text(yaml.safe_dump(options))
    run = Run.begun(stack, prefix="SHOP_", slave="dr1", transfer="files", location=str(out))
    run.await_state("await_files", "deferred")
    (stored,) = out.iterdir()
    with newcomer.servers["master"].connect("shop") as master:  # what changes while the folder travels is not lost
        master.execute("DELETE FROM \"Orders\" WHERE id % 7 = 0; UPDATE customers SET name = 'moved' WHERE name ~ '9'")
    files = len(list(stored.iterdir()))
    shutil.move(stored, received)
    run.await_state("approve", "awaiting_input")
    found = f"{files} of {files} files are there and verified ('{received / stored.name}')"
    assert run.question["subject"] == f"SHOP_ → dr1: Manual Data transfer: {found}"
    run.answer("Approve")
    run.await_state("settle", "success")
    until(newcomer.equal, DEADLINE_SECONDS)
    assert [answer["answer"] for answer in run.answers()] == ["Approve"]

    assert dict(passed.sides["airflow"].rows_by) == {}
    assert passed.sides[SPARK].rows > 0
    if passed.sides["other"].sessions:
        logs = (stack.home.root / "airflow" / "logs").rglob("attempt=*.log")
        assert any("the apply runs as a process of this machine: Spark at" in log.read_text() for log in logs)

    newcomer.sluice("remove", "SHOP", "--admin", "postgres", "--revoke", "--yes")
    assert not file.exists()
    with connect(stack.master.info("shop"), application="test") as master:
        left = master.execute(f"SELECT relname FROM pg_class WHERE relname ^@ '{Prefix('SHOP_').lower}'".encode())
        assert left.fetchall() == []
