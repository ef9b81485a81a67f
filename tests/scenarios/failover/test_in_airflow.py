"""The DAG itself: a person approves, the tasks run, the slave is the master. No row passes through Airflow's host."""

import pytest

from sluice.vendors.postgres.connection import connect
from tests.questions import Question
from tests.rig.passage import MARK, SPARK, passage
from tests.stacks import running_stack, until

pytestmark = pytest.mark.long
CONFIG = """
prefix: DEMO_
master: {conn_id: demo_master, vendor: postgres}
slaves:
  dr1: {conn_id: demo_dr1, vendor: postgres}
tables:
  shop.*: {}
"""


def test_a_planned_failover_of_a_real_stack() -> None:
    with (
        running_stack(CONFIG) as stack,
        stack.master.connect("demo", "demo") as master,
        passage(lambda: [process.pid for process in [stack.await_running("spark").process] if process]) as passed,
    ):
        master.execute("CREATE SCHEMA shop")
        master.execute("CREATE TABLE shop.orders (id serial PRIMARY KEY, v text)")
        fill = f"INSERT INTO shop.orders (v) SELECT '{MARK.decode()}' || g FROM generate_series(1, 100) g"
        master.execute(fill.encode())
        api = stack.airflow.api()
        for place in ("master", "dr1"):
            entry = {"connection_id": f"demo_{place}", "conn_type": "postgres"}
            port = passed.before(stack.connection(place).port)
            api.call("PATCH", f"connections/demo_{place}?update_mask=port", {**entry, "port": port})
        api.await_dags(["failover", "initial_update", "cdc_apply"])

        def state(dag: str, run: str) -> str:
            return str(api.run_state(dag, run))

        load = api.trigger("initial_update", {"prefix": "DEMO_", "slave": "dr1", "transfer": "online"})
        until(lambda: state("initial_update", load) in ("success", "failed"), 600)
        assert state("initial_update", load) == "success"
        run = api.trigger("failover", {"prefix": "DEMO_", "slave": "dr1", "action": "planned", "reverse": True})

        def tasks() -> dict[str, str | None]:
            return {name: found for name, _, found in api.task_states("failover", run)}

        question = Question(stack, "failover", run, "approve")
        until(lambda: tasks().get("approve") == "awaiting_input" or state("failover", run) == "failed", 300)
        assert question.detail["subject"] == "Planned failover of DEMO_ → dr1"
        question.answer("Approve", lambda: tasks()["approve"] == "success")
        until(lambda: state("failover", run) in ("success", "failed"), 600)
        assert state("failover", run) == "success", tasks()
        assert tasks()["abort"] == "skipped"
        assert passed.sides["airflow"].rows == 0 < passed.sides[SPARK].rows, passed.sides
        with connect(stack.connection("dr1"), application="test", autocommit=True) as slave:
            made = slave.execute("INSERT INTO shop.orders (v) VALUES ('new') RETURNING id").fetchone()
            assert made == (101,)
