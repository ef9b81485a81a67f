"""The whole DAG `resync` on real databases with a running apply."""

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag

from sluice.airflow.steps_resync import Extent, extent, is_due
from sluice.configuration.options import VerifyOptions
from sluice.coordination import redis_store
from sluice.coordination.verification_log import VerificationLog
from sluice.model.names import TableName
from tests.dags.resyncing import pair, reports, run
from tests.rig.rig import Rig

__all__ = ["pair"]
MONITOR = Path(__file__).resolve().parents[2] / "docs" / "monitor.md"


@pytest.mark.long
def test_a_run_without_differences_succeeds_without_a_question(
    pair: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In the process of Airflow's task; that of the comparison is another one.
    monkeypatch.delattr("sluice.verify.pinned_sessions.PinnedView.run")
    verified_before = len(events_of("sluice://DEMO_/dr1/verified"))
    with pair.apply():
        pair.await_current()
        state, tasks = run()
    assert state == "success", tasks
    assert tasks["approve_repair"] == tasks["repair"] == "skipped" and tasks["compare"] == "success"
    (folder,) = (tmp_path / "home" / "reports").iterdir()
    assert not any(place.stat().st_mode & 0o77 for place in (folder, *folder.iterdir())), "they are for their owner"
    (told,), page = reports(tmp_path)
    assert told["outcome"] == "identical" and len(told["tables"]) == 2
    assert [table["rows_slave"] for table in told["tables"]] == [10, 100]
    assert "DEMO_ → dr1" in page and "prefers-color-scheme: dark" in page
    verified = VerificationLog(redis_store.connect(pair.redis_url), pair.pair.prefix, "dr1").read()
    assert {table: seen["outcome"] for table, seen in verified.items()} == {
        "public.log": "identical", "public.people": "identical",
    }  # fmt: skip
    (event,) = events_of("sluice://DEMO_/dr1/verified")[verified_before:]
    assert event["tables"] == 2 and event["as_of"] == min(seen["time"] for seen in verified.values())


def events_of(uri: str) -> list[dict[str, Any]]:
    """The extra data of an asset's events, oldest first; other tests left some."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        events = select(AssetEvent).join(AssetModel, AssetEvent.asset).where(AssetModel.uri == uri)
        found = session.scalars(events.order_by(AssetEvent.id))
        return [dict(event.extra) for event in found]


@pytest.mark.long
def test_the_documented_dag_that_waits_for_a_verified_slave_becomes_due(pair: Rig, tmp_path: Path) -> None:
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import sync_bag_to_db
    from airflow.models.asset import AssetDagRunQueue
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import delete, select

    (example,) = re.findall(r"```python\n(from airflow.sdk import DAG.*?)```", MONITOR.read_text(), re.DOTALL)
    (tmp_path / "waiting").mkdir()
    (tmp_path / "waiting" / "report.py").write_text(example)
    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(str(tmp_path / "waiting"), bundle_path=tmp_path / "waiting", bundle_name="dags-folder")
    sync_bag_to_db(bag, "dags-folder", None)
    with create_session() as session:
        session.get_one(DagModel, "report").is_paused = False
        session.execute(delete(AssetDagRunQueue))
    with pair.apply():
        pair.await_current()
        state, _ = run(prefix="DEMO_", slave="dr1")
    assert state == "success"
    with create_session() as session:
        assert session.scalars(select(AssetDagRunQueue.target_dag_id)).all() == ["report"]


def test_the_action_repair_mends_and_the_report_hides_secrets(pair: Rig, tmp_path: Path) -> None:
    with pair.apply():
        pair.await_current()
        pair.slave.execute("UPDATE public.people SET password = 'seen', name = '<b>&' WHERE id = 7")
        pair.slave.execute("INSERT INTO public.log VALUES ('mine')")
        state, tasks = run(prefix="DEMO_", slave="dr1", action="repair")
        assert pair.differences() == {}
    assert state == "success", tasks
    (told,), page = reports(tmp_path)
    log, people = told["tables"]
    assert (log["extra"], log["repaired"], log["outcome"]) == (1, 1, "identical")
    assert people["columns"] == {"name": 1, "password": 1}
    assert people["examples"] == [{
        "kind": "different", "copies": 1, "cause": "", "changes": "", "key": {"id": "7"},
        "master": {"name": "n7", "password": "•••"}, "slave": {"name": "<b>&", "password": "•••"},
    }]  # fmt: skip
    assert "&lt;b&gt;&amp;" in page and "<b>&" not in page
    assert not any(secret in page + json.dumps(told) for secret in ("hidden7", "seen"))


@pytest.mark.long
def test_without_an_apply_tables_are_compared_at_the_slaves_position(pair: Rig, tmp_path: Path) -> None:
    with pair.apply():
        pair.await_current()
    pair.master.execute("UPDATE public.people SET name = 'later' WHERE id < 9")
    state, tasks = run(prefix="DEMO_", slave="dr1")
    assert state == "success", tasks
    (told,), page = reports(tmp_path)
    assert {table["table"]: table["waiting"] for table in told["tables"]} == {"public.log": 0, "public.people": 8}
    assert told["outcome"] == "identical" and "The apply did not run: the slave was compared where it stands" in page


@pytest.mark.long
def test_a_table_that_cannot_be_compared_fails_the_run_and_the_others_are_compared(pair: Rig, tmp_path: Path) -> None:
    with pair.apply():
        pair.await_current()
        pair.slave.execute("ALTER TABLE public.log RENAME line TO other")
        state, tasks = run(prefix="DEMO_", slave="dr1", action="repair")
    assert state == "failed" and tasks["verdict"] == "failed" and tasks["approve_repair"] == "skipped"
    (told,), page = reports(tmp_path)
    assert told["outcome"] == "could not compare"
    assert [table["outcome"] for table in told["tables"]] == ["could not compare", "identical"]
    assert "public.log cannot hold on the slave what it holds on the master" in page


@pytest.mark.long
def test_a_pair_that_cannot_be_reached_does_not_keep_the_others_from_being_compared(
    pair: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "DEMO.yaml"
    file.write_text(file.read_text().replace("slaves:\n", "slaves:\n  dr2: {conn_id: gone}\n"))
    gone = {"conn_type": "postgres", "host": "127.0.0.1", "port": 1, "schema": "x", "login": "x"}
    monkeypatch.setenv("AIRFLOW_CONN_GONE", json.dumps(gone))
    with pair.apply():
        pair.await_current()
        state, _ = run()
    assert state == "failed"
    told, _ = reports(tmp_path)
    assert {one["slave"]: one["outcome"] for one in told} == {"dr1": "identical", "dr2": "could not compare"}
    (unreached, _) = next(one["tables"] for one in told if one["slave"] == "dr2")
    assert "x@127.0.0.1:1/x" in unreached["reason"]


@pytest.mark.long
def test_a_run_that_cannot_list_its_tables_fails(pair: Rig) -> None:
    state, tasks = run(slave="dr1")
    assert state == "failed"
    assert tasks["due"] == tasks["write_report"] == tasks["verdict"] == "failed"


def test_a_table_that_is_not_due_is_sampled_every_day() -> None:
    monday, sunday = [date(2026, 11, 16)], [date(2026, 11, 22)]
    listed, other = TableName("public", "orders"), TableName("public", "log")
    weekly = VerifyOptions(schedule="weekly", tables=("public.orders",))
    assert extent(weekly, listed, sunday) is Extent.CHOSEN and extent(weekly, listed, None) is Extent.CHOSEN
    assert extent(weekly, listed, monday) is Extent.SAMPLE and extent(weekly, other, sunday) is Extent.SAMPLE
    assert extent(weekly, other, None) is Extent.NOTHING
    assert extent(VerifyOptions(schedule="never"), listed, sunday) is Extent.SAMPLE
    assert extent(VerifyOptions(schedule="never", daily_sample=0), listed, sunday) is Extent.NOTHING
    assert extent(VerifyOptions(), listed, monday) is Extent.CHOSEN
    assert extent(VerifyOptions(), listed, []) is Extent.NOTHING, "the time of another replication"


def test_a_schedule_is_due_on_its_days() -> None:
    monday, sunday = date(2026, 11, 16), date(2026, 11, 22)
    assert is_due("daily", [monday]) and is_due("weekly", [sunday])
    assert is_due("weekly", [date(2026, 11, 21), sunday, monday]), "what an Airflow that was down has missed"
    assert not is_due("weekly", [monday]) and not is_due("never", [sunday]) and not is_due("daily", [])
