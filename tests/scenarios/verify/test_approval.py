"""A person is asked before a large repair: rejected, nothing is touched; approved, the slave is mended and verified."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from embedded.stack import Stack
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
verify: {max_repair_rows: 3}
"""
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
        run = api.trigger("initial_update", {"prefix": "DEMO_", "slave": "dr1", "transfer": "online"})
        until(lambda: api.run_state("initial_update", run) in ("success", "failed"), 400)
        assert api.run_state("initial_update", run) == "success"
        yield made


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
        slave.execute("UPDATE shop.orders SET v = 'spoilt' WHERE id IN (1, 2500)")
        slave.execute("DELETE FROM shop.orders WHERE id = 5000; INSERT INTO shop.orders VALUES (0, 'mine')")
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
