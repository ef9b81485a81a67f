"""A table's definition changes on the master while the slave leaves the table out: one load brings all of it."""

import pytest

from devstack.postgres import PostgresServer
from sluice.control.definitions import DefinitionStore
from sluice.database.following import OfMaster, by_id
from sluice.load import steps
from sluice.load.update import Update
from sluice.model.compatibility import TablesDiffer
from sluice.model.defined import Defined, DefinedKind, ObjectId
from sluice.model.issue import errors
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableState
from sluice.preflight import checks
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.source.tables_registry import Registry
from sluice.vendors.postgres.target import following
from sluice.vendors.postgres.vendor import POSTGRES
from tests.rig.loaders import Background
from tests.rig.rig import MakePair, Rig
from tests.waiting import until

THINGS, READY, PARENTS = (TableName("public", name) for name in ("things", "ready", "parents"))

TABLES = """
CREATE TYPE public."Mood" AS ENUM ('sad', 'o''k');
CREATE TYPE public.both AS ENUM ('first', 'last');
CREATE DOMAIN public.small AS int CONSTRAINT least CHECK (VALUE < 1000);
CREATE DOMAIN public.must AS text NOT NULL;
CREATE TABLE public.parents (id int PRIMARY KEY);
CREATE TABLE public.ready (id int PRIMARY KEY, v text, b public.both, s public.small);
CREATE TABLE public.things (
    id int PRIMARY KEY, v text DEFAULT 'a', m public."Mood", ms public."Mood"[] DEFAULT '{sad}', b public.both,
    s public.small, t public.must DEFAULT 't', n int CONSTRAINT few CHECK (n < 1000), u int CONSTRAINT once UNIQUE,
    parent int CONSTRAINT child REFERENCES public.parents, w int NOT NULL DEFAULT 1
);
CREATE UNIQUE INDEX also ON public.things (w, u);
INSERT INTO public.parents SELECT g FROM generate_series(1, 200) g;
INSERT INTO public.ready SELECT g, 'old', 'first', 1 FROM generate_series(1, 200) g;
INSERT INTO public.things SELECT g, 'old', 'sad', '{sad}', 'first', 1, 't', 1, g, g FROM generate_series(1, 200) g;
"""

CHANGES: dict[str, list[str]] = {
    "labels": [
        "ALTER TYPE public.\"Mood\" ADD VALUE 'gay' BEFORE 'sad'",
        "ALTER TYPE public.\"Mood\" ADD VALUE 'be<tw>een' AFTER 'sad'",
        'ALTER TYPE public."Mood" ADD VALUE \'"la&st"\'',
        "UPDATE public.things SET m = 'gay', ms = '{be<tw>een,\"\\\"la&st\\\"\"}' WHERE id % 3 = 0",
    ],
    "a label that is a default": [
        "ALTER TYPE public.\"Mood\" ADD VALUE 'calm' BEFORE 'o''k'",
        "ALTER TABLE public.things ALTER m SET DEFAULT 'calm', ADD COLUMN more public.\"Mood\"[] DEFAULT '{calm}'",
    ],
    "a label that others have": [
        "ALTER TYPE public.both ADD VALUE 'middle' AFTER 'first'",
        "UPDATE public.things SET b = 'middle' WHERE id % 2 = 0",
        "UPDATE public.ready SET b = 'middle' WHERE id % 2 = 0",
    ],
    "a label's name": [
        "ALTER TYPE public.\"Mood\" RENAME VALUE 'sad' TO 'blue'",
        "INSERT INTO public.things (id, m) VALUES (1000, 'blue')",
    ],
    "a label's name that others have": [
        "ALTER TYPE public.both RENAME VALUE 'first' TO 'initial'",
        "INSERT INTO public.things (id, b) VALUES (1000, 'initial')",
        "INSERT INTO public.ready (id, b) VALUES (1000, 'initial')",
    ],
    "names that labels exchange": [
        "ALTER TYPE public.\"Mood\" RENAME VALUE 'sad' TO 'x'",
        "ALTER TYPE public.\"Mood\" RENAME VALUE 'o''k' TO 'sad'",
        "ALTER TYPE public.\"Mood\" RENAME VALUE 'x' TO 'o''k'",
        "UPDATE public.things SET v = 'new', m = 'sad' WHERE id % 2 = 0",
    ],
    "the name of an enum": [
        'ALTER TYPE public."Mood" RENAME TO moods',
        "ALTER TYPE public.moods ADD VALUE 'calm'",
        "UPDATE public.things SET m = 'calm' WHERE id % 2 = 0",
    ],
    "a new enum": [
        "CREATE TYPE public.color AS ENUM ('red')",
        "ALTER TABLE public.things ADD c public.color DEFAULT 'red'",
        "ALTER TYPE public.color ADD VALUE 'green' BEFORE 'red'",
        "UPDATE public.things SET c = 'green' WHERE id % 2 = 0",
    ],
    "a domain without its check": [
        "ALTER DOMAIN public.small DROP CONSTRAINT least",
        "UPDATE public.things SET s = 5000 WHERE id % 2 = 0",
    ],
    "a domain with another check": [
        "ALTER DOMAIN public.small DROP CONSTRAINT least",
        "ALTER DOMAIN public.small ADD CONSTRAINT least CHECK (VALUE < 10000)",
        "UPDATE public.things SET s = 5000 WHERE id % 2 = 0",
    ],
    "a domain that may be null": [
        "ALTER DOMAIN public.must DROP NOT NULL",
        "UPDATE public.things SET t = NULL WHERE id % 2 = 0",
    ],
    "no check": [
        "ALTER TABLE public.things DROP CONSTRAINT few",
        "UPDATE public.things SET n = 5000 WHERE id % 2 = 0",
    ],
    "another check": [
        "ALTER TABLE public.things DROP CONSTRAINT few, ADD CONSTRAINT few CHECK (n < 10000)",
        "UPDATE public.things SET n = 5000 WHERE id % 2 = 0",
    ],
    "a new check": ["ALTER TABLE public.things ADD CONSTRAINT positive CHECK (n > 0)"],
    "no unique constraint": [
        "ALTER TABLE public.things DROP CONSTRAINT once; DROP INDEX public.also",
        "UPDATE public.things SET u = 7",
    ],
    "other unique ones": [
        "ALTER TABLE public.things DROP CONSTRAINT once; DROP INDEX public.also",
        "ALTER TABLE public.things ADD CONSTRAINT once UNIQUE (u, id)",
        "CREATE UNIQUE INDEX also ON public.things (v, id)",
        "UPDATE public.things SET u = 7",
    ],
    "new indexes": ["CREATE INDEX plain ON public.things (v)", "CREATE UNIQUE INDEX two ON public.things (n, u)"],
    "no foreign key": [
        "ALTER TABLE public.things DROP CONSTRAINT child",
        "UPDATE public.things SET parent = 5000 WHERE id % 2 = 0",
        "DELETE FROM public.parents WHERE id > 100",
    ],
    "defaults": ["ALTER TABLE public.things ALTER v SET DEFAULT 'b', ALTER w DROP DEFAULT, ALTER n SET DEFAULT 3"],
    "identity": ["ALTER TABLE public.things ALTER id ADD GENERATED BY DEFAULT AS IDENTITY (START 1000)"],
    "a wider type": [
        "ALTER TABLE public.things ALTER n TYPE bigint, DROP CONSTRAINT few",
        "UPDATE public.things SET n = 5000000000 WHERE id % 2 = 0",
    ],
    "another type": ["ALTER TABLE public.things ALTER u TYPE text", "UPDATE public.things SET u = 'x' || id"],
    "columns": [
        "ALTER TABLE public.things ADD c text NOT NULL DEFAULT 'c', ADD g int GENERATED ALWAYS AS (id * 2) STORED",
        "ALTER TABLE public.things RENAME v TO text; ALTER TABLE public.things DROP u",
        "UPDATE public.things SET c = 'new' WHERE id % 2 = 0",
    ],
    "a generated column": ["ALTER TABLE public.things ADD g int GENERATED ALWAYS AS (id * 2) STORED"],
    "what may be null": [
        "ALTER TABLE public.things ALTER w DROP NOT NULL, ALTER v SET NOT NULL",
        "UPDATE public.things SET w = NULL WHERE id % 2 = 0",
    ],
    "another key": [
        "ALTER TABLE public.things DROP CONSTRAINT things_pkey, ADD PRIMARY KEY (w, id)",
        "UPDATE public.things SET w = 2 WHERE id % 2 = 0",
    ],
    "comments": ["COMMENT ON TABLE public.things IS 'x'", "COMMENT ON COLUMN public.things.v IS 'y'"],
}


def normal(pair_of: MakePair, **options: object) -> Rig:
    """A slave that is NORMAL and has followed all definitions."""
    pair = pair_of(block_rows=50, seconds=0.05, interval=0.1, slave_options={"allow_superuser": True}, **options)
    pair.master.execute(TABLES)
    pair.prepare(first := pair.update("first"))
    with pair.apply():
        pair.load_to_normal(first)
        steps.finish(first)
        known = DefinitionStore.of(pair.pair, pair.slave)
        pair.await_that(lambda: len(known.read() or ()) == len(defined(pair)[0]))
    return pair


def leave_out(pair: Rig, how: str) -> None:
    """Makes the slave leave out the table, and waits until its apply knows it."""
    if how == "inconsistent":
        pair.prepare(update := pair.update(tables=["public.things"]))
        steps.cancel(update, pair.store)
        assert pair.checkpoint.tables.not_ready == {THINGS: TableState.INCONSISTENT}
    else:
        with pair.master.transaction():
            Registry(pair.master, pair.replication.prefix, "public").remove(THINGS)
        pair.await_current()


def part(pair: Rig) -> Update:
    """Runs what the DAG does before a load: the task `check`, and the triggers."""
    pair.capture()
    update = pair.update(tables=["public.things"])
    issues = checks.of_slave(
        pair.slave, pair.replication, pair.pair.slave, master=pair.master, covers=update.selection.covers
    )
    assert errors(issues) == []
    return update


def defined(pair: Rig) -> list[dict[ObjectId, str | None]]:
    """The definitions of master and slave beyond columns."""
    tables = [THINGS, READY, PARENTS]
    of_master = OfMaster.read(POSTGRES.schemas, pair.master, tables, tables).made_from
    return [{one.id: one.definition for one in of_master}, by_id(following.present(pair.slave, tables))]


def columns(pair: Rig) -> list[list[tuple[object, ...]]]:
    """The name, default and generation of each column, which matter to those who write to the database."""
    shapes = [catalog.shape(connection, THINGS) for connection in (pair.master, pair.slave)]
    return [
        sorted((one.name, one.default, one.nullable, one.identity, one.generated) for one in shape.columns)
        for shape in shapes
        if shape is not None
    ]


def labels(pair: Rig) -> list[list[tuple[str, list[str]]]]:
    """The enums of columns on either side, with their labels in order."""
    query = (
        "SELECT t.oid::regtype::text, array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_enum e "
        "JOIN pg_type t ON t.oid = e.enumtypid WHERE EXISTS (SELECT FROM pg_attribute a JOIN pg_class c "
        "ON c.oid = a.attrelid WHERE a.atttypid = t.oid AND c.relkind = 'r') GROUP BY 1 ORDER BY 1"
    )
    return [connection.execute(query.encode()).fetchall() for connection in (pair.master, pair.slave)]


@pytest.mark.long
@pytest.mark.parametrize("how", ["inconsistent", "left and came back"])
@pytest.mark.parametrize("change", CHANGES)
def test_one_load_brings_what_changed_while_the_table_was_left_out(pair_of: MakePair, change: str, how: str) -> None:
    pair = normal(pair_of)
    with pair.apply():
        leave_out(pair, how)
        for statement in CHANGES[change]:
            pair.master.execute(statement.encode())
        pair.master.execute("UPDATE public.ready SET v = 'meanwhile'")
        pair.await_current()
        pair.assert_equal([READY, PARENTS])
        pair.prepare(update := part(pair))
        pair.load_to_normal(update)
        steps.finish(update)
        pair.await_current()
        pair.assert_equal()
        # A round that could not do everything is followed by the next one a minute later.
        pair.await_that(lambda: defined(pair)[0] == defined(pair)[1])
        master, slave = columns(pair)
        assert slave == master
        master_labels, slave_labels = labels(pair)
        if how == "inconsistent":
            assert slave_labels == master_labels
        else:  # Nothing told of former names.
            assert all(set(dict(slave_labels)[name]) >= set(found) for name, found in master_labels)
        assert pair.state() is SlaveState.NORMAL and not pair.checkpoint.tables.not_ready


@pytest.mark.long
def test_labels_of_a_table_left_out_that_exchange_their_names_in_one_window_are_distinguished(
    pair_of: MakePair,
) -> None:
    pair = normal(pair_of)
    with pair.apply():
        leave_out(pair, "inconsistent")
    for statement in CHANGES["names that labels exchange"]:
        pair.master.execute(statement.encode())
    with pair.apply():
        pair.await_current()
        master, slave = labels(pair)
        assert slave == master


@pytest.mark.long
def test_labels_that_the_account_may_not_add_are_reported_with_the_statement(
    pair_of: MakePair, postgres: PostgresServer
) -> None:
    pair = normal(pair_of, role=True)
    pair.slave.execute("ALTER TABLE public.things DROP CONSTRAINT child")  # no load of this account passes it
    with pair.apply():
        leave_out(pair, "inconsistent")
        with postgres.connect(pair.slave_info.database) as administrator:
            administrator.execute('ALTER TYPE public."Mood" OWNER TO CURRENT_USER')
        pair.master.execute("ALTER TYPE public.\"Mood\" ADD VALUE 'gay' BEFORE 'o''k'")
        pair.master.execute("UPDATE public.things SET m = 'gay'")
        pair.master.execute("UPDATE public.ready SET v = 'meanwhile'")
        pair.await_current()
        pair.assert_equal([READY])
        update = pair.update(tables=["public.things"])
        with pytest.raises(TablesDiffer, match="lacks on the slave: 'gay'; this account may not add them"):
            pair.prepare(update)
        issues = checks.of_slave(
            pair.slave, pair.replication, pair.pair.slave, master=pair.master, covers=update.selection.covers
        )
        (statement,) = [issue.statement for issue in errors(issues) if issue.statement and "TYPE" in issue.statement]
        assert statement == "ALTER TYPE \"public\".\"Mood\" ADD VALUE IF NOT EXISTS 'gay' AFTER 'sad'"
        with postgres.connect(pair.slave_info.database) as administrator:
            administrator.execute(statement.encode())
        pair.prepare(update := pair.update(tables=["public.things"]))
        pair.load_to_normal(update)
        pair.assert_equal()


@pytest.mark.long
@pytest.mark.parametrize(
    "change", ["labels", "a domain without its check", "a domain that may be null", "no check", "no unique constraint"]
)
@pytest.mark.parametrize("whole", [True, False], ids=["all is loaded", "a table is loaded"])
def test_blocks_wait_for_what_changes_while_they_are_loaded(pair_of: MakePair, change: str, whole: bool) -> None:
    pair = normal(pair_of)
    pair.prepare(update := pair.update() if whole else pair.update(tables=["public.things"]))
    for statement in CHANGES[change]:
        pair.master.execute(statement.encode())
    loading = Background(lambda: pair.load(update))
    until(lambda: not loading.is_alive() or len(pair.blocks("things")) > 1)
    with pair.apply():
        pair.await_normal()
        assert loading.end() is None
        steps.finish(update)
        pair.await_current()
        pair.assert_equal()


@pytest.mark.long
def test_a_table_that_somebody_dropped_on_the_slave_is_made_by_its_load_alone(pair_of: MakePair) -> None:
    pair = normal(pair_of)
    with pair.apply():
        leave_out(pair, "inconsistent")
        pair.slave.execute("DROP TABLE public.things")
        for statement in (*CHANGES["a label's name"], *CHANGES["columns"]):
            pair.master.execute(statement.encode())
        pair.await_current()
        assert catalog.shape(pair.slave, THINGS) is None, "no reader takes an empty table for all of it"
        pair.prepare(update := part(pair))
        pair.load_to_normal(update)
        pair.assert_equal()


def test_two_loaders_may_drop_the_same_check_of_a_domain_at_the_same_time(
    pair_of: MakePair, postgres: PostgresServer
) -> None:
    pair = pair_of()
    pair.slave.execute("CREATE DOMAIN public.small AS int NOT NULL CONSTRAINT least CHECK (VALUE < 1000)")
    small = TableName("public", "small")
    waiting = (
        b"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        b" AND application_name LIKE '%second%' AND state LIKE 'idle in transaction%'"
    )
    for name in ("least", ""):
        check = Defined(DefinedKind.DOMAINS, small, name, "")

        def second(check: Defined = check) -> None:
            with connect(pair.slave_info, application="second", autocommit=True) as session, session.transaction():
                following.drop_at_once(session, check)

        with pair.slave.transaction():
            following.drop_at_once(pair.slave, check)
            other = Background(second)
            with postgres.connect(pair.slave_info.database) as watcher:
                until(lambda: watcher.execute(waiting).fetchone() == (1,))
        assert other.end() is None
