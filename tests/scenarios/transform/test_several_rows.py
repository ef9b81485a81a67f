"""Exits that make several rows of one, on PostgreSQL: loaded, applied, interrupted, compared, repaired, set aside."""

import random
from pathlib import Path

import pytest

from sluice.control.rejects import RejectStore
from sluice.coordination import redis_store
from sluice.load import steps
from sluice.load.transfer import transfer_steps
from sluice.load.transfer.importer import import_in_threads
from sluice.model.compatibility import TablesDiffer
from sluice.model.names import TableName
from sluice.model.reject import RejectStatus
from sluice.preflight.checks import of_transformations
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import Kind, Outcome
from sluice.verify.resync import Action, compare_table, resync
from tests.rig.rig import Rig
from tests.scenarios.initial_files.carrying import exported, location, moved
from tests.scenarios.transform.conftest import MakeShop
from tests.scenarios.transform.people import Writers
from tests.scenarios.transform.several import DDL, LINES, ORDER_LINES, POST_TAGS, TABLES, TAGS, TRUNCATING, WRITES

CUT = (
    b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'sluice DEMO%' "
    b"AND datname = current_database()"
)
"""Ends the apply's sessions on the slave."""
MORE = "UPDATE public.plain SET v = v || '!'"
"""Changes enough for executors."""
ORDERS, POSTS = TableName("public", "orders"), TableName("public", "posts")


def assert_produced(here: Rig) -> None:
    for expected, query in (
        (ORDER_LINES, 'SELECT "Shop", id, item, line FROM public.order_lines'),
        (POST_TAGS, "SELECT id, tag, at FROM public.posts"),
        ("SELECT * FROM public.plain", "SELECT * FROM public.plain"),
    ):
        master, slave = here.master.execute(expected.encode()).fetchall(), here.slave.execute(query.encode()).fetchall()
        assert sorted(map(repr, slave)) == sorted(map(repr, master))


def assert_equal(here: Rig) -> None:
    store = redis_store.connect(here.redis_url)
    for table in (ORDERS, POSTS):
        found = compare_table(here.pair, store, table, CompareOptions())
        assert found.outcome is Outcome.IDENTICAL, found
        assert found.rows_slave == found.rows_master > 0


def test_they_follow_the_master_and_are_compared_and_repaired(shop: MakeShop) -> None:
    here = shop(DDL, TABLES, block_rows=30)
    here.prepare(update := here.update())
    with here.apply() as running:
        with Writers(here, WRITES):
            here.load_to_normal(update)
        here.await_normal_mode(running)
        assert_produced(here)
        for statement in (*WRITES, *TRUNCATING):
            here.master.execute(statement.encode())
        here.await_current()
        assert_produced(here)
        assert_equal(here)
        here.slave.execute(
            "UPDATE public.order_lines SET item = 'mine' WHERE (id, line) IN (SELECT id, max(line) FROM "
            "public.order_lines GROUP BY id ORDER BY id LIMIT 3);"
            "INSERT INTO public.order_lines SELECT \"Shop\", id, 'mine', 99 FROM public.order_lines LIMIT 1;"
            "INSERT INTO public.order_lines VALUES ('nowhere', 1, 'mine', 1);"
            "DELETE FROM public.posts WHERE (id, tag) IN (SELECT id, min(tag) FROM public.posts GROUP BY id LIMIT 4)"
        )
        store = redis_store.connect(here.redis_url)
        orders = resync(here.pair, store, ORDERS, CompareOptions(), Action.REPAIR, 100)
        counts = {kind: rows.count for kind, rows in orders.finding.found.items()}
        assert counts == {Kind.DIFFERENT: 3, Kind.EXTRA: 2, Kind.MISSING: 0}
        assert (orders.repaired, orders.outcome) == (5, Outcome.IDENTICAL)
        posts = resync(here.pair, store, POSTS, CompareOptions(), Action.REPAIR, 100)
        assert (posts.finding.found[Kind.MISSING].count, posts.repaired, posts.outcome) == (4, 4, Outcome.IDENTICAL)
        assert_produced(here)


@pytest.mark.parametrize(
    ("seed", "options"),
    [
        (0, {}),
        pytest.param(1, {"safe_mode": True}, marks=pytest.mark.long),
        pytest.param(2, {"on_conflict": "reject"}, marks=pytest.mark.long),
        pytest.param(3, {"checkpoint": "redis"}, marks=pytest.mark.long),
    ],
)
def test_they_follow_whatever_is_interrupted(shop: MakeShop, seed: int, options: dict[str, object]) -> None:
    dice = random.Random(seed)
    here = shop(DDL, TABLES, block_rows=40, stage=8 if seed % 2 == 0 else 20_000, slave_options=options)
    here.prepare(update := here.update())
    with here.apply():
        here.load_to_normal(update)
    for _ in range(3):
        with here.apply():
            for statement in dice.choices([*WRITES, *TRUNCATING], k=25):
                here.master.execute(statement.encode())
                if dice.random() < 0.3:
                    here.slave.execute(CUT)
    with here.apply() as running:
        here.await_applied(running)
        assert_produced(here)
        assert_equal(here)


@pytest.mark.long
def test_a_part_is_loaded_again_with_all_of_its_rows(shop: MakeShop) -> None:
    here = shop(DDL, TABLES, block_rows=7, policy="keep")
    here.prepare(update := here.update())
    with here.apply():
        here.load_to_normal(update)
        here.slave.execute(
            "UPDATE public.posts SET at = '2000-01-01' WHERE id > 20; DELETE FROM public.posts WHERE tag = 'a b'"
        )
        here.slave.execute("INSERT INTO public.posts SELECT id, 'mine' FROM generate_series(1, 60) id")
        here.slave.execute(
            "INSERT INTO public.order_lines SELECT \"Shop\", id, 'mine', 77 FROM public.order_lines WHERE line = 1"
        )
        for choice in ({"tables": "public.posts", "key_from": "15", "key_to": "50"}, {"tables": "public.orders"}):
            here.prepare(update := here.update(**choice))
            here.load_to_normal(update)
        mine = "SELECT count(*) FROM public.posts WHERE tag = 'mine' AND id >= 15 AND id < 50"
        assert here.slave.execute(mine.encode()).fetchone() == (0,)
        here.prepare(update := here.update(tables="public.posts"))
        here.load_to_normal(update)
        assert_produced(here)
        assert_equal(here)


@pytest.mark.long
def test_files_bring_them_too(shop: MakeShop, tmp_path: Path) -> None:
    here = shop(DDL, TABLES, block_rows=25)
    store, update = redis_store.connect(here.redis_url), here.update()
    carried, manifest = exported(here, update, location(tmp_path / "out"))
    for statement in (*WRITES, *TRUNCATING):
        here.master.execute(statement.encode())
    there = moved(carried, tmp_path / "in")
    assert transfer_steps.examine(update, there) == manifest
    steps.open_gate(update, store)
    with here.apply():
        import_in_threads(update, there, manifest, 2)
        steps.arrive(update, store)
        here.await_normal()
        here.await_current()
        assert_produced(here)
        assert_equal(here)


@pytest.mark.parametrize(
    "stage", [pytest.param(20_000, id="driver"), pytest.param(1, id="executors", marks=pytest.mark.long)]
)
def test_each_row_that_conflicts_is_set_aside_and_later_changes_outdate_it_alone(shop: MakeShop, stage: int) -> None:
    here = shop(DDL, TABLES, stage=stage, slave_options={"on_conflict": "reject"})
    here.prepare(update := here.update())
    with here.apply() as running:
        here.load_to_normal(update)
        here.master.execute("INSERT INTO public.orders VALUES ('S', 1, 'a|b|c|d', '')")
        here.await_normal_mode(running)
        here.slave.execute("UPDATE public.order_lines SET item = 'mine' WHERE \"Shop\" = 'S' AND line < 4")
        here.master.execute(f"{MORE}; UPDATE public.orders SET items = 'A|B|C|D' WHERE shop = 'S'")
        here.await_current()
        store = RejectStore.of(here.pair, here.slave)
        assert [(each.keys, each.outdated is not None) for each in store.open()] == [
            ((f"1:S1:11:{line}",), False) for line in (1, 2, 3)
        ]  # fmt: skip
        rows = "SELECT line, item FROM public.order_lines WHERE \"Shop\" = 'S' ORDER BY 1"
        assert here.slave.execute(rows.encode()).fetchall() == [(1, "mine"), (2, "mine"), (3, "mine"), (4, "D")]
        # The second line is mended by a person: its next change fits, and that of the third one does not.
        here.slave.execute("UPDATE public.order_lines SET item = 'B' WHERE \"Shop\" = 'S' AND line = 2")
        here.master.execute(f"{MORE}; UPDATE public.orders SET items = 'A|2|3|D' WHERE shop = 'S'")
        here.await_current()
        told = [(each.keys[0][-1], each.outdated is not None) for each in store.open()]
        assert sorted(told) == [("1", False), ("2", True), ("3", False), ("3", False)]
        found = resync(here.pair, redis_store.connect(here.redis_url), ORDERS, CompareOptions(), Action.REPAIR, 100)
        assert (found.repaired, found.outcome) == (2, Outcome.IDENTICAL)
        assert [each.keys[0][-1] for each in store.open()] == ["2"]
        assert_produced(here)
        assert {each.status for each in store.open()} == {RejectStatus.SET_ASIDE}


def test_another_replication_makes_rows_of_another_table_of_the_same_rows(shop: MakeShop) -> None:
    first = shop(DDL, {"public.orders": {}})
    more = shop("", {"public.orders": LINES}, prefix="LINES_", master=first.master_info, slave=first.slave_info)
    for here in (first, more):
        here.prepare(update := here.update())
        with here.apply():
            here.load_to_normal(update)
    with first.apply(), more.apply():
        for statement in WRITES:
            first.master.execute(statement.encode())
        first.await_current()
        more.await_current()
    first.assert_equal([ORDERS])
    slave = more.slave.execute('SELECT "Shop", id, item, line FROM public.order_lines').fetchall()
    assert sorted(map(repr, slave)) == sorted(map(repr, more.master.execute(ORDER_LINES.encode()).fetchall()))


def test_changes_of_the_definition_follow_and_what_rewrites_rows_leaves_out_the_table(shop: MakeShop) -> None:
    here = shop(DDL, TABLES, slave_options={"on_error": "isolate"})
    here.prepare(update := here.update())
    with here.apply() as running:
        here.load_to_normal(update)
        here.await_normal_mode(running)
        here.master.execute(
            "ALTER TABLE public.orders ADD COLUMN n int DEFAULT 3; UPDATE public.orders SET n = id WHERE id < 50;"
            "ALTER TABLE public.orders RENAME COLUMN id TO number;"
            "ALTER TABLE public.orders DROP CONSTRAINT orders_pkey, ADD PRIMARY KEY (number);"
            "UPDATE public.orders SET items = 'x|y|' || items, shop = 'moved' WHERE number % 3 = 0;"
            "UPDATE public.orders SET number = number + 1000 WHERE number % 5 = 4"
        )
        here.await_current()
        query = 'SELECT "Shop", number, item, line, n FROM public.order_lines'
        expected = ORDER_LINES.replace("o.id", "o.number").replace("l.line::int", "l.line::int, o.n")
        slave = here.slave.execute(query.encode()).fetchall()
        assert sorted(map(repr, slave)) == sorted(map(repr, here.master.execute(expected.encode()).fetchall()))
        assert len(slave) > 200
        here.master.execute("ALTER TABLE public.posts ALTER COLUMN at TYPE timestamptz USING at + interval '1 day'")
        here.await_that(lambda: POSTS in here.checkpoint.tables)
        here.await_current()
        assert "rewrote rows without saying what they had been" in here.checkpoint.tables.explain(POSTS)
        here.prepare(update := here.update(tables="public.posts"))
        here.load_to_normal(update)
        assert_equal(here)


def test_a_row_that_another_one_displaces_returns_as_the_exit_makes_it(shop: MakeShop) -> None:
    here = shop(DDL, TABLES, slave_options={"safe_mode": True})
    here.prepare(update := here.update())
    with here.apply():
        here.load_to_normal(update)
        here.master.execute(
            "TRUNCATE public.orders; INSERT INTO public.orders VALUES ('S', 1, 'a|b', ''), ('S', 2, 'c', '')"
        )
        here.await_current()
        here.slave.execute("CREATE UNIQUE INDEX one ON public.order_lines (item)")
        here.slave.execute("UPDATE public.order_lines SET item = 'd' WHERE item = 'b'")
        here.master.execute("UPDATE public.orders SET items = 'c|d' WHERE id = 2")
        here.await_current()
        assert_produced(here)


def test_rows_that_triggers_change_once_more_are_followed(shop: MakeShop) -> None:
    """The changes of such a statement come in another order than they happened."""
    here = shop(DDL, TABLES)
    here.master.execute(
        "CREATE FUNCTION public.once_more() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "UPDATE public.posts SET tags = right(tags, -2) WHERE id = NEW.id AND tags LIKE '-;%'; "
        "UPDATE public.posts SET tags = '-;' || right(tags, -2) WHERE id = NEW.id AND tags LIKE '+;%'; "
        'RETURN NULL; END $$; CREATE TRIGGER " first" AFTER INSERT OR UPDATE ON public.posts '
        "FOR EACH ROW EXECUTE FUNCTION public.once_more()"
    )
    here.prepare(update := here.update())
    with here.apply():
        here.load_to_normal(update)
        for statement in (
            "INSERT INTO public.posts SELECT g, '+;x;y' || g FROM generate_series(100, 120) g",
            "UPDATE public.posts SET tags = '+;z;' || tags WHERE id % 2 = 0",
            "BEGIN; UPDATE public.posts SET tags = '+;y;' || id, id = id + 1000 WHERE id > 110; "
            "UPDATE public.posts SET id = id - 1000, tags = '-;w' WHERE id > 1100; COMMIT",
            "UPDATE public.posts SET tags = replace(tags, 'z;', '')",
        ):
            here.master.execute(statement.encode())
            here.await_current()
            assert_produced(here)


@pytest.mark.parametrize(
    ("columns", "line", "told"),
    [
        ("tags text", {**TAGS, "where": "tags <> ''"}, "the key of the master's table, and it has none"),
        ("id int PRIMARY KEY, tags text[]", TAGS, "names tag, which is neither a text nor"),
        ("id int PRIMARY KEY, tags text", {**TAGS, "extra_key": "tags"}, "did you mean tag?"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_changed(
    shop: MakeShop, columns: str, line: dict[str, object], told: str
) -> None:
    here = shop(f"CREATE TABLE public.bare ({columns})", {"public.bare": line})
    (issue,) = of_transformations(here.master, here.replication)
    assert told in issue.why
    with pytest.raises(TablesDiffer) as raised:
        here.prepare(here.update())
    assert told in str(raised.value)
    assert here.tables(here.slave) == []


def test_a_row_for_which_the_exit_fails_is_not_set_aside_alone(shop: MakeShop) -> None:
    here = shop(DDL, TABLES, slave_options={"on_conflict": "reject", "on_error": "isolate"})
    here.prepare(update := here.update())
    with here.apply() as running:
        here.load_to_normal(update)
        here.await_normal_mode(running)
        here.master.execute("UPDATE public.posts SET tags = 'bad' WHERE id = 3; UPDATE public.orders SET items = 'x|y'")
        here.await_current()
        assert "fails for the row id = '3': “ValueError: no such tag”" in here.checkpoint.tables.explain(POSTS)
        assert not RejectStore.of(here.pair, here.slave).open()
        slave = here.slave.execute('SELECT "Shop", id, item, line FROM public.order_lines').fetchall()
        assert sorted(map(repr, slave)) == sorted(map(repr, here.master.execute(ORDER_LINES.encode()).fetchall()))
