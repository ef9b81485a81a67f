"""The run that applies reports differences of definitions, long before housekeeping looks."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.stack import Stack
from sluice.coordination import redis_store
from sluice.coordination.records import Issues
from sluice.model.names import Prefix
from tests.scenarios.initial_files.runs import DAG, Run, make_tables
from tests.stacks import running_stack, until

pytestmark = pytest.mark.long
CONFIG = """
prefix: DEMO_
master: {conn_id: demo_master, vendor: postgres}
slaves:
  dr1: {conn_id: demo_dr1}
tables:
  shop.*: {}
ddl: {indexes: warn}
notify:
  tests.dags.notifying.ToFile: {path: FILE}
"""


@pytest.fixture(scope="module")
def notices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notices") / "notices"


@pytest.fixture(scope="module")
def stack(notices: Path) -> Iterator[Stack]:
    with running_stack(CONFIG.replace("FILE", str(notices)), slaves=["dr1"]) as made:
        make_tables(made, 1_000)
        made.airflow.api().await_dags([DAG, "cdc_apply", "housekeeping"])
        made.airflow.api().call("PATCH", "dags/housekeeping", {"is_paused": True})
        Run.begun(made, slave="dr1").await_state("settle", "success")
        yield made


def test_an_index_and_a_table_made_on_the_master_are_reported_while_the_apply_goes_on(
    stack: Stack, notices: Path
) -> None:
    api = stack.airflow.api()

    def told(what: str) -> bool:
        lines = notices.read_text().splitlines() if notices.exists() else []
        return any(what in json.loads(line)["text"] for line in lines)

    with stack.master.connect("demo", "demo") as master:
        column = master.execute(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'shop' ORDER BY 1, 2"
        ).fetchone()
        assert column is not None
        for what, statement in (
            ('"In dex"', f'CREATE INDEX "In dex" ON shop."{column[0]}" ("{column[1]}" DESC)'),
            ("shop.later", "CREATE TABLE shop.later AS SELECT 1 AS id"),
        ):
            began = time.monotonic()
            master.execute(statement.encode())
            master.commit()
            until(lambda what=what: told(what), 300)  # type: ignore[misc]
            print(f"{statement}: told after {time.monotonic() - began:.0f} s")
    found = Issues(redis_store.connect(stack.redis_url), Prefix("DEMO_"), "dr1").read()
    assert [one.statement.split('"')[1] for one in found] == ["In dex"]
    (run,) = (run["dag_run_id"] for run in api.get("dags/cdc_apply/dagRuns", limit=10)["dag_runs"])
    until(lambda: [state for *_, state in api.task_states("cdc_apply", run)] == ["deferred"])
