"""Partitioned and inheriting tables, and tables whose own triggers change rows again."""

import itertools

import psycopg
import pytest

from sluice.database.capture import TablesUnfit
from sluice.model.names import TableName
from sluice.vendors.postgres import catalog
from tests.sql.master import Master, Model, wanted

PARTITIONED = (
    "CREATE TABLE events (id int, part text, v text, PRIMARY KEY (id, part)) PARTITION BY LIST (part)",
    "CREATE TABLE events_a PARTITION OF events FOR VALUES IN ('a')",
    # Attached, with its columns in another order and one that is gone.
    "CREATE TABLE events_b (gone int, v text, part text NOT NULL, id int NOT NULL)",
    "ALTER TABLE events_b DROP gone",
    "ALTER TABLE events ATTACH PARTITION events_b FOR VALUES IN ('b')",
    "CREATE TABLE events_rest PARTITION OF events DEFAULT PARTITION BY RANGE (id)",
    "CREATE TABLE events_rest_1 PARTITION OF events_rest FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE events_rest_2 PARTITION OF events_rest FOR VALUES FROM (100) TO (1000)",
)


@pytest.fixture
def events(master: Master) -> Master:
    master.sql(*PARTITIONED)
    master.register("events")
    master.sql(
        "INSERT INTO events SELECT g, (ARRAY['a', 'b', 'c'])[1 + g % 3], 'v' FROM generate_series(1, 30) g",
        "INSERT INTO events_b VALUES ('direct', 'b', 300)",
        "INSERT INTO events VALUES (500, 'c', 'last')",
    )
    return master


def replayed(master: Master, table: str = "events") -> bool:
    return Model().replay(master.items()).contents(table) == master.contents(table)


def test_a_partitioned_table_is_replicated_under_its_own_name(events: Master) -> None:
    assert {item.table.name for item in events.items()} == {"events"}
    assert len(events.items()) == 32
    assert replayed(events)


@pytest.mark.releases
def test_rows_that_change_partition_arrive(events: Master) -> None:
    events.sql(
        "UPDATE events SET part = 'b' WHERE part = 'a' AND id < 10",
        "UPDATE events SET v = 'x', part = CASE part WHEN 'b' THEN 'c' ELSE part END",
        "UPDATE events SET id = id + 100 WHERE part = 'c' AND id < 50",
        "DELETE FROM events_rest_2 WHERE id = 500",
        "INSERT INTO events VALUES (8, 'a', 'conflict') ON CONFLICT (id, part) DO UPDATE SET v = excluded.v",
    )
    assert replayed(events)


@pytest.mark.since(15, "MERGE")
def test_rows_that_merge_moves_to_another_partition_arrive(events: Master) -> None:
    events.sql(
        "MERGE INTO events e USING (VALUES (7, 'z'), (8, 'a'), (600, 'a')) s (id, part) ON e.id = s.id "
        "WHEN MATCHED THEN UPDATE SET part = s.part WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.part, 'm')",
    )
    assert replayed(events)


@pytest.mark.releases
def test_copy_into_a_partitioned_table_arrives(events: Master) -> None:
    with events.connection.cursor() as cursor, cursor.copy("COPY events FROM STDIN") as copy:
        for number in range(600, 700):
            copy.write_row((number, "abc"[number % 3], "copied"))
    assert replayed(events)


def test_truncate_of_the_table_is_one_item(events: Master) -> None:
    after = events.last_key()
    events.sql("TRUNCATE events", "INSERT INTO events VALUES (1, 'a', 'x')", "TRUNCATE events_b")
    assert [item.action for item in events.items(after)] == ["TRUNCATE", "INSERT"]
    assert replayed(events)


def test_truncate_of_a_partition_deletes_its_rows(events: Master) -> None:
    after = events.last_key()
    events.sql("TRUNCATE events_a, events_rest")
    assert {item.action for item in events.items(after)} == {"DELETE"}
    assert replayed(events)


def test_partitions_that_come_and_go_bring_and_take_their_rows(events: Master) -> None:
    events.sql(
        "ALTER TABLE events DETACH PARTITION events_a",
        "DROP TABLE events_a",
        "CREATE TABLE events_n (LIKE events INCLUDING ALL)",
        "INSERT INTO events_n SELECT g, 'n', 'attached' FROM generate_series(1, 5) g",
        "ALTER TABLE events ATTACH PARTITION events_n FOR VALUES IN ('n')",
        "CREATE TABLE events_o PARTITION OF events FOR VALUES IN ('o')",
        "INSERT INTO events VALUES (1, 'o', 'x'), (9, 'n', 'x')",
        "TRUNCATE events_o",
    )
    assert replayed(events)
    assert events.rows("SELECT * FROM demo_capture_faults()") == []


def test_dropping_a_partition_queues_which_rows_went_with_it(events: Master) -> None:
    after = events.last_key()
    events.sql("DROP TABLE events_a, events_rest_2", "INSERT INTO events VALUES (1, 'c', 'x')")
    items = events.items(after)
    assert [item.action for item in items] == ["DELETE WHERE", "DELETE WHERE", "INSERT"]
    assert "part = 'a'" in (items[0].content or "")
    assert "id &gt;= 100" in (items[1].content or "")
    events.sql("DROP TABLE events")
    assert events.items(ddl=True)[-1].action == "DROP"
    assert events.rows("SELECT * FROM demo_partitions") == []


def test_a_column_added_to_a_partitioned_table_travels(events: Master) -> None:
    events.sql("ALTER TABLE events ADD w int DEFAULT 3", "UPDATE events SET w = id")
    last = events.items()[-1]
    assert last.new["w"] == last.new["id"]


def test_a_partition_is_refused_and_its_table_named(events: Master) -> None:
    with pytest.raises(TablesUnfit, match=r"is a partition; replicate public\.events"):
        events.reconcile(wanted("events_a"))


def test_without_event_triggers_partitions_are_captured_too(database, postgres) -> None:  # type: ignore[no-untyped-def]
    master = Master(database(role=True))
    master.sql(*PARTITIONED)
    master.install()
    master.register("events")
    master.sql("INSERT INTO events VALUES (1, 'a', 'x'), (2, 'b', 'y')", "ALTER TABLE events RENAME v TO w")
    master.sql(
        "INSERT INTO events VALUES (3, 'a', 'z')", "UPDATE events SET w = '<' || w", "UPDATE events SET part = 'c'"
    )
    assert list(master.items()[-1].new) == ["id", "part", "w"]
    assert [item.action for item in master.items(ddl=True)].count("ALTER") == 1
    last = {item.guid: tuple(item.new.items()) for item in master.items() if item.action == "INSERT"}
    assert set(master.contents("events")) <= set(last.values())


def test_tables_of_an_inheritance_stand_for_their_own_rows(master: Master) -> None:
    master.sql(
        "CREATE TABLE city (name text PRIMARY KEY, people int)",
        "CREATE TABLE capital (country text, PRIMARY KEY (name)) INHERITS (city)",
    )
    master.register("city", "capital")
    master.sql(
        "INSERT INTO city VALUES ('Olten', 18)",
        "INSERT INTO capital VALUES ('Bern', 134, 'CH'), ('Wien', 1900, 'AT')",
        "UPDATE city SET people = people + 1",
        "UPDATE city SET name = upper(name) WHERE name = 'Wien'",
        "DELETE FROM city WHERE name = 'Bern'",
    )
    model = Model().replay(master.items())
    assert model.contents("city") == master.contents("city")
    assert model.contents("capital") == master.contents("capital")


def test_a_table_that_becomes_a_parent_is_captured_by_row_from_then_on(master: Master) -> None:
    master.sql("CREATE TABLE city (name text PRIMARY KEY, people int)")
    master.register("city")
    master.sql("INSERT INTO city VALUES ('Olten', 18)", "CREATE TABLE capital () INHERITS (city)")
    master.sql("INSERT INTO capital VALUES ('Bern', 134)", "UPDATE city SET people = 0")
    assert Model().replay(master.items()).contents("city") == master.contents("city")
    assert master.rows("SELECT mode FROM demo_captures") == [("row",)]


TRIGGERS = {
    "its own row again": """
        IF pg_trigger_depth() < 2 THEN UPDATE t SET v = v || '!', n = n + 1 WHERE id = NEW.id; END IF;""",
    "the other rows": "IF pg_trigger_depth() < 2 THEN UPDATE t SET n = n * 2 WHERE id <> NEW.id; END IF;",
    "other rows, deleting": "DELETE FROM t WHERE id = NEW.id + 1 AND n > 1;",
    "the key of other rows": "IF pg_trigger_depth() < 2 THEN UPDATE t SET id = id + 100 WHERE id = NEW.id - 1; END IF;",
    "another table that changes this one": "IF pg_trigger_depth() < 2 THEN INSERT INTO other VALUES (NEW.id); END IF;",
    "nothing": "PERFORM 1;",
}


REFUSED = (("its own row again", "BEFORE"), ("another table that changes this one", "BEFORE"))
"""What PostgreSQL refuses, whatever the statement."""


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", ["a_first", "zz_last"])
@pytest.mark.parametrize(
    ("kind", "timing"), [each for each in itertools.product(TRIGGERS, ["BEFORE", "AFTER"]) if each not in REFUSED]
)
def test_changes_of_the_applications_triggers_are_replicated(master: Master, kind: str, name: str, timing: str) -> None:
    master.sql(
        "CREATE TABLE t (id int PRIMARY KEY, v text, n int)",
        "CREATE TABLE other (id int)",
        "CREATE FUNCTION back() RETURNS trigger LANGUAGE plpgsql AS $$ "
        "BEGIN UPDATE t SET v = v || 'o' WHERE id = NEW.id; RETURN NULL; END $$",
        "CREATE TRIGGER back AFTER INSERT ON other FOR EACH ROW EXECUTE FUNCTION back()",
        f"CREATE FUNCTION busy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {TRIGGERS[kind]} RETURN NEW; END $$",
    )
    master.register("t")
    master.sql("INSERT INTO t SELECT g, 'v', 1 FROM generate_series(1, 6) g")
    master.sql(f"CREATE TRIGGER {name} {timing} UPDATE ON t FOR EACH ROW EXECUTE FUNCTION busy()")
    done = 0
    for statement in (
        "UPDATE t SET n = n + 1",
        "UPDATE t SET v = 'w' WHERE id = 2",
        "UPDATE t SET n = 9 WHERE id IN (2, 3)",
    ):
        try:
            master.sql(statement)
            done += 1
        except psycopg.errors.TriggeredDataChangeViolation:
            continue  # PostgreSQL itself refuses what some of these do.
    assert done, "PostgreSQL refused everything, so nothing was captured"
    # What counts is the last word on each key: the order of a row's images may be another than the model's strict one.
    last: dict[str, tuple[tuple[str, str | None], ...] | None] = {}
    for item in master.items():
        if item.action in ("UPDATE", "DELETE"):
            last[item.old_row["id"] or ""] = None
        if item.action in ("UPDATE", "INSERT"):
            last[item.new["id"] or ""] = tuple(item.new.items())
    assert {row for row in last.values() if row} == set(master.contents("t"))


@pytest.mark.parametrize("statement", ["UPDATE ONLY t SET v = '77' WHERE id = NEW.id", "DELETE FROM ONLY t"])
def test_changes_of_triggers_beside_an_inheriting_table_are_replicated(master: Master, statement: str) -> None:
    master.sql(
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "CREATE TABLE child (PRIMARY KEY (id)) INHERITS (t)",
        "INSERT INTO child VALUES (5, 'of the child')",
        f"CREATE FUNCTION busy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {statement}; RETURN NULL; END $$",
        "CREATE TRIGGER busy AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION busy()",
    )
    master.register("t")
    master.sql("INSERT INTO t VALUES (5, 'x')")
    last = [item.new.get("v") if item.content else None for item in master.items() if item.table.name == "t"][-1]
    assert ([] if last is None else [last]) == [v for (v,) in master.rows("SELECT v FROM ONLY t")]


def test_a_unique_index_over_a_generated_column_is_no_key(master: Master) -> None:
    master.sql("CREATE TABLE g (a int, b int GENERATED ALWAYS AS (a * 2) STORED PRIMARY KEY)")
    master.register("g")
    master.sql("INSERT INTO g VALUES (1)")
    assert [item.guid for item in master.items()] == [""]
    assert catalog.shapes(master.connection, [TableName("public", "g")])[TableName("public", "g")].key == ()


@pytest.mark.since(18, "NOT NULL constraints that are not valid")
def test_a_column_that_is_not_null_only_for_new_rows_may_hold_nulls(master: Master) -> None:
    master.sql("CREATE TABLE t (id int PRIMARY KEY, v text, n int)", "CREATE UNIQUE INDEX ON t (v)")
    master.register("t")
    master.sql("INSERT INTO t VALUES (1, NULL, NULL)")
    master.sql("ALTER TABLE t ADD CONSTRAINT later NOT NULL v NOT VALID, ADD CONSTRAINT more NOT NULL n NOT VALID")
    after = master.last_key()
    master.sql("DELETE FROM t")
    (delete,) = master.items(after)
    assert delete.old_row == {"id": "1", "v": None, "n": None}
    master.sql("ALTER TABLE t DROP CONSTRAINT t_pkey")
    shape = catalog.shapes(master.connection, [TableName("public", "t")])[TableName("public", "t")]
    assert shape.key == () and [column.nullable for column in shape.columns] == [False, True, True]
    master.sql("ALTER TABLE t VALIDATE CONSTRAINT later")
    shape = catalog.shapes(master.connection, [TableName("public", "t")])[TableName("public", "t")]
    assert [column.name for column in shape.key] == ["v"]


def test_a_trigger_that_only_sets_a_column_costs_no_row_triggers(master: Master) -> None:
    master.sql(
        "CREATE TABLE t (id int PRIMARY KEY, v text, at timestamptz)",
        "CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN -- on INSERT and UPDATE\n IF TG_OP = 'UPDATE' THEN NEW.at := now(); END IF; RETURN NEW; END $$",
        "CREATE TRIGGER stamp BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION stamp()",
    )
    master.register("t")
    assert master.rows("SELECT mode FROM demo_captures") == [("statement",)]
    master.sql("INSERT INTO t VALUES (1, 'x')", "UPDATE t SET v = 'y'")
    assert Model().replay(master.items()).contents("t") == master.contents("t")


def test_statement_triggers_of_the_application_fire_after_ours(master: Master) -> None:
    master.sql(
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF pg_trigger_depth() < 2 THEN "
        "UPDATE t SET v = v || '!'; END IF; RETURN NULL; END $$",
        'CREATE TRIGGER "A" AFTER INSERT OR UPDATE ON t FOR EACH STATEMENT EXECUTE FUNCTION again()',
    )
    master.register("t")
    master.sql("INSERT INTO t VALUES (1, 'x'), (2, 'y')", "UPDATE t SET v = 'z' WHERE id = 1")
    assert Model().replay(master.items()).contents("t") == master.contents("t")


def test_two_prefixes_capture_one_table_each_for_itself(master: Master) -> None:
    from sluice.model.names import Prefix

    other = Master(master.info, Prefix("DEMO_2_"))
    other.install()
    master.sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
    master.register("t")
    other.register("t")
    master.register("t")
    master.sql("INSERT INTO t VALUES (1, 'x')", "UPDATE t SET v = 'y'", "ALTER TABLE t ADD w int", "TRUNCATE t")
    for one in (master, other):
        assert [item.action for item in one.items(ddl=True)] == [
            "CREATE", "CREATE", "INSERT", "UPDATE", "ALTER", "TRUNCATE",
        ], "the second one says that all rows follow"  # fmt: skip
        assert one.rows(f"SELECT * FROM {one.name('capture_faults')}()") == []
        assert one.reconcile(wanted("t")).steps == ()


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("CREATE UNLOGGED TABLE t (id int)", "is unlogged"),
        ("CREATE VIEW t AS SELECT 1 AS id", "is a view"),
        ("CREATE MATERIALIZED VIEW t AS SELECT 1 AS id", "is a materialized view"),
        ("CREATE SEQUENCE t", "is no table"),
        ("SELECT", "does not exist"),
        pytest.param(
            "CREATE TABLE t (id int, g int GENERATED ALWAYS AS (id * 2) STORED) PARTITION BY RANGE (id); "
            "CREATE TABLE t_1 (id int, g int GENERATED ALWAYS AS (id * 3) STORED); "
            "ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES FROM (0) TO (9)",
            "computes a column by another expression than the table, which slaves use: g of public.t_1",
            marks=pytest.mark.since(17, "expressions of partitions"),
        ),
    ],
)
def test_tables_that_cannot_be_captured_are_refused_with_the_reason(
    master: Master, statement: str, reason: str
) -> None:
    master.sql(statement)
    with pytest.raises(TablesUnfit, match=reason) as caught:
        master.reconcile(wanted("t"))
    assert list(caught.value.reasons) == [TableName("public", "t")]
    assert master.rows("SELECT * FROM demo_tables") == []
