"""What PostgreSQL does of itself with a definition is done on MariaDB too, in any order: indexes, keys and foreign keys
go with their columns, follow renames, and come back where the server cannot keep them for a moment."""

import random
from collections.abc import Callable

import pytest

from tests.scenarios.mariadb.definitions_alike import differing
from tests.scenarios.mariadb.rig import Rig

DJANGO = (
    "CREATE TABLE public.auth_permission (id int PRIMARY KEY, name varchar(255) NOT NULL, codename varchar(100), "
    "UNIQUE (name, codename)); "
    "CREATE TABLE public.auth_group (id int PRIMARY KEY, name varchar(150) UNIQUE); "
    "CREATE TABLE public.auth_group_permissions (id int PRIMARY KEY, "
    "group_id int NOT NULL REFERENCES public.auth_group, "
    "permission_id int NOT NULL REFERENCES public.auth_permission, UNIQUE (group_id, permission_id)); "
    "CREATE INDEX by_permission ON public.auth_group_permissions (permission_id); "
    "CREATE TABLE public.page (id int PRIMARY KEY, parent_id int REFERENCES public.page, path text, depth int, "
    "UNIQUE (parent_id, depth)); "
    "INSERT INTO public.auth_permission SELECT n, 'name ' || n, 'code ' || n FROM generate_series(1, 9) AS n; "
    "INSERT INTO public.auth_group VALUES (1, 'editors'), (2, 'others'); "
    "INSERT INTO public.auth_group_permissions SELECT n, 1 + n % 2, n FROM generate_series(1, 9) AS n; "
    "INSERT INTO public.page SELECT n, nullif(n / 2, 0), 'path', n FROM generate_series(1, 9) AS n"
)
MIGRATIONS = [
    # A column goes with its indexes, unique constraints and foreign keys.
    "ALTER TABLE public.auth_group_permissions DROP COLUMN permission_id CASCADE",
    "ALTER TABLE public.auth_group_permissions ADD COLUMN permission_id int NOT NULL DEFAULT 1; "
    "UPDATE public.auth_group_permissions SET permission_id = id; "
    "ALTER TABLE public.auth_group_permissions ADD UNIQUE (id, permission_id); "
    "ALTER TABLE public.auth_group_permissions ADD FOREIGN KEY (permission_id) REFERENCES public.auth_permission",
    # BigAutoField: the key first, what refers to it in the next migration; and both in one.
    "ALTER TABLE public.auth_group ALTER id TYPE bigint",
    "ALTER TABLE public.auth_group_permissions ALTER group_id TYPE bigint",
    "ALTER TABLE public.auth_permission ALTER id TYPE bigint; "
    "ALTER TABLE public.auth_group_permissions ALTER permission_id TYPE bigint",
    "ALTER TABLE public.page ALTER id TYPE bigint, ALTER parent_id TYPE bigint",
    # Names, also within keys.
    "ALTER TABLE public.page RENAME COLUMN parent_id TO above_id",
    "ALTER TABLE public.page RENAME COLUMN id TO page_id",
    "ALTER TABLE public.auth_group RENAME TO editors; ALTER TABLE public.editors RENAME COLUMN id TO editor_id",
    "INSERT INTO public.editors VALUES (3000000000, 'far'); "
    "INSERT INTO public.auth_group_permissions VALUES (100, 3000000000, 5)",
    # Two columns exchange their names; one gets the name of one that goes.
    "ALTER TABLE public.auth_permission RENAME COLUMN name TO passing; "
    "ALTER TABLE public.auth_permission RENAME COLUMN codename TO name; "
    "ALTER TABLE public.auth_permission RENAME COLUMN passing TO codename",
    "UPDATE public.auth_permission SET name = 'after' WHERE id = 3",
    "ALTER TABLE public.page DROP COLUMN path; ALTER TABLE public.page RENAME COLUMN depth TO path; "
    "ALTER TABLE public.page ADD COLUMN depth text DEFAULT 'new'",
    # Keys.
    "ALTER TABLE public.auth_group_permissions DROP COLUMN id; "
    "ALTER TABLE public.auth_group_permissions ADD PRIMARY KEY (permission_id, group_id)",
    "ALTER TABLE public.page DROP CONSTRAINT page_pkey CASCADE; ALTER TABLE public.page ADD PRIMARY KEY (path)",
    "UPDATE public.page SET depth = 'x' WHERE path < 5",
    # A table goes with the foreign keys that refer to it, and comes back as another one.
    "DROP TABLE public.auth_permission CASCADE",
    "CREATE TABLE public.auth_permission (id uuid PRIMARY KEY); "
    "INSERT INTO public.auth_permission VALUES (gen_random_uuid())",
]


def changed(pair: Rig, statement: str) -> None:
    """Makes a change in its own transaction. A new table is captured before it gets rows."""
    if "CREATE TABLE" in statement:
        for each in statement.split("; "):
            pair.master.execute(each.encode())
            if each.startswith("CREATE TABLE"):
                pair.capture()
        return
    with pair.master.transaction():
        pair.master.execute(statement.encode())


def current(pair: Rig) -> None:
    """Waits until the slave has all, also what no trigger reports and a comparison would find a moment later."""
    pair.master.execute("SELECT public.demo_check_structure()")
    pair.await_current(120)


def followed(pair: Rig, statements: list[str]) -> None:
    """Each in its own transaction, while the apply follows; at the end all is equal."""
    update = pair.load()
    with pair.apply() as running:
        pair.await_current()
        pair.finish(update)
        running.await_normal_mode()
        for statement in statements:
            changed(pair, statement)
        current(pair)
        assert pair.differences() == {}, statements
        try:
            pair.await_that(lambda: not differing(pair), 120)
        except AssertionError:
            assert differing(pair) == [], statements


def test_migrations_as_those_of_django_end_equal(rig: Callable[..., Rig]) -> None:
    followed(rig(DJANGO), MIGRATIONS)


class Definitions:
    """A random history of definitions on the master."""

    TYPES = ("int", "bigint", "varchar(20)", "text", "numeric(10,2)", "timestamptz")

    def __init__(self, pair: Rig, chance: random.Random):
        self.pair = pair
        self.chance = chance
        self.number = 0

    def _rows(self, query: str) -> list[tuple[object, ...]]:
        return self.pair.master.execute(query.encode()).fetchall()

    def _table(self) -> str:
        tables = [table.name for table in self.pair.tables()]
        return self.chance.choice(tables)

    def _columns(self, table: str, plain: str = "true") -> list[str]:
        query = (
            f"SELECT a.attname::text FROM pg_attribute AS a WHERE a.attrelid = 'public.{table}'::regclass AND "
            f"a.attnum > 0 AND NOT a.attisdropped AND {plain} ORDER BY 1"
        )
        return [str(name) for (name,) in self._rows(query)]

    def _name(self) -> str:
        self.number += 1
        return f"n{self.number}"

    def one(self) -> str:
        """The next change, which the master takes."""
        kind = self.chance.choice(
            ["add", "drop", "rename", "swap", "replace", "wider", "index", "unique", "refer", "table", "rows", "rows",
             "again", "drop table", "key"]
        )  # fmt: skip
        table = self._table()
        place, columns = f"public.{table}", self._columns(table)
        others = [name for name in columns if name != "id"]
        if kind == "add" or (kind in ("drop", "replace") and len(others) < 2) or (kind == "swap" and len(others) < 2):
            type_ = self.chance.choice(self.TYPES)
            default = {"int": " DEFAULT 7", "varchar(20)": " NOT NULL DEFAULT 'it''s'"}.get(type_, "")
            return f"ALTER TABLE {place} ADD COLUMN {self._name()} {type_}{default}"
        if kind == "drop":
            return f"ALTER TABLE {place} DROP COLUMN {self.chance.choice(others)} CASCADE"
        if kind == "rename":
            return f"ALTER TABLE {place} RENAME COLUMN {self.chance.choice(others or columns)} TO {self._name()}"
        if kind == "swap":
            one, other = self.chance.sample(others, 2)
            renamed = ((one, "passing"), (other, one), ("passing", other))
            return "; ".join(f"ALTER TABLE {place} RENAME COLUMN {old} TO {new}" for old, new in renamed)
        if kind == "replace":
            one, other = self.chance.sample(others, 2)
            return (
                f"ALTER TABLE {place} DROP COLUMN {one} CASCADE; ALTER TABLE {place} RENAME COLUMN {other} TO {one}; "
                f"ALTER TABLE {place} ADD COLUMN {other} int DEFAULT 3"
            )
        if kind == "wider":
            numbers = self._columns(table, "a.atttypid = 'int'::regtype")
            if numbers:
                return f"ALTER TABLE {place} ALTER {self.chance.choice(numbers)} TYPE bigint"
        if kind in ("index", "unique"):
            fitting = self._columns(table, "a.atttypid <> 'text'::regtype")
            some = self.chance.sample(fitting, min(len(fitting), self.chance.randint(1, 2)))
            some = ["id", *(name for name in some if name != "id")] if kind == "unique" else some
            return f"CREATE {'UNIQUE ' if kind == 'unique' else ''}INDEX ON {place} ({', '.join(some)})"
        if kind == "refer":
            parent = self._table()
            return (
                f"ALTER TABLE {place} ADD COLUMN {self._name()} int REFERENCES public.{parent} (id); "
                f"UPDATE {place} SET n{self.number} = id "
                f"WHERE id IN (SELECT id FROM public.{parent}) AND id % 2 = 0 AND id < 1000000"
            )
        if kind == "table":
            return f"ALTER TABLE {place} RENAME TO {self._name()}"
        if kind == "key":
            return (
                f"ALTER TABLE {place} ALTER id TYPE bigint; "
                f"INSERT INTO {place} (id) SELECT 5000000000 + count(*) FROM {place}"
            )
        if kind == "drop table" and len(self.pair.tables()) > 2:
            return f"DROP TABLE {place} CASCADE; CREATE TABLE {place} (id int PRIMARY KEY, n int)"
        return (
            f"INSERT INTO {place} (id) SELECT coalesce(max(id % 1000000), 0) + 1 FROM {place} ON CONFLICT DO NOTHING; "
            f"UPDATE {place} SET {self.chance.choice(others or columns)} = DEFAULT WHERE id % 3 = 0 AND id > 1000000"
        )


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 9))])
def test_any_history_of_definitions_ends_equal(rig: Callable[..., Rig], seed: int) -> None:
    pair = rig(
        "CREATE TABLE public.a (id int PRIMARY KEY, x int, y varchar(20), z int); "
        "CREATE TABLE public.b (id int PRIMARY KEY, a_id int REFERENCES public.a, w numeric(10,2), UNIQUE (a_id, w)); "
        "CREATE TABLE public.c (id int PRIMARY KEY, up int REFERENCES public.c, b_id int REFERENCES public.b); "
        "CREATE INDEX ON public.a (x, y); CREATE INDEX ON public.c (b_id, up); "
        "INSERT INTO public.a SELECT n, n, 'y' || n, -n FROM generate_series(1, 30) AS n; "
        "INSERT INTO public.b SELECT n, n, n FROM generate_series(1, 20) AS n; "
        "INSERT INTO public.c SELECT n, nullif(n / 2, 0), n FROM generate_series(1, 20) AS n"
    )
    history = Definitions(pair, random.Random(seed))
    update = pair.load()
    done: list[str] = []
    with pair.apply() as running:
        pair.await_current()
        pair.finish(update)
        running.await_normal_mode()
        for _ in range(20 if seed == 1 else 60):
            done.append(history.one())
            changed(pair, done[-1])
            if len(done) % 10 == 0:
                current(pair)
                assert pair.differences() == {}, done
        try:
            pair.await_that(lambda: not differing(pair), 120)
        except AssertionError:
            assert differing(pair) == [], done
