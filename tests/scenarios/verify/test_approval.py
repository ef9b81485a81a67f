"""A person is asked before a large repair: rejected, nothing is touched; approved, the slave is fixed and verified.

Values of the masked column are nowhere in what Airflow keeps, and in what people are told, of all that: a load that
fails at one of them, another one, reports, questions, repairs, and an apply that stops.
"""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from devstack.home import REPOSITORY
from devstack.stack import Stack
from sluice.coordination import redis_store
from sluice.coordination.gate import ERROR, Gate
from sluice.coordination.records import Status
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import connect
from tests.questions import Question
from tests.stacks import running_stack, until

pytestmark = pytest.mark.long
DAG = "resync"
CONFIG = """
prefix: DEMO_
master: {conn_id: demo_master, vendor: postgres}
slaves:
  dr1: {conn_id: demo_dr1, vendor: postgres}
tables:
  shop.*: {}
verify: {max_repair_rows: 3, mask: "shop.orders.v"}
notify:
  tests.dags.notifying.ToFile: {path: $FOLDER/notices}
"""
PLANTED = {hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest() for number in range(1, 5002)}
"""Values of the masked column on the master, as they come to the slave."""
BY_HAND = ("Spoilt-4711", "Mine-4711")
"""The slave's own."""
ROWS = "SELECT count(*), md5(string_agg(t::text, ',' ORDER BY t)) FROM shop.orders t"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(CONFIG) as made:
        with made.master.connect("demo", "demo") as master:
            master.execute("CREATE SCHEMA shop")
            master.execute("CREATE TABLE shop.orders (id int PRIMARY KEY, v text)")
            master.execute("INSERT INTO shop.orders SELECT g, md5(g::text) FROM generate_series(1, 5000) g")
        api = made.airflow.api()
        api.await_dags([DAG, "initial_update", "cdc_apply"])
        with connect(made.connection("dr1"), application="test", autocommit=True) as slave:
            slave.execute("CREATE SCHEMA shop; CREATE TABLE shop.orders (id int PRIMARY KEY, v text)")
            slave.execute("ALTER TABLE shop.orders ADD CONSTRAINT no CHECK (id <> 77)")
            assert load(made) == "failed"
            slave.execute("ALTER TABLE shop.orders DROP CONSTRAINT no")
        assert load(made) == "success"
        yield made


def load(stack: Stack) -> str:
    """Runs initial_update to its end."""
    api = stack.airflow.api()
    run = api.trigger("initial_update", {"prefix": "DEMO_", "slave": "dr1", "transfer": "online"})
    until(lambda: api.run_state("initial_update", run) in ("success", "failed"), 400)
    return str(api.run_state("initial_update", run))


class Run:
    """A run of resync with the action `repair`, and what a person sees of it."""

    def __init__(self, stack: Stack):
        self.api = stack.airflow.api()
        self.id = self.api.trigger(DAG, {"prefix": "DEMO_", "slave": "dr1", "action": "repair"})
        self._approval = Question(stack, DAG, self.id, "approve_repair")

    def states(self) -> dict[str, str | None]:
        return {name: state for name, _, state in self.api.task_states(DAG, self.id)}

    @property
    def question(self) -> dict[str, Any]:
        return self._approval.detail

    def answer(self, chosen: str) -> None:
        self._approval.answer(chosen, lambda: self.states()["approve_repair"] == "success")

    def asked(self) -> bool:
        assert self.api.run_state(DAG, self.id) not in ("failed", "success"), self.states()
        return self.states().get("approve_repair") == "awaiting_input"

    def end(self) -> str:
        until(lambda: self.api.run_state(DAG, self.id) in ("success", "failed"), 600)
        return str(self.api.run_state(DAG, self.id))


def rows(connection: "psycopg.Connection[Any]") -> Any:
    return connection.execute(ROWS.encode()).fetchone()


def test_a_repair_beyond_the_limit_waits_for_a_person_whose_word_counts(stack: Stack) -> None:
    with (
        stack.master.connect("demo", "demo") as master,
        connect(stack.connection("dr1"), application="test", autocommit=True) as slave,
    ):
        until(lambda: rows(slave) == rows(master), 300)
        slave.execute("UPDATE shop.orders SET v = 'Spoilt-4711' WHERE id IN (1, 2500)")
        slave.execute("DELETE FROM shop.orders WHERE id = 5000; INSERT INTO shop.orders VALUES (0, 'Mine-4711')")
        spoilt = rows(slave)
        rejected = Run(stack)
        until(rejected.asked, 600)
        question = rejected.question
        assert question["subject"] == "DEMO_ → dr1: repair 4 rows of 1 table?" and "report" in question["body"]
        assert "- DEMO_ → dr1: `shop.orders`: 4 rows" in question["body"]
        rejected.answer("Reject")
        assert rejected.end() == "failed"
        states = rejected.states()
        assert states["repair"] == states["approved"] == "skipped" and states["verdict"] == "failed"
        assert rows(slave) == spoilt
        approved = Run(stack)
        until(approved.asked, 600)
        assert rows(slave) == spoilt
        approved.answer("Approve")
        assert approved.end() == "success", approved.states()
        assert rows(slave) == rows(master)
        # An apply that stops at a row of the slave's own, and housekeeping, which tells people. In safe mode the apply
        # would fix the row.
        with redis_store.connect(stack.redis_url) as store:
            until(lambda: (Status(store, Prefix("DEMO_"), "dr1").read() or {}).get("safe_mode") == "off", 300)
        slave.execute("UPDATE shop.orders SET v = 'Spoilt-4711' WHERE id = 4242")
        master.execute("UPDATE shop.orders SET v = md5('5001') WHERE id = 4242")
        master.commit()
        with redis_store.connect(stack.redis_url) as store:
            until(lambda: ERROR in [one.name for one in Gate(store, Prefix("DEMO_"), "dr1").closures()], 300)
    api = stack.airflow.api()
    housekeeping = api.trigger("housekeeping", {})
    until(lambda: api.run_state("housekeeping", housekeeping) in ("success", "failed"), 400)
    told = (stack.home.root.parent / "notices").read_text()
    assert "expected" in told and "4242" in told, "the apply's end is told"
    shown = dict(kept(stack))
    assert len(shown) > 50 and any("attempt=" in place for place in shown), "task logs are looked at"
    for place, text in {**shown, "notices": told, "status": status(stack)}.items():
        found = (PLANTED & set(re.findall("[0-9a-f]{32}", text))) | {word for word in BY_HAND if word in text}
        assert not found, f"{place} shows {sorted(found)[:3]}"


def status(stack: Stack) -> str:
    """The output of `./sluice status`, also as JSON."""
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "plugins")])
    environment = {**os.environ, "SLUICE_HOME": str(stack.home.root), "PYTHONPATH": path}
    said = ""
    for options in ([], ["--json"]):
        command = [sys.executable, "-m", "devstack.cli", "status", *options]
        said += subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert "DEMO_ → dr1: " in said
    return said


def kept(stack: Stack) -> Iterator[tuple[str, str]]:
    """Every file of the stack except its databases and their logs; every row of Airflow's database."""
    servers = {"postgres", "master.log", "slave-dr1.log", "metadata.log"}
    for path in sorted(stack.home.root.rglob("*")):
        if path.is_file() and not path.is_symlink() and not servers & set(path.relative_to(stack.home.root).parts):
            yield str(path), path.read_text(errors="replace")
    with stack.services.metadata.connect("airflow") as metadata:
        tables = metadata.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = 'public'"
        )
        for (table,) in tables.fetchall():
            rows = metadata.execute(f"SELECT t::text FROM {table} t").fetchall()
            yield f"Airflow's table {table}", "\n".join(row for (row,) in rows)
