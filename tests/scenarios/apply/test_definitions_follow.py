"""Indexes, constraints and comments follow to a slave under traffic, also if the follower is killed at any step."""

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from sluice.apply import definition_follower
from sluice.apply.definition_follower import DefinitionStops
from sluice.capture import wildcards
from sluice.configuration.options import DdlOptions, Policy
from sluice.control.definitions import DefinitionStore
from sluice.database.following import OfMaster, by_id
from sluice.load import steps
from sluice.model.defined import ObjectId
from sluice.model.names import TableName
from sluice.vendors.postgres.catalog import rows_with_retries
from sluice.vendors.postgres.connection import connect, quoted
from sluice.vendors.postgres.source.queue import PostgresQueue
from sluice.vendors.postgres.target import following
from sluice.vendors.postgres.vendor import POSTGRES
from sluice.verify import definition_gaps
from tests.rig.applying import Applying
from tests.rig.rig import MakePair, Rig

TABLES = """
CREATE DOMAIN public.euro AS int;
CREATE DOMAIN public.given AS text;
CREATE TABLE public."Parent; --" (id int PRIMARY KEY, n int);
CREATE TABLE public.t (id int PRIMARY KEY, n int, v text, "select" int, price public.euro,
    g public.given DEFAULT 'g');
"""
PARENT = 'public."Parent; --"'

CHANGES: dict[str, tuple[list[str], str, str]] = {
    "an index": (
        ['CREATE INDEX "In""dex" ON public.t (n, lower(v)) WHERE n > 0'],
        'ALTER INDEX public."In""dex" RENAME TO "other ]]>"',
        'DROP INDEX public."other ]]>"',
    ),
    "a unique index": (
        ["CREATE UNIQUE INDEX u ON public.t (n)"],
        "ALTER INDEX public.u RENAME TO w",
        "DROP INDEX public.w; INSERT INTO public.t VALUES (-10, 1), (-11, 1)",
    ),
    "a unique constraint": (
        ['ALTER TABLE public.t ADD CONSTRAINT "UNIQUE" UNIQUE (n) DEFERRABLE INITIALLY DEFERRED'],
        'ALTER TABLE public.t RENAME CONSTRAINT "UNIQUE" TO w',
        "ALTER TABLE public.t DROP CONSTRAINT w; INSERT INTO public.t VALUES (-20, 1), (-21, 1)",
    ),
    "a check": (
        [
            'ALTER TABLE public.t ADD CONSTRAINT "check" CHECK (n > 0) NOT VALID',
            'ALTER TABLE public.t VALIDATE CONSTRAINT "check"',
        ],
        'ALTER TABLE public.t RENAME CONSTRAINT "check" TO c; ALTER TABLE public.t RENAME COLUMN n TO m',
        "ALTER TABLE public.t DROP CONSTRAINT c; INSERT INTO public.t VALUES (-30, -1); "
        "ALTER TABLE public.t RENAME COLUMN m TO n",
    ),
    "a foreign key": (
        [f'ALTER TABLE public.t ADD CONSTRAINT "Fk" FOREIGN KEY ("select") REFERENCES {PARENT} ON DELETE CASCADE'],
        'ALTER TABLE public.t RENAME CONSTRAINT "Fk" TO f',
        "ALTER TABLE public.t DROP CONSTRAINT f; INSERT INTO public.t VALUES (-40, -1, '', -1)",
    ),
    "a check of a domain": (
        ["ALTER DOMAIN public.euro ADD CONSTRAINT \"at least\" CHECK (VALUE > 0)"],
        'ALTER DOMAIN public.euro RENAME CONSTRAINT "at least" TO least',
        "ALTER DOMAIN public.euro DROP CONSTRAINT least; INSERT INTO public.t VALUES (-50, -1, '', NULL, -1)",
    ),
    "NOT NULL of a domain": (
        ["ALTER DOMAIN public.given SET NOT NULL"],
        "UPDATE public.t SET g = 'other'",
        "ALTER DOMAIN public.given DROP NOT NULL; INSERT INTO public.t VALUES (-60, -2, '', NULL, NULL, NULL)",
    ),
    "comments": (
        ["COMMENT ON TABLE public.t IS 'it''s \"%s\" ]]>'", "COMMENT ON COLUMN public.t.\"select\" IS 'x'"],
        "COMMENT ON COLUMN public.t.\"select\" IS E'other\\n'",
        "COMMENT ON TABLE public.t IS NULL; COMMENT ON COLUMN public.t.\"select\" IS NULL",
    ),
}  # fmt: skip


def defined(rig: Rig) -> list[dict[ObjectId, str | None]]:
    """The definitions of master and slave beyond columns."""
    tables = [TableName("public", "t"), TableName("public", "Parent; --")]
    of_master = OfMaster.read(POSTGRES.schemas, rig.master, tables, tables).made_from
    return [{one.id: one.definition for one in of_master}, by_id(following.present(rig.slave, tables))]


def same(rig: Rig) -> bool:
    master, slave = defined(rig)
    return master == slave


def await_same(rig: Rig) -> None:
    rig.await_that(lambda: same(rig))
    assert defined(rig)[0] == defined(rig)[1]


@contextmanager
def traffic(rig: Rig) -> Iterator[None]:
    """Inserts and deletes rows that are valid in each state of the tables."""
    stop = threading.Event()

    def write() -> None:
        with connect(rig.master_info, application="writer", autocommit=True) as writer:
            number = 1000
            while not stop.is_set():
                number += 1
                writer.execute(f"INSERT INTO {PARENT} VALUES ({number}, {number})".encode())
                values = f"{number}, {number}, 'x', {number}, {number}"
                writer.execute(f"INSERT INTO public.t VALUES ({values})".encode())
                writer.execute(f"DELETE FROM public.t WHERE id = {number - 50}".encode())
                stop.wait(0.01)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def follow(rig: Rig, kinds: Collection[str]) -> None:
    """Creates, renames and drops all of `kinds`, each while rows are written."""
    with rig.apply() as running:
        with traffic(rig):
            await_followed(rig, running)
            for kind in kinds:
                for statement in CHANGES[kind][0]:
                    rig.master.execute(statement.encode())
            await_same(rig)
            assert len(defined(rig)[1]) >= len(kinds)
            for place in (1, 2):
                for kind in kinds:
                    rig.master.execute(CHANGES[kind][place].encode())  # type: ignore[union-attr]
                await_same(rig)
        rig.await_current()
    assert rig.differences() == {}
    assert not defined(rig)[1]


def test_created_renamed_and_dropped_definitions_follow(rig: Callable[..., Rig]) -> None:
    follow(rig(TABLES), [kind for kind in CHANGES if kind != "a unique constraint"])


@pytest.mark.long
@pytest.mark.releases
@pytest.mark.parametrize("event_triggers", [True, False])
@pytest.mark.parametrize("kind", CHANGES)
def test_each_kind_follows_alone(rig: Callable[..., Rig], kind: str, event_triggers: bool) -> None:
    pair = rig(TABLES)
    if not event_triggers:
        for (name,) in pair.master.execute("SELECT evtname FROM pg_event_trigger").fetchall():
            pair.master.execute(f"DROP EVENT TRIGGER {quoted(name)}".encode())
    follow(pair, [kind])


@pytest.mark.releases
@pytest.mark.parametrize("event_triggers", [True, False])
def test_what_a_table_has_is_followed_under_its_new_name(rig: Callable[..., Rig], event_triggers: bool) -> None:
    """Two tables swap their names by a third one; then one is renamed with its index, as Rails does it; then one is
    made again with an index as before."""
    pair = rig("CREATE TABLE public.a (id int PRIMARY KEY, n int); CREATE TABLE public.b (id int PRIMARY KEY, v text)")
    if not event_triggers:
        for (name,) in pair.master.execute("SELECT evtname FROM pg_event_trigger").fetchall():
            pair.master.execute(f"DROP EVENT TRIGGER {quoted(name)}".encode())

    def indexes(session: Any) -> list[Any]:
        query = "SELECT tablename::text, indexname::text, indexdef FROM pg_indexes WHERE schemaname = 'public'"
        return rows_with_retries(session, f"{query} AND tablename !~ '^demo_' AND indexname !~ '_pkey' ORDER BY 1, 2")

    def follows(*statements: str) -> None:
        with pair.master.transaction():
            for statement in statements:
                pair.master.execute(statement.encode())
        pair.master.execute(f"SELECT {pair.schema}.demo_check_structure()".encode())
        pair.await_current()
        pair.await_that(lambda: indexes(pair.slave) == indexes(pair.master))

    with pair.apply() as running:
        await_followed(pair, running)
        follows("CREATE INDEX of_a ON public.a (n)", "CREATE UNIQUE INDEX of_b ON public.b (v)")
        follows(
            "ALTER TABLE public.a RENAME TO c", "ALTER TABLE public.b RENAME TO a", "ALTER TABLE public.c RENAME TO b",
            "ALTER INDEX public.of_a RENAME TO of_a_that_is_b",
        )  # fmt: skip
        follows(
            "ALTER TABLE public.a RENAME TO made", "ALTER INDEX public.of_b RENAME TO of_made",
            "ALTER TABLE public.made RENAME COLUMN v TO w", "DROP INDEX public.of_a_that_is_b",
        )  # fmt: skip
        follows("CREATE INDEX again ON public.b (n)")
        made_anew = "CREATE TABLE public.b (id int PRIMARY KEY, n int)"
        follows("DROP TABLE public.b", made_anew, "CREATE INDEX again ON public.b (n)")
        pair.master.execute("INSERT INTO public.made VALUES (1, 'w'); INSERT INTO public.b VALUES (1, 2)")
        pair.await_current()
    assert pair.differences() == {}
    assert [name for _, name, _ in indexes(pair.slave)] == ["again", "of_made"]


class Killed(BaseException):
    """The process is killed."""


@pytest.mark.long
def test_a_definition_follows_as_soon_as_its_column_exists(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(definition_follower, "AGAIN_SECONDS", 3600.0)
    pair = rig(TABLES)
    for (name,) in pair.master.execute("SELECT evtname FROM pg_event_trigger").fetchall():
        pair.master.execute(f"DROP EVENT TRIGGER {quoted(name)}".encode())
    found = PostgresQueue.compare_definitions
    with pair.apply() as running:
        await_followed(pair, running)
        monkeypatch.setattr(PostgresQueue, "compare_definitions", lambda _: [])
        pair.master.execute("ALTER TABLE public.t RENAME COLUMN n TO m")
        pair.master.execute('ALTER TABLE public.t ADD CONSTRAINT "check" CHECK (m > 0)')
        pair.await_that(lambda: "SQLSTATE 42703" in caplog.text)
        monkeypatch.setattr(PostgresQueue, "compare_definitions", found)
        await_same(pair)


@pytest.mark.long
def test_a_round_that_is_killed_at_any_step_is_done_by_the_next(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = rig(TABLES)
    with pair.apply() as running:
        await_followed(pair, running)
    left = [0]

    def dying(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            found = function(*arguments, **options)
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            return found

        return call

    for name in ("make", "drop", "rename"):
        monkeypatch.setattr(following, name, dying(getattr(following, name)))
    for name in ("put", "forget"):
        monkeypatch.setattr(DefinitionStore, name, dying(getattr(DefinitionStore, name)))
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    kinds = [kind for kind in CHANGES if kind not in ("a unique constraint", "a check")]
    for place in (0, 1, 2):
        for kind in kinds:
            statements = CHANGES[kind][place]
            for statement in statements if place == 0 else [statements]:
                pair.master.execute(str(statement).encode())
        killed, step = True, 1
        while killed:
            left[0] = step
            # The round is killed, or the apply itself, where rows meet a constraint that the master dropped.
            with suppress(Killed), pair.apply() as running:
                pair.await_that(lambda: left[0] <= 0 or (same(pair) and not running.loop.follower.busy))
            killed, left[0] = left[0] <= 0, 0
            step += 3
        assert step > 9, "nothing was killed"
        assert same(pair)
    with pair.apply():
        pair.await_current()
    assert pair.differences() == {}


@pytest.mark.long
def test_an_index_is_built_concurrently_and_again_if_it_is_invalid(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    with pair.apply() as running:
        await_followed(pair, running)
        with connect(pair.slave_info, application="reader") as reader:
            # It waits for transactions that might write.
            reader.execute("LOCK TABLE public.t IN ROW EXCLUSIVE MODE")
            pair.master.execute("CREATE UNIQUE INDEX slow ON public.t (n)")
            pair.await_that(lambda: None in defined(pair)[1].values())
            pair.master.execute("INSERT INTO public.t VALUES (1, 1)")
            pair.await_current()
            assert pair.slave.execute("SELECT count(*) FROM public.t").fetchone() == (1,)
            ended = pair.slave.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE query LIKE 'CREATE UNIQUE INDEX CONCURRENTLY%' AND datname = current_database()"
            )
            assert ended.fetchone() == (1,)
        await_same(pair)


@pytest.mark.long
def test_the_slaves_own_definitions_and_removed_ones_are_left_alone(rig: Callable[..., Rig]) -> None:
    pair = rig(f"{TABLES} CREATE INDEX removed ON public.t (v)")
    pair.slave.execute("CREATE INDEX own ON public.t (n)")
    with pair.apply() as running:
        await_followed(pair, running)
        assert indexes(pair) == {"own", "removed"}
        pair.slave.execute("DROP INDEX public.removed")
        pair.master.execute("CREATE INDEX new ON public.t (price)")
        pair.await_that(lambda: "new" in indexes(pair))
        pair.master.execute("DROP INDEX public.new")
        pair.await_that(lambda: "new" not in indexes(pair))
        assert indexes(pair) == {"own"}


def indexes(rig: Rig) -> set[str]:
    return {name for _, _, name in defined(rig)[1]}


@pytest.mark.long
def test_the_policy_only_reports_or_stops_the_apply_until_it_is_done(
    rig: Callable[..., Rig], caplog: pytest.LogCaptureFixture
) -> None:
    pair = rig(TABLES)
    with pair.replication.source.open("a") as file:
        file.write("ddl: {indexes: warn, checks: stop}\n")
    pair = pair.with_options(ddl=DdlOptions(indexes=Policy.WARN, checks=Policy.STOP))
    with pytest.raises(DefinitionStops, match=r"ddl: \{checks: stop\}.*CHECK"), pair.apply() as running:
        await_followed(pair, running)
        pair.master.execute("CREATE INDEX told ON public.t (n)")
        pair.await_that(lambda: "somebody may run: CREATE INDEX" in caplog.text)
        pair.master.execute("ALTER TABLE public.t ADD CONSTRAINT positive CHECK (n > 0)")
        pair.await_that(lambda: False)
    assert not defined(pair)[1]
    pair.slave.execute("ALTER TABLE public.t ADD CONSTRAINT positive CHECK (n > 0)")
    with pair.apply() as running:
        store = DefinitionStore(pair.slave, pair.pair.prefix, pair.schema, pair.name)
        pair.await_that(lambda: any(one.name == "positive" for one in store.read() or ()))


def await_followed(rig: Rig, running: Applying) -> None:
    """Waits for the end of the first round; from now on new definitions follow."""
    store = DefinitionStore(rig.slave, rig.pair.prefix, rig.schema, rig.name)
    rig.await_that(lambda: store.read() is not None)
    rig.await_normal_mode(running)


MIGRATION = """
CREATE TABLE public.author (id serial PRIMARY KEY, mail varchar(80) NOT NULL UNIQUE, age int CHECK (age > 0));
CREATE TABLE public.book (id serial PRIMARY KEY, title text NOT NULL, author_id int NOT NULL);
ALTER TABLE public.book ADD CONSTRAINT book_author FOREIGN KEY (author_id) REFERENCES public.author (id)
    DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX book_author_id ON public.book (author_id);
CREATE INDEX book_title_like ON public.book (title text_pattern_ops);
ALTER TABLE public.book ADD CONSTRAINT book_once UNIQUE (author_id, title);
COMMENT ON TABLE public.book IS 'a book'
"""
BOOKS = [TableName("public", "author"), TableName("public", "book")]


def migrated(pair: Rig) -> None:
    for statement in MIGRATION.split(";\n"):
        pair.master.execute(statement.encode())
    pair.master.execute("INSERT INTO public.author VALUES (1, 'a@b', 5); INSERT INTO public.book VALUES (1, 'x', 1)")


def of_books(pair: Rig) -> list[set[ObjectId]]:
    of_master = OfMaster.read(POSTGRES.schemas, pair.master, BOOKS, BOOKS).made_from
    return [{one.id for one in of_master}, set(by_id(following.present(pair.slave, BOOKS)))]


@pytest.mark.long
def test_an_empty_master_first_and_all_that_a_migration_makes_later(pair_of: MakePair) -> None:
    pair = pair_of(block_rows=50, seconds=0.05, interval=0.1)
    pair.prepare(first := pair.update("first"))
    wildcards.note(pair.master, pair.replication)
    # Before the first round: nothing of it was there when the slave was loaded.
    migrated(pair)
    with pair.apply():
        pair.load_to_normal(first)
        steps.finish(first)
        pair.await_current()
        pair.await_that(lambda: of_books(pair)[0] == of_books(pair)[1])
        pair.assert_equal()


@pytest.mark.long
@pytest.mark.parametrize(
    ("indexes", "kinds"),
    [("keys", {"unique", "checks", "foreign_keys", "comments"}), ("none", {"checks", "comments"})],
)
def test_the_slave_gets_the_indexes_that_it_is_configured_for(pair_of: MakePair, indexes: str, kinds: set[str]) -> None:
    pair = pair_of(block_rows=50, seconds=0.05, interval=0.1, slave_options={"indexes": indexes})
    migrated(pair)
    pair.prepare(first := pair.update("first"))
    wildcards.note(pair.master, pair.replication)
    with pair.apply():
        pair.load_to_normal(first)
        steps.finish(first)
        pair.master.execute("CREATE INDEX book_title ON public.book (title)")
        pair.master.execute("CREATE UNIQUE INDEX book_id ON public.book (id, title)")
        pair.master.execute("ALTER TABLE public.author ADD CONSTRAINT old CHECK (age < 200)")
        pair.await_that(lambda: any(name == "old" for _, _, name in of_books(pair)[1]))
        wanted, found = of_books(pair)
        assert found == {place for place in wanted if place[0] in kinds}
        everything = definition_gaps.MasterDefinitions.read("postgres", pair.master, BOOKS)
        assert definition_gaps.of_slave(pair.pair, everything, lambda *_: False) == []
