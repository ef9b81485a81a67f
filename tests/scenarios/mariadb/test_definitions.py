"""Changes of definitions on a slave whose DDL commits implicitly."""

from collections.abc import Callable

import pytest

from sluice.model.names import TableName
from sluice.vendors.mysql.connection import MySQLSession
from tests.scenarios.mariadb import definitions_alike
from tests.scenarios.mariadb.rig import Rig
from tests.scenarios.mariadb.test_conflicts import begun
from tests.waiting import until

NOTES = (
    "CREATE TYPE public.mood AS ENUM ('sad', 'ok'); CREATE DOMAIN public.price AS numeric(12,2) CHECK (VALUE >= 0); "
    "CREATE TABLE public.notes (id int PRIMARY KEY, title varchar(20), body text, n int NOT NULL); "
    "INSERT INTO public.notes SELECT n, 'title ' || n, 'body', n FROM generate_series(1, 50) AS n; "
    "CREATE TABLE public.moods (id int PRIMARY KEY, mood public.mood); "
    "INSERT INTO public.moods VALUES (1, 'sad'), (2, 'ok'), (3, NULL), (4, 'sad'), (5, 'ok')"
)
COURSE = [
    "ALTER TABLE public.notes ADD COLUMN added timestamptz NOT NULL DEFAULT '2020-01-01 00:00+00'",
    "ALTER TABLE public.notes ADD COLUMN plain numeric(10,2)",
    "UPDATE public.notes SET plain = id / 3.0 WHERE id % 2 = 0",
    "ALTER TABLE public.notes RENAME COLUMN body TO text",
    "UPDATE public.notes SET text = text || '!' WHERE id < 5",
    "ALTER TABLE public.notes ALTER COLUMN n TYPE bigint, ALTER COLUMN n DROP NOT NULL",
    "INSERT INTO public.notes (id, n) VALUES (100, NULL), (101, 5000000000)",
    "ALTER TABLE public.notes ALTER COLUMN title TYPE varchar(40)",
    "UPDATE public.notes SET title = repeat('x', 40) WHERE id = 7",
    "ALTER TABLE public.notes DROP COLUMN plain",
    "ALTER TABLE public.notes ADD COLUMN price public.price, ADD COLUMN mood public.mood DEFAULT 'sad'",
    "UPDATE public.notes SET price = 1.5, mood = 'ok' WHERE id < 5",
    "ALTER TYPE public.mood ADD VALUE 'much longer than before'",
    "UPDATE public.notes SET price = 2.25, mood = 'much longer than before' WHERE id < 3",
    "ALTER TYPE public.mood RENAME VALUE 'sad' TO 'it''s \\ sad'",
    "ALTER TYPE public.mood RENAME VALUE 'ok' TO 'sad'",
    "UPDATE public.moods SET mood = 'much longer than before' WHERE id > 3",
    "ALTER TABLE public.notes RENAME TO memos",
    "INSERT INTO public.memos (id, title) VALUES (102, 'after')",
    "CREATE TABLE public.later (id uuid PRIMARY KEY, at timestamp, price public.price NOT NULL)",
    "INSERT INTO public.later VALUES (gen_random_uuid(), now(), 3.5)",
    "TRUNCATE public.memos",
    "INSERT INTO public.memos (id, title) VALUES (103, 'after all')",
]


def test_definitions_are_followed_in_their_order_with_the_rows_around_them(rig: Callable[..., Rig]) -> None:
    pair = rig(NOTES)
    update = pair.load()
    with pair.apply() as running:
        pair.await_current()
        pair.finish(update)
        running.await_normal_mode()
        for statement in COURSE:
            with pair.master.transaction():
                pair.master.execute(statement.encode())
            pair.capture()
        pair.await_current()
        assert pair.differences() == {}
    assert {table.name for table in pair.tables()} == {"memos", "later", "moods"}
    assert pair.slave.run("SHOW TABLES LIKE 'notes'").fetchall() == []


@pytest.mark.long
def test_one_that_is_killed_before_any_statement_of_a_change_is_resumed(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each statement that alters the slave fails once, after all earlier ones were executed."""
    pair = rig(NOTES)
    pair.load()
    with pair.apply():
        pair.await_current()
    for statement in COURSE:
        with pair.master.transaction():
            pair.master.execute(statement.encode())
        pair.capture()
    met: set[str] = set()
    run = MySQLSession.run

    def fails_once(session: MySQLSession, query: str, params: object = None) -> object:
        place = query.split("(")[0]
        if query.startswith(("ALTER TABLE", "RENAME TABLE", "CREATE TABLE", "COMMIT")) and place not in met:
            met.add(place)
            raise Killed(query)
        return run(session, query, params)  # type: ignore[arg-type]

    monkeypatch.setattr(MySQLSession, "run", fails_once)
    for _ in range(60):
        try:
            with pair.apply():
                pair.await_current()
            break
        except Killed:
            continue
    monkeypatch.undo()
    assert len(met) > 6
    assert pair.differences() == {}
    assert pair.rejects.open() == []


@pytest.mark.long
def test_a_change_that_does_not_say_what_a_domain_is_leaves_its_column_as_it_is(rig: Callable[..., Rig]) -> None:
    """Changes queued by an earlier release do not name domains."""
    pair = rig(
        "CREATE DOMAIN public.price AS numeric(12,2); CREATE TABLE public.t (id int PRIMARY KEY, price public.price); "
        "INSERT INTO public.t VALUES (1, 1.5)"
    )
    pair.load()
    with pair.apply():
        pair.await_current()
    pair.master.execute("ALTER TABLE public.t ADD COLUMN n int; UPDATE public.t SET n = 7, price = 2.5")
    pair.capture()
    stripped = pair.master.execute(
        "UPDATE public.demo_items SET content = regexp_replace(content, '<domain [^>]*/>', '') "
        "WHERE content LIKE '%<domain %'"
    )
    assert stripped.rowcount
    with pair.apply():
        pair.await_current()
    assert pair.slave_rows(pair.tables()[0]) == [(1, "2.50", 7)]


@pytest.mark.long
def test_a_dropped_partition_leaves_out_its_table_alone_where_the_configuration_says_so(
    rig: Callable[..., Rig],
) -> None:
    pair = rig(
        "CREATE TABLE public.days (id int PRIMARY KEY) PARTITION BY RANGE (id); "
        "CREATE TABLE public.low PARTITION OF public.days FOR VALUES FROM (0) TO (10); "
        "CREATE TABLE public.high PARTITION OF public.days FOR VALUES FROM (10) TO (20); "
        "INSERT INTO public.days SELECT generate_series(5, 15); "
        "CREATE TABLE public.t (id int PRIMARY KEY)",
        on_error="isolate",
    )
    pair.load()
    with pair.apply():
        pair.await_current()
        pair.master.execute("DROP TABLE public.low")
        pair.capture()
        pair.master.execute("INSERT INTO public.t VALUES (1)")
        pair.await_current()
    assert "a partition was dropped" in pair.checkpoint.tables.explain(DAYS)
    assert pair.slave_rows(TableName("public", "t")) == [(1,)]


DAYS = TableName("public", "days")


@pytest.mark.long
def test_plain_indexes_and_foreign_keys_follow_and_the_rest_is_named(
    rig: Callable[..., Rig], caplog: pytest.LogCaptureFixture
) -> None:
    pair = rig(NOTES)
    update = pair.load()
    with pair.apply() as running:
        pair.await_current()
        pair.finish(update)
        running.await_normal_mode()
        pair.master.execute(
            "CREATE INDEX plain ON public.notes (n, title); CREATE UNIQUE INDEX once ON public.notes (title)"
        )
        until(lambda: {"plain", "once"} <= indexes(pair))
        pair.master.execute("ALTER INDEX public.plain RENAME TO other; DROP INDEX public.once")
        pair.master.execute("INSERT INTO public.notes VALUES (200, 'same', '', 1), (201, 'same', '', 1)")
        until(lambda: "other" in indexes(pair) and not {"plain", "once"} & indexes(pair))
        pair.master.execute("CREATE INDEX lowered ON public.notes (lower(title))")
        until(lambda: "index lowered of public.notes does not follow" in caplog.text)
        pair.master.execute("DROP INDEX public.other, public.lowered")
        until(lambda: "other" not in indexes(pair))
        pair.await_current()
    assert pair.differences() == {}


def indexes(pair: Rig) -> set[str]:
    return {str(row[2]) for row in pair.slave.run("SHOW INDEX FROM notes").fetchall()}


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.mark.long
@pytest.mark.parametrize("stage", [20, 20_000])
def test_a_new_key_with_a_value_of_its_own_in_each_row_follows(rig: Callable[..., Rig], stage: int) -> None:
    pair = rig(
        "CREATE TABLE public.pairs (a int, b text); CREATE TABLE public.m (id int PRIMARY KEY, n int); "
        "INSERT INTO public.pairs SELECT n % 3, 'b' FROM generate_series(1, 50) AS n; "
        "INSERT INTO public.m SELECT n, n FROM generate_series(1, 50) AS n",
        stage=stage,
    )
    update = pair.load()
    with pair.apply() as running:
        pair.await_current()
        pair.finish(update)
        running.await_normal_mode()
        for statement in (
            "ALTER TABLE public.pairs ADD id bigserial PRIMARY KEY",
            "UPDATE public.pairs SET b = 'c' WHERE id < 20; DELETE FROM public.pairs WHERE id = 7",
            "ALTER TABLE public.m DROP CONSTRAINT m_pkey, ADD u uuid DEFAULT gen_random_uuid() PRIMARY KEY",
            "UPDATE public.m SET n = -n WHERE n < 20; DELETE FROM public.m WHERE n > 40",
        ):
            with pair.master.transaction():
                pair.master.execute(statement.encode())
            pair.await_current()
        assert not pair.checkpoint.tables.not_ready, pair.checkpoint.tables
        assert pair.differences() == {}


def test_an_index_that_a_changed_column_or_key_takes_along_is_made_again(rig: Callable[..., Rig]) -> None:
    pair = rig(
        "CREATE TABLE public.pairs (a bigint NOT NULL, b bigint NOT NULL); "
        "CREATE UNIQUE INDEX ab ON public.pairs (a, b); "
        "CREATE TABLE public.comments (id bigserial PRIMARY KEY, kind varchar NOT NULL, number bigint NOT NULL, "
        "code varchar(20), word varchar(100), a varchar(250), b varchar(250), c varchar(250), d varchar(250)); "
        "CREATE INDEX kn ON public.comments (kind, number); CREATE INDEX code ON public.comments (code, id); "
        "CREATE INDEX word ON public.comments (id, word); CREATE INDEX wide ON public.comments (a, b, c, d, id); "
        "CREATE INDEX longer ON public.comments (id, d); CREATE INDEX shorter ON public.comments (d)",
        lossy_columns="['public.*.*']",
    )
    update = pair.load()
    with pair.apply() as running:
        pair.await_current()
        pair.finish(update)
        running.await_normal_mode()
        until(lambda: definitions_alike.differing(pair) == [])
        with pair.master.transaction():
            pair.master.execute("ALTER TABLE public.comments ALTER number TYPE varchar, ALTER code TYPE text")
            pair.master.execute("ALTER TABLE public.comments ALTER word TYPE varchar(1000)")
            pair.master.execute("ALTER TABLE public.pairs ADD id bigserial PRIMARY KEY")
            pair.master.execute("ALTER TABLE public.pairs ADD at timestamp(6) DEFAULT CURRENT_TIMESTAMP NOT NULL")
        pair.await_current()
        assert not pair.checkpoint.tables.not_ready, pair.checkpoint.tables
        until(lambda: definitions_alike.differing(pair) == [])


def test_a_new_column_with_the_name_of_the_key_becomes_the_key(rig: Callable[..., Rig]) -> None:
    pair = begun(
        rig,
        "CREATE TABLE public.m (id int PRIMARY KEY, n int); "
        "INSERT INTO public.m SELECT n, n FROM generate_series(1, 9) AS n",
    )
    with pair.apply() as running:
        running.await_normal_mode()
        pair.master.execute("ALTER TABLE public.m DROP id, ADD id uuid DEFAULT gen_random_uuid() PRIMARY KEY")
        pair.master.execute("UPDATE public.m SET n = -n WHERE n < 4; DELETE FROM public.m WHERE n > 7")
        pair.await_current()
        assert not pair.checkpoint.tables.not_ready, pair.checkpoint.tables
        assert pair.differences() == {}
        keys = pair.slave.run("SHOW INDEX FROM m WHERE Key_name = 'PRIMARY'").fetchall()
        assert [str(row[4]) for row in keys] == ["id"]
