"""Net changes reach the slave exactly, in a few statements, by one writer or by several."""

from typing import Any

import psycopg
import pyarrow as pa
import pytest

from sluice.apply import net_changes
from sluice.database import xml_images
from sluice.database.conflicts import Drift
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.vendors.postgres import connection
from sluice.vendors.postgres.target import stage
from sluice.vendors.postgres.target.merge import Merger
from tests.sql.merge.helpers import T, filled, merger, reduced, same
from tests.unit.changes import History

pytestmark = pytest.mark.releases


def test_the_slave_becomes_equal_and_the_rows_are_counted(slave: Any, size: str) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
    history = History()
    apply = merger(slave)
    at = filled(history)
    assert apply.merge([reduced(history)]) == 5
    same(slave, history)
    history.update(("1", "v1"), ("1", ""))
    history.update(("2", "v2"), ("7", None))
    history.delete("3", "v3")
    history.insert("8", "tab\t, newline\n, \\N, \\. and ]]>")
    assert apply.merge([reduced(history, at, images=True)]) == 5, "one updated, two deleted and two inserted"
    same(slave, history)


def test_an_empty_window_can_be_merged(slave: Any) -> None:
    assert merger(slave).merge([]) == 0
    history = History()
    history.insert("1", "a")
    history.delete("1", "a")
    assert merger(slave).merge([reduced(history)]) == 0


# Stage tables that several writers fill


def test_shares_staged_by_others_merge_as_one(slave: Any, info: ConnectionInfo) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text); CREATE TABLE public.h (a int, b text)")
    slave.commit()
    history, keyless = History(), History(TableName("public", "h"), ("a", "b"), ())
    filled(history, 40)
    filled(keyless, 10)
    apply = merger(slave)
    apply.merge([reduced(history), reduced(keyless)])
    slave.commit()
    at, keyless_at = len(history.items), len(keyless.items)
    for number in range(0, 40, 2):
        history.update((str(number), f"v{number}"), (str(number), "new"))
    for number in range(1, 40, 4):
        history.delete(str(number), f"v{number}")
    history.insert("100", "v")
    history.update(("3", "v3"), ("333", "moved"))
    keyless.delete("1", "v1")
    keyless.insert("1", "v2")
    apart = net_changes.changed_key_texts(history.window(at), ("id",), xml_images)
    assert apart == {"3", "333"}
    staged: list[Any] = []
    for part in range(3):
        with connection.connect(info, application="executor") as executor:
            targets = Merger(executor, cascades=False).targets
            for source, begin in ((history, at), (keyless, keyless_at)):
                items = net_changes.without(source.window(begin), apart)
                chosen = [
                    item for item in items.to_pylist() if (int(item["guid"]) % 3 == part if item["guid"] else part == 0)
                ]
                if chosen:
                    changes = net_changes.reduce(
                        net_changes.events(pa.Table.from_pylist(chosen, items.schema), source.key, xml_images)
                    )
                    staged.append(
                        stage.put(
                            executor,
                            changes,
                            targets[source.table],
                            "public",
                            stage.stage_name(Prefix("DEMO_"), 3, f"{part}_{source.table.name}"),
                        )
                    )
            executor.commit()
    rows_apart = [item for item in history.window(at).to_pylist() if item["guid"] is None or item["guid"] in apart]
    mine = net_changes.reduce(
        net_changes.events(pa.Table.from_pylist(rows_apart, history.window().schema), ("id",), xml_images)
    )
    merged = apply.merge([*staged, mine])
    assert merged == (10 + 1 + 1) + 20 + (1 + 1 + 1)
    same(slave, history)
    same(slave, keyless)
    assert stage.drop(slave, Prefix("DEMO_"), "public", below=3) == 0
    assert stage.drop(slave, Prefix("DEMO_"), "public", below=1_000_000) > 3
    left = slave.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'demo_stage%'").fetchone()
    assert left == (0,)


def test_drift_in_staged_rows_is_named_too(slave: Any) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
    history = History()
    at = filled(history)
    history.update(("3", "v3"), ("3", "new"))
    apply = merger(slave)
    name = stage.stage_name(Prefix("DEMO_"), 1, "0_0")
    staged = stage.put(slave, reduced(history, at), apply.targets[T], "public", name)
    with pytest.raises(Drift) as caught:
        apply.merge([staged])
    assert caught.value.key == {"id": "3"}


def test_a_hundred_windows_leave_no_statement_unprepared(slave: Any) -> None:
    """A window of ten tables takes a few round trips, not a few for each table."""
    histories = []
    for number in range(10):
        table = TableName("public", f"t{number}")
        slave.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v text)")
        histories.append(History(table))
    slave.commit()
    apply = merger(slave)
    for turn in range(8):
        windows = []
        for history in histories:
            at = len(history.items)
            history.insert(str(turn), "x")
            if turn:
                history.update((str(turn - 1), "x"), (str(turn - 1), "y"))
            windows.append(reduced(history, at))
        apply.merge(windows)
        slave.commit()
    for history in histories:
        same(slave, history)
    prepared = slave.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%public%'").fetchone()
    assert prepared == (20,)
    assert isinstance(slave, psycopg.Connection)


@pytest.mark.parametrize("safe", [False, True])
def test_staged_rows_whose_unique_values_change_places(slave: Any, safe: bool) -> None:
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text UNIQUE)")
    history = History()
    at = filled(history, 3)
    apply = merger(slave)
    apply.merge([reduced(history)])
    for old, new in ((("1", "v1"), ("1", "x")), (("2", "v2"), ("2", "v1")), (("1", "x"), ("1", "v2"))):
        history.update(old, new)
    history.update(("0", "v0"), ("7", "v0"))
    history.insert("8", "v8")
    changes = reduced(history, at)
    staged = stage.put(slave, changes, apply.targets[T], "public", stage.stage_name(Prefix("DEMO_"), 1, "0_0"))
    for _ in range(2 if safe else 1):
        apply.merge([staged], safe=safe)
        same(slave, history)


def test_an_ordinary_account_can_apply(database: Any, size: str) -> None:
    with connection.connect(database(role=True), application="test") as link:
        link.execute(
            "CREATE SCHEMA app; CREATE TABLE app.t (id int PRIMARY KEY, v text);"
            "CREATE TABLE app.child (id int PRIMARY KEY, t int REFERENCES app.t)"
        )
        link.commit()
        history, child = History(TableName("app", "t")), History(TableName("app", "child"), ("id", "t"))
        at = filled(history, 3)
        child.insert("1", "2")
        apply = merger(link, cascades=True)
        apply.merge([reduced(child), reduced(history)])
        history.update(("1", "v1"), ("1", "new"))
        history.delete("0", "v0")
        history.insert("7", "v7")
        apply.merge([reduced(history, at)])
        apply.merge([reduced(history, at)], safe=True)
        same(link, history)


@pytest.mark.since(15, "pg_stat_force_next_flush()")
def test_many_rows_for_a_table_that_was_vacuumed_empty_are_judged_before_they_are_inserted(slave: Any) -> None:
    """The planner then scans the whole table for each row, and would see the rows that the statement inserted."""
    slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
    slave.commit()
    slave.autocommit = True
    slave.execute("VACUUM ANALYZE public.t")
    slave.autocommit = False
    history = History()
    rows = 10_000
    filled(history, rows)
    merger(slave).merge([reduced(history)], safe=True)
    slave.commit()
    slave.execute("SELECT pg_stat_force_next_flush()")
    slave.commit()
    hits = slave.execute("SELECT heap_blks_hit FROM pg_statio_user_tables WHERE relname = 't'").fetchone()[0]
    assert rows <= hits < 10 * rows
