"""A newcomer adds databases to a running Airflow by one command, loads them again by files that a person carries, and
removes them."""

import os
import shutil
import subprocess
from pathlib import Path

import psycopg
import yaml

from devstack.stack import Stack
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import connect
from tests.scenarios.initial_files.runs import Run
from tests.stacks import until
from tests.waiting import DEADLINE_SECONDS

ROOT = Path(__file__).resolve().parents[3]
TABLES = """
CREATE TABLE customers (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), name text NOT NULL);
CREATE TABLE "Orders" (id bigserial PRIMARY KEY, customer uuid REFERENCES customers, v text);
INSERT INTO customers (name) SELECT E'customer \\t' || g FROM generate_series(1, 500) g;
INSERT INTO "Orders" (customer, v) SELECT id, name || E'\\n' FROM customers;
"""


class Newcomer:
    """The commands of a person who has one database on the stack's master and wants it on the server of its slave."""

    def __init__(self, stack: Stack, folder: Path):
        self.stack = stack
        stack.master.create_database("shop")
        with stack.master.connect("shop") as master:
            master.execute(TABLES.encode())
        self.servers = {"master": stack.master, "slave": stack.slaves["dr1"]}
        infos = [server.info() for server in self.servers.values()]
        passwords = folder / "pgpass"
        passwords.write_text("".join(f"{info.host}:{info.port}:*:{info.user}:{info.password}\n" for info in infos))
        passwords.chmod(0o600)
        self.environment = {**os.environ, "SLUICE_HOME": str(stack.home.root), "PGPASSFILE": str(passwords)}

    def url(self, side: str) -> str:
        info = self.servers[side].info()
        return f"postgresql://{info.host}:{info.port}/shop"

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


def test_databases_are_added_loaded_again_by_files_after_approval_and_removed(stack: Stack, tmp_path: Path) -> None:
    configuration = tmp_path / "replications"
    configuration.mkdir()
    Stack(stack.home.root, replications=configuration).up()
    newcomer = Newcomer(stack, tmp_path)
    addresses = ["--master", newcomer.url("master"), "--slave", f"dr1={newcomer.url('slave')}"]
    said = newcomer.sluice("add", "SHOP", *addresses, "--admin", "postgres", "--start", "--yes")
    assert "SHOP_ → dr1 is NORMAL" in said
    until(newcomer.equal, DEADLINE_SECONDS)

    out, received = tmp_path / "out", tmp_path / "in"
    for folder in (out, received):
        folder.mkdir()
    file = configuration / "SHOP.yaml"
    options = yaml.safe_load(file.read_text())
    options["initial"] = {"locations": [str(out)]}
    options["slaves"]["dr1"]["initial_files_location"] = str(received)
    file.write_text(yaml.safe_dump(options))
    run = Run.begun(stack, prefix="SHOP_", slave="dr1", transfer="files", location=str(out))
    run.await_state("approve", "awaiting_input")
    (stored,) = out.iterdir()
    assert run.question["subject"] == f"SHOP_ → dr1: Manual Data transfer: WAITING (stored on '{stored}')"
    with newcomer.servers["master"].connect("shop") as master:  # what changes while the folder travels is not lost
        master.execute("DELETE FROM \"Orders\" WHERE id % 7 = 0; UPDATE customers SET name = 'moved' WHERE name ~ '9'")
    shutil.move(stored, received)
    run.answer("Approve")
    run.await_state("settle", "success")
    until(newcomer.equal, DEADLINE_SECONDS)
    assert [answer["answer"] for answer in run.answers()] == ["Approve"]

    newcomer.sluice("remove", "SHOP", "--admin", "postgres", "--revoke", "--yes")
    assert not file.exists()
    with connect(stack.master.info("shop"), application="test") as master:
        left = master.execute(f"SELECT relname FROM pg_class WHERE relname ^@ '{Prefix('SHOP_').lower}'".encode())
        assert left.fetchall() == []
