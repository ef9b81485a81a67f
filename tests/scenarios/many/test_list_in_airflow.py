"""Several slaves by one `initial_update`: one read of the master, or one export to S3, then a run for each."""

import base64
import os
import secrets
from collections.abc import Iterator
from typing import Any

import boto3
import psycopg
import pytest

from devstack.connections import Connections
from devstack.stack import Stack
from sluice.cli.console import Console
from sluice.cli.initial_update import load
from sluice.cli.where import Where
from sluice.control.checkpoint import CheckpointStore
from sluice.load.transfer import encryption
from sluice.model.location import S3Access
from sluice.model.names import Prefix
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.connection import connect
from tests.scenarios.initial_files.conftest import BUCKET, s3
from tests.scenarios.initial_files.runs import DAG, Run, content, make_tables
from tests.stacks import running_stack, until

__all__ = ["s3"]
pytestmark = pytest.mark.long
CONFIG = """
prefix: DEMO_
master: {conn_id: demo_master, vendor: postgres}
slaves:
  dr1: {conn_id: demo_dr1}
  dr2: {conn_id: demo_dr2}
tables:
  shop.*: {}
initial:
  {block_rows: 2000, block_target_seconds: 0.5, parallel: 2, files_s3: to_s3, files_key: the_key, locations: [$OUT]}
"""


@pytest.fixture(scope="module")
def stack(s3: S3Access) -> Iterator[Stack]:
    with running_stack(CONFIG.replace("$OUT", f"s3://{BUCKET}/carried"), slaves=["dr1", "dr2"]) as made:
        api = made.airflow.api()
        extra = f'{{"endpoint_url": "{s3.endpoint}", "region_name": "us-east-1"}}'
        key = base64.b64encode(secrets.token_bytes(32)).decode()
        to_s3 = {"connection_id": "to_s3", "conn_type": "aws", "login": s3.key_id, "password": s3.secret}
        api.set_connections(
            [{**to_s3, "extra": extra}, {"connection_id": "the_key", "conn_type": "generic", "password": key}]
        )
        make_tables(made, 20_000)
        api.await_dags([DAG, "cdc_apply"])
        yield made


def link(stack: Stack, slave: str) -> "psycopg.Connection[Any]":
    return connect(stack.connection(slave), application="test", autocommit=True)


def state(stack: Stack, slave: str) -> SlaveState:
    with link(stack, slave) as connection:
        found = CheckpointStore(connection, Prefix("DEMO_"), "sluice", slave).read()
    assert found is not None
    return found.state


def test_slaves_that_were_added_are_loaded_over_the_wire_by_one_run(
    stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Where(stack.replications[-1], stack.airflow.api(), Connections(stack), stack.redis_url, "")
    load(Prefix("DEMO_"), ["dr1", "dr2"], place, Console())
    said = capsys.readouterr().out
    assert "initial update of dr1, dr2: " in said and said.count("initial update of") == 1
    assert "DEMO_ → dr1 is NORMAL" in said and "DEMO_ → dr2 is NORMAL" in said
    assert (state(stack, "dr1"), state(stack, "dr2")) == (SlaveState.NORMAL, SlaveState.NORMAL)
    with stack.master.connect("demo", "demo") as master:
        for slave in ("dr1", "dr2"):
            with link(stack, slave) as connection:
                until(lambda connection=connection: content(connection) == content(master), 300)  # type: ignore[misc]


def test_each_slave_gets_the_one_export_and_its_own_end(stack: Stack, s3: S3Access) -> None:
    run = Run.begun(stack, slave="dr1,dr2", transfer="files", location=f"s3://{BUCKET}/carried")
    run.await_state("share", "success", 300)
    run.await_state("each_slave", "deferred", 300)
    first, second = run.of("dr1"), run.of("dr2")
    for one in (first, second):
        one.await_state("approve", "awaiting_input")
    client = boto3.client(
        "s3", endpoint_url=s3.endpoint, region_name="us-east-1", aws_access_key_id="key",
        aws_secret_access_key="a secret",
    )  # fmt: skip
    names = [entry["Key"] for entry in client.list_objects_v2(Bucket=BUCKET, Prefix="carried/")["Contents"]]
    assert len({name.split("/")[1] for name in names}) == 1 and len(names) > 8, "there is one folder"
    for name in names:
        body = client.get_object(Bucket=BUCKET, Key=name)["Body"].read()
        assert body.startswith(encryption.MAGIC), f"{name} is encrypted"
    with stack.master.connect("demo", "demo") as master:
        master.execute("UPDATE shop.orders SET v = 'after' WHERE id % 7 = 0")
    # One is rejected; the other one continues to its end.
    first.answer("Approve")
    second.answer("Reject")
    second.await_state("settle", "failed")
    first.await_state("settle", "success")
    assert (state(stack, "dr1"), state(stack, "dr2")) == (SlaveState.NORMAL, SlaveState.INCONSISTENT)
    with stack.master.connect("demo", "demo") as master, link(stack, "dr1") as connection:
        until(lambda: content(connection) == content(master), 300)
    run.await_state("settle", "failed")
    said = run.log("settle")
    assert "dr2: its run" in said and "dr1: its run" not in said
    assert os.environ.get("AWS_ACCESS_KEY_ID") is None, "the connection alone led there"
