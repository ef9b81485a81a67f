"""Notices of what no change reports and of what cannot be followed, with the remedy, until it is fixed."""

import json
import logging
import re
from pathlib import Path

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from sluice import config
from sluice.airflow import definition_comparison
from sluice.airflow.steps_housekeeping import compare_definitions
from sluice.airflow.task_context import TaskContext
from sluice.apply import definition_follower
from sluice.cli import status
from sluice.control.own_tables import LoadOwner
from sluice.control.rejects import RejectStore
from sluice.coordination import redis_store
from sluice.coordination.records import Issues, Status
from sluice.model import comparison_trigger
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.model.reject import RejectStatus
from sluice.operate.remedies import at_terminal
from tests.dags.resyncing import dag_of, pair, run
from tests.dags.test_notify import Told, look, told
from tests.rig.rig import Rig

__all__ = ["pair", "told"]

PARTED = 'CREATE TABLE public."Parted" (id int PRIMARY KEY, v text)'
TYPES = """
CREATE DOMAIN public."Euro" AS int CONSTRAINT "some" CHECK (VALUE >= 0);
CREATE TABLE public."Order" (id int PRIMARY KEY, person int, "from" int, price public."Euro")"""
CHANGES = (
    'CREATE INDEX "In dex" ON public."Order" ("from" DESC) WHERE person > 0',
    'ALTER TABLE public."Order" ADD CONSTRAINT "UNIQUE" UNIQUE ("from", person)',
    'ALTER TABLE public."Order" ADD CONSTRAINT "che;ck" CHECK ("from" < 1000 AND person::text <> \'a;b\')',
    'ALTER TABLE public."Order" ADD CONSTRAINT "Fk" FOREIGN KEY (person) REFERENCES public.people ON DELETE CASCADE',
    'ALTER DOMAIN public."Euro" DROP CONSTRAINT "some"',
    'ALTER DOMAIN public."Euro" ADD CONSTRAINT "some" CHECK (VALUE > -10)',
    'ALTER DOMAIN public."Euro" ADD CONSTRAINT "more" CHECK (VALUE < 10000)',
)


def compare() -> str:
    """Runs the comparison task of housekeeping once."""
    dag = dag_of("housekeeping")
    return str(compare_definitions.body(TaskContext.of_prefix("DEMO_", {"dag": dag})))


def status_of(rig: Rig) -> str:
    """The output of `./sluice status` for the replication."""
    infos = {"m": rig.pair.master_info, "s": rig.pair.slave_info}

    def connections(conn_id: str, vendor: str) -> ConnectionInfo:
        return infos[conn_id]

    return "\n".join(status.replications(config.survey(), connections, rig.redis_url))


def without_event_triggers(rig: Rig) -> None:
    found = rig.master.execute("SELECT string_agg(quote_ident(evtname), ', ') FROM pg_event_trigger").fetchone()
    assert found is not None
    if found[0]:
        rig.master.execute(f"DROP EVENT TRIGGER {found[0]}".encode())


def rejects(rig: Rig) -> RejectStore:
    return RejectStore(rig.slave, rig.pair.prefix, "public", "dr1")


@pytest.mark.long
def test_a_dropped_partition_with_unknown_rows_is_reported_until_resync_finds_the_table_equal(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    rig = told.pair
    rig.master.execute(f"{PARTED} PARTITION BY RANGE (id)".encode())
    for number in (0, 1):
        bounds = f"FROM ({number * 100}) TO ({number * 100 + 100})"
        rig.master.execute(f'CREATE TABLE public.p{number} PARTITION OF public."Parted" FOR VALUES {bounds}'.encode())
    rig.slave.execute(PARTED.encode())
    rig.capture_table("Parted")
    without_event_triggers(rig)
    rig.master.execute("SELECT public.demo_check_structure()")
    rig.master.execute("INSERT INTO public.\"Parted\" SELECT g, 'a' FROM generate_series(0, 199) g")
    store = redis_store.connect(rig.redis_url)
    with caplog.at_level(logging.WARNING), rig.apply():
        rig.await_current()
        with rig.master.transaction():
            # The bounds that were noted name a column that is not there any more.
            rig.master.execute('ALTER TABLE public."Parted" RENAME id TO "Id"')
            rig.master.execute("DROP TABLE public.p0")
        rig.await_that(lambda: bool(rejects(rig).differing()))
        (found,) = rejects(rig).differing()
        assert found.table == TableName("public", "Parted")
        assert "initial_update" in found.reason and "resync" in found.reason
        rig.await_that(lambda: Status(store, rig.pair.prefix, "dr1").read().get("differing") == [found.reason])
        assert f"set aside in REJECTS: {found.reason}" in caplog.text
        at_a_terminal = at_terminal(found.reason, "DEMO_", "dr1")
        assert at_a_terminal in status_of(rig)
        assert look() == "1 thing needs a person, 1 notice sent"
        assert look() == "1 thing needs a person, 0 notices sent"
        (notice,) = told.notices
        assert notice["subject"] == "DEMO_ → dr1: 1 table could not be kept equal" and found.reason in notice["text"]

        assert run(prefix="DEMO_", action="repair")[0] == "success"
        assert run(prefix="DEMO_")[0] == "success"
        assert rejects(rig).differing() == []
        rig.await_that(lambda: Status(store, rig.pair.prefix, "dr1").read().get("differing") == [])
        assert at_a_terminal not in status_of(rig)
        assert look() == "0 things need a person, 0 notices sent"
    settled = rejects(rig).read([RejectStatus.DROPPED])
    assert [one.id for one in settled] == [found.id]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("event_triggers", [True, False], ids=["event triggers", "comparison"])
def test_indexes_and_constraints_that_a_slave_lacks_are_reported_with_the_statements_that_make_them(
    told: Told, event_triggers: bool, caplog: pytest.LogCaptureFixture
) -> None:
    policies = dict.fromkeys(("indexes", "unique", "checks", "foreign_keys", "domains"), "warn")
    (file,) = told.file.parent.glob("*.yaml")
    file.write_text(f"ddl: {json.dumps(policies)}\n{file.read_text()}")
    rig = told.pair.with_options(ddl=config.load("DEMO_").ddl)
    for side in (rig.master, rig.slave):
        side.execute(TYPES.encode())
    rig.capture_table("Order")
    if not event_triggers:
        without_event_triggers(rig)
    assert compare() == "0 differences found"
    for change in CHANGES:
        rig.master.execute(change.encode())
    with rig.apply():
        rig.master.execute('INSERT INTO public."Order" VALUES (1, 7, 5, 3)')
        rig.await_current()
        assert compare() == "6 differences found"
        assert look() == "1 thing needs a person, 1 notice sent"
        assert look() == "1 thing needs a person, 0 notices sent"
        (notice,) = told.notices
        found = Issues(redis_store.connect(rig.redis_url), rig.pair.prefix, "dr1").read()
        said = status_of(rig)
        for one in found:
            assert one.on_slave in notice["text"] and one.on_slave in said
            assert all(f"    {line.rstrip(';')};" in caplog.text for line in one.statement.split(";\n"))
        for one in found:
            # In psql each would be a separate statement, too: some may not run in a transaction.
            for statement in re.split(r";\n", one.statement):
                rig.slave.execute(statement.encode())
        assert compare() == "0 differences found"
        assert look() == "0 things need a person, 0 notices sent"
        rig.master.execute("DELETE FROM public.people WHERE id = 7")
        rig.await_current()
    assert rig.differences() == {}
    rig.slave.execute('DROP INDEX public."In dex"')
    assert compare() == "1 difference found"
    assert look() == "1 thing needs a person, 1 notice sent"


def test_a_new_table_of_the_configuration_is_reported_until_it_is_captured(told: Told) -> None:
    rig = told.pair
    assert compare() == "0 differences found" and "reconcile_tables" not in status_of(rig)
    rig.master.execute('CREATE TABLE public."New" (id int PRIMARY KEY)')
    assert compare() == "1 difference found"
    assert look() == "1 thing needs a person, 1 notice sent"
    (notice,) = told.notices
    remedy = "Start the DAG reconcile_tables with prefix DEMO_."
    assert notice["subject"] == "DEMO_: 1 table not captured"
    assert 'public."New": it is not captured' in notice["text"] and remedy in notice["text"]
    said, command = status_of(rig), "Run ./sluice act reconcile DEMO_"
    assert 'public."New": it is not captured' in said and command in said
    rig.capture_table("New")
    assert compare() == "0 differences found" and command not in status_of(rig)
    assert look() == "0 things need a person, 0 notices sent"


def test_a_configured_table_that_is_gone_does_not_end_the_comparison(told: Told, tmp_path: Path) -> None:
    (file,) = tmp_path.glob("*.yaml")
    file.write_text(file.read_text().replace("\ntables:\n", "\ntables:\n  public.gone: {}\n"))
    told.pair.master.execute("CREATE INDEX i ON public.people (name)")
    assert compare() == "1 difference found"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("run", ["manual__1", "manual__1~dr1"], ids=["its run", "its part of a list"])
def test_missing_indexes_are_not_reported_while_the_update_that_creates_them_runs(
    told: Told, monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    rig = told.pair
    there = {"manual__1": "success", run: "running"}

    def counted(*, dag_id: str, run_ids: list[str], states: list[str] | None = None) -> int:
        found = [there[one] for one in run_ids if one in there]
        return sum(states is None or state in states for state in found) if dag_id == "initial_update" else 0

    monkeypatch.setattr(RuntimeTaskInstance, "get_dr_count", counted)
    # The last task of an update makes indexes, while the slave is NORMAL already and no session of its job is there.
    LoadOwner(rig.slave, rig.pair.prefix, "public", "dr1").name("manual__1")
    rig.master.execute('CREATE INDEX "In dex" ON public.people (name)')
    assert compare() == "0 differences found"
    assert look() == "0 things need a person, 0 notices sent"
    there[run] = "failed"
    assert compare() == "1 difference found"
    assert look() == "1 thing needs a person, 1 notice sent"


DROPS = (
    'ALTER TABLE public."Order" DROP CONSTRAINT "UNIQUE"',
    'DROP INDEX public."uni""que"',
    'ALTER TABLE public."Order" DROP CONSTRAINT "check"',
    'ALTER TABLE public."Order" DROP CONSTRAINT "Fk"',
    'ALTER TABLE public."Order" DROP CONSTRAINT "excluded"',
)


@pytest.mark.long
def test_a_constraint_that_only_the_slave_has_is_reported_until_it_is_dropped(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    rig = told.pair
    for side in (rig.master, rig.slave):
        side.execute(TYPES.encode())
        side.execute(
            """
            CREATE UNIQUE INDEX "uni""que" ON public."Order" ("from" DESC) WHERE person > 0;
            ALTER TABLE public."Order" ADD CONSTRAINT "UNIQUE" UNIQUE ("from", person),
                ADD CONSTRAINT "check" CHECK (id > 0), ADD CONSTRAINT "excluded" EXCLUDE USING btree (person WITH =),
                ADD CONSTRAINT "Fk" FOREIGN KEY (person) REFERENCES public.people DEFERRABLE;
            CREATE INDEX "of its own" ON public."Order" (person)
            """
        )
    # What has another name is lacking under the master's; it constrains no more than the master does.
    rig.slave.execute('ALTER INDEX public."uni""que" RENAME TO other')
    rig.slave.execute('ALTER TABLE public."Order" RENAME CONSTRAINT "UNIQUE" TO "other one"')
    rig.slave.execute('ALTER TABLE public."Order" RENAME CONSTRAINT "check" TO "another"')
    rig.capture_table("Order")
    assert compare() == "3 differences found"
    rig.master.execute('DROP INDEX public."of its own"')
    for drop in DROPS:
        rig.master.execute(drop.encode())
    caplog.clear()
    with caplog.at_level(logging.INFO, "sluice.airflow"):
        assert compare() == "5 differences found"
    (note,) = [one for one in caplog.records if one.levelno == logging.INFO and "of its own" in one.message]
    assert 'DROP INDEX CONCURRENTLY IF EXISTS "public"."of its own";' in note.message
    assert look() == "1 thing needs a person, 1 notice sent"
    (notice,) = told.notices
    assert notice["subject"] == "DEMO_ \u2192 dr1: 5 definitions not as on its master"
    found = Issues(redis_store.connect(rig.redis_url), rig.pair.prefix, "dr1").read()
    for one in found:
        assert "the master has none, and the apply stops" in one.what and one.on_slave in notice["text"]
        rig.slave.execute(one.statement.encode())
    assert compare() == "0 differences found"
    assert look() == "0 things need a person, 0 notices sent"


@pytest.mark.long
def test_an_apply_asks_for_a_comparison_as_soon_as_something_is_new(
    told: Told, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = told.pair
    monkeypatch.setattr(definition_follower, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(definition_follower, "LOOK_SHARE", 0.0)
    monkeypatch.setattr(comparison_trigger, "ASK_SECONDS", 0.0)

    def asked() -> int:
        return caplog.text.count(comparison_trigger.COMPARE_AND_TELL)

    with caplog.at_level(logging.INFO, "sluice.apply"), rig.apply():
        rig.await_that(lambda: asked() == 1)
        rig.await_current()
        rig.master.execute("CREATE INDEX i ON public.people (name)")
        rig.await_that(lambda: asked() == 2)
        rig.master.execute("SELECT public.demo_ddl_item('DIFFER', 'public', 'people', 'a partition is gone', NULL)")
        rig.await_that(lambda: asked() == 3)
        definition_comparison.compare_and_notify(
            TaskContext.of_prefix("DEMO_", {"dag": dag_of("housekeeping")}), ["dr1"]
        )
        assert len(told.notices) == 1, "the index has followed by itself"
        rig.master.execute("CREATE TABLE public.later (id int)")
        rig.await_that(lambda: asked() == 4)
    said = " ".join(notice["text"] for notice in told.notices)
    assert "public.people differs from the master's" in said and "CREATE INDEX" not in said
