"""A role with all rights on its own schema tries random statements; a canary detects code that runs as another account.

Each seed is one attempt; the number of the run decides the seeds (`--run-number`).
"""

import random
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from devstack.postgres import PostgresServer
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from tests.sql.intruder import RUNS_TEXT, Intruder, intruding

VALUES = {
    "bool": ("true", "false"),
    "int": ("1", "7"),
    "text": ("'a'", "'<&' || chr(1)"),
    "varchar(20)": ("'b'", "''"),
    "char(5)": ("'c '", "'d'"),
    "inet": ("'::1'", "'10.0.0.1/8'"),
    "numeric": ("1.50", "'NaN'"),
    "app.evil": ("ROW(1)::app.evil", "ROW(2)::app.evil"),
    "app.evil[]": ("ARRAY[ROW(1)::app.evil]", "'{}'::app.evil[]"),
    "app.mood": ("'sad'", "'ok'"),
    "app.low": ("ROW(3)::app.evil::app.low", "NULL"),
    "app.checked": ("5::app.checked", "NULL"),
    "app.span": ("'[1,2)'::app.span", "NULL"),
    "app.queried": ("'x'", "NULL"),
    "app.measured": ("'[1,2)'::app.measured", "NULL"),
    "app.pair": ("ROW(5, 'x')::app.pair", "NULL"),
}
"""Types of columns, and values as expressions."""
MORE_TYPES = (
    "CREATE TYPE app.mood AS ENUM ('sad', 'ok')",
    "CREATE TYPE app.place AS ENUM ('here', 'there')",
    "CREATE FUNCTION app.from_mood(v app.mood) RETURNS text LANGUAGE plpgsql AS "
    "$$ BEGIN PERFORM app.say('cast of an enum'); RETURN 'x'; END $$",
    "CREATE CAST (app.mood AS text) WITH FUNCTION app.from_mood(app.mood) AS IMPLICIT",
    "CREATE DOMAIN app.low AS app.evil",
    "CREATE FUNCTION app.check_int(n int) RETURNS boolean LANGUAGE plpgsql AS "
    "$$ BEGIN PERFORM app.say('check of a domain'); RETURN true; END $$",
    "CREATE DOMAIN app.checked AS int CHECK (app.check_int(VALUE))",
    "CREATE DOMAIN app.keyed AS app.checked",
    "CREATE TYPE app.span AS RANGE (subtype = float8)",
    "CREATE FUNCTION app.now_true() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS "
    "$$ BEGIN PERFORM app.say('constant part of a key'); RETURN true; END $$",
    "CREATE FUNCTION app.bucket(n int) RETURNS int LANGUAGE sql IMMUTABLE AS "
    "'SELECT CASE WHEN app.now_true() THEN n / 100 END'",
    "CREATE FUNCTION app.slot(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS "
    "$$ BEGIN PERFORM app.say('key or bound'); RETURN n / 100; END $$",
    "CREATE FUNCTION app.below(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS "
    "$$ BEGIN PERFORM app.say('index of a leaf below'); RETURN n; END $$",
    "CREATE DOMAIN app.queried AS text CHECK (VALUE <> 'x' OR "
    "ts_rewrite('a', $q$ SELECT 'a'::tsquery, 'b'::tsquery FROM app.say('query of a domain') $q$) IS NOT NULL)",
    "CREATE FUNCTION app.apart(a float8, b float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS "
    "$$ BEGIN PERFORM app.say('difference of a range'); RETURN a - b; END $$",
    "CREATE TYPE app.measured AS RANGE (subtype = float8, subtype_diff = app.apart)",
    "CREATE TYPE app.pair AS (low app.checked, word app.queried)",
    *(
        f"CREATE FUNCTION app.as_{target}(v app.evil) RETURNS {target} LANGUAGE plpgsql AS "
        f"$$ BEGIN PERFORM app.say('cast to {target}'); RETURN NULL; END $$; "
        f"CREATE CAST (app.evil AS {target}) WITH FUNCTION app.as_{target}(app.evil) AS ASSIGNMENT"
        for target in ("json", "jsonb", "bytea", "name", "bigint")
    ),
    "CREATE CAST (app.evil AS varchar) WITH INOUT AS IMPLICIT",
    "CREATE TABLE app.audit (what text)",
    "CREATE FUNCTION app.audit() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN INSERT INTO app.audit VALUES (TG_OP); RETURN NULL; END $$",
)
DRY = frozenset(("bool", "int", "text", "varchar(20)", "inet", "numeric"))
"""Types of PostgreSQL's own, of which rows can be read again."""
OLDER = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM pg_class LIMIT 1"
KEYS = ("(id / 100)", "app.slot(id)", "app.slot(id)", "app.bucket(id)", "(CASE WHEN app.now_true() THEN id / 100 END)")
"""Expressions of partition keys."""
COLUMNS = ("flag", "v", "ip", "n")
NAMES = (*COLUMNS, "w", "length")
SETTINGS = (
    "sluice.capturing = 'demo_'", "sluice.nested = 'yes'", "sluice.origin = 'OTHER_'", "sluice.truncating = '1'",
    "search_path = app, pg_catalog", "search_path = app, public", "row_security = on", "transform_null_equals = on",
    "standard_conforming_strings = off", "plan_cache_mode = force_custom_plan", "datestyle = 'SQL, DMY'",
    "restrict_nonsystem_relation_kind = ''", "quote_all_identifiers = on", "check_function_bodies = off",
)  # fmt: skip


class Attempt:
    """The statements of one seed; `table` is used by them alone."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.table = f"app.t{seed}"
        self.kind = self.chance.choice(
            ("plain", "row", "row", "parted", "heir", "tree", "tree", "tree", "tree", "listed", "listed")
        )
        # An attempt leaves kinds of statements out: what one of them does would hide what others can do.
        self.types = [kind for kind in VALUES if kind in DRY] if self.chance.random() < 0.4 else list(VALUES)
        self.weights = [weight * self.chance.choice((0, 1, 1, 3)) or 0.1 for weight in (16, 9, 4, 5, 6)]
        self.refuses = self.chance.choice((0, 0, 0.08))
        self.turns = self.chance.choice((0, 0.1, 0.3) if self.kind != "listed" else (0.2, 0.5))
        self.compares = self.chance.choice((0.05, 0.2, 0.4))

    def start(self) -> list[str]:
        pick, table = self.chance.choice, self.table
        columns = ", ".join(f"{name} {pick(self.types)}" for name in COLUMNS)
        key = pick(("PRIMARY KEY", "PRIMARY KEY", "") if self.kind != "tree" else ("PRIMARY KEY", ""))
        number = pick(("int", "int", "app.keyed")) if len(self.types) == len(VALUES) else "int"
        made = {
            "plain": [f"CREATE TABLE {table} (id {number} {key}, {columns})"],
            "row": [
                f"CREATE TABLE {table} (id {number} {key}, {columns})",
                self._others(),
                f"INSERT INTO {table} (id) VALUES (1), (2), (3)",
            ],
            # By its own type: no partition is left out when one of its keys is looked for.
            "listed": [
                f"CREATE TABLE {table} (k app.place DEFAULT 'here', id int, {columns}, PRIMARY KEY (k, id)) "
                "PARTITION BY LIST (k)",
                f"CREATE TABLE {table}_1 PARTITION OF {table} FOR VALUES IN ('here', 'there') PARTITION BY LIST (k)",
                f"CREATE TABLE {table}_1_1 PARTITION OF {table}_1 FOR VALUES IN ('here')",
                *pick(([], [f"CREATE TABLE {table}_1_2 PARTITION OF {table}_1 FOR VALUES IN ('there')"])),
                self._others(),
                f"INSERT INTO {table} (id) VALUES (1), (2), (3), (4), (5)",
            ],
            "parted": [
                f"CREATE TABLE {table} (id {number} {key}, {columns}) PARTITION BY RANGE (id)",
                f"CREATE TABLE {table}_1 PARTITION OF {table} FOR VALUES FROM (0) TO (100)",
                f"CREATE TABLE {table}_2 PARTITION OF {table} FOR VALUES FROM (100) TO (200)",
            ],
            "tree": [
                f"CREATE TABLE {table} (id {number} {key}, {columns}) PARTITION BY RANGE (id)",
                f"CREATE TABLE {table}_1 PARTITION OF {table} FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id)",
                f"CREATE TABLE {table}_1_1 PARTITION OF {table}_1 FOR VALUES FROM (0) TO (50)",
                *(
                    []
                    if key
                    else [
                        f"CREATE TABLE {table}_2 PARTITION OF {table} FOR VALUES FROM (100) TO (200) "
                        f"PARTITION BY LIST ({pick(KEYS)})",
                        f"CREATE TABLE {table}_2_1 PARTITION OF {table}_2 FOR VALUES IN (1)",
                    ]
                ),
                f"INSERT INTO {table} (id) VALUES (1), (2), (3)",
            ],
            "heir": [
                f"CREATE TABLE {table}_parent (id {number}, {columns})",
                f"CREATE TABLE {table} (PRIMARY KEY (id)) INHERITS ({table}_parent)",
            ],
        }[self.kind]
        return [*made, self._others()] if self.kind in ("parted", "tree") and pick((True, False)) else made

    def _others(self) -> str:
        name = self.table.partition(".")[2]
        return (
            f"CREATE OR REPLACE FUNCTION app.others_{name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF pg_trigger_depth() = 1 THEN UPDATE {self.table} SET id = id WHERE id % 2 = 0; "
            "PERFORM set_config('sluice.nested', 'yes', false); END IF; RETURN NULL; END $$; "
            f"CREATE TRIGGER others AFTER INSERT OR UPDATE OR DELETE ON {self.table} "
            f"FOR EACH ROW EXECUTE FUNCTION app.others_{name}()"
        )

    def next(self, intruder: Intruder) -> str:
        """One statement, or several with ;; between them, which the two sessions run by turns; many fail, as they do
        not fit the earlier ones."""
        pick, table = self.chance.choice, self.table
        below = (f"{table}_1", f"{table}_1_1", f"{table}_1_2")
        leaves = {"parted": (f"{table}_1", f"{table}_2"), "tree": below, "listed": below}
        target = pick((table, table, *leaves.get(self.kind, ())))
        if self.chance.random() < self.turns:
            return self._turns()
        if self.kind == "tree" and self.chance.random() < 0.5:
            return self._branch()
        if self.chance.random() < self.refuses:
            return self._refusal(intruder, target)
        column, other = pick(NAMES), pick(NAMES)
        kind = pick(self.types)
        value = pick(VALUES[pick(self.types)])
        (what,) = self.chance.choices(("rows", "columns", "settings", "transactions", "others"), self.weights)
        if what == "rows":
            key = self.chance.randrange(0, 200)
            return pick((
                f"INSERT INTO {target} (id, {column}) VALUES ({key}, {value})",
                f"INSERT INTO {target} (id) SELECT g FROM generate_series({key}, {key + 3}) g",
                f"UPDATE {target} SET {column} = {value}",
                f"UPDATE {target} SET id = id + 1 WHERE id = {key}",
                f"DELETE FROM {target} WHERE id % 3 = {key % 3}",
                f"TRUNCATE {target}",
            ))  # fmt: skip
        if what == "columns":
            return pick((
                f"ALTER TABLE {table} ALTER {column} TYPE {kind} USING NULL",
                f"ALTER TABLE {table} ALTER {column} TYPE {pick(self.types[-8:])} USING NULL",
                f"ALTER TABLE {table} ADD {column} {kind}",
                f"ALTER TABLE {table} ADD {column} uuid DEFAULT gen_random_uuid()",
                f"ALTER TABLE {table} DROP {column}",
                f"ALTER TABLE {table} RENAME {column} TO {other}",
                f"ALTER TABLE {table} ALTER {column} DROP NOT NULL",
            ))  # fmt: skip
        if what == "settings":
            return "SET " + pick(SETTINGS)
        if what == "transactions":
            return pick((
                "BEGIN", OLDER, "COMMIT", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s",
            ))  # fmt: skip
        ours = [name for (name,) in intruder.administrator.rows(
            "SELECT quote_ident(tgname) FROM pg_trigger "
            "WHERE tgrelid = to_regclass(%s) AND NOT tgisinternal ORDER BY 1",
            [table])]  # fmt: skip
        functions = [name for (name,) in intruder.administrator.rows(
            "SELECT oid::regproc::text FROM pg_proc WHERE pronamespace = 'sluice'::regnamespace "
            "AND prorettype = 'trigger'::regtype ORDER BY 1")]  # fmt: skip
        trigger = pick(ours or ["none"])
        place = self.chance.randrange(1, 4)
        return pick((
            f"ALTER TABLE {target} ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON {target} USING (app.boom())",
            f"ALTER TABLE {target} DISABLE ROW LEVEL SECURITY",
            f"CREATE INDEX ON {target} ((id + app.constant(1)))",
            f"CREATE STATISTICS ON (id + app.constant(1)), id FROM {target}",
            f"CREATE INDEX ON {target} ((id + public.mapalgebra(1, 'SELECT 1 FROM app.say(''text of an index'')')))",
            f"ALTER TABLE {table} DISABLE TRIGGER {trigger}", f"ALTER TABLE {table} ENABLE TRIGGER {trigger}",
            f"ALTER TRIGGER {trigger} ON {table} RENAME TO zz{place}", f"DROP TRIGGER {trigger} ON {table}",
            f"CREATE TRIGGER \"A{place}\" AFTER UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION app.audit()",
            f"CREATE TRIGGER again AFTER INSERT ON {target} FOR EACH ROW EXECUTE FUNCTION {pick(functions)}()",
            f"ALTER TABLE {table} DETACH PARTITION {table}_{place}", f"DROP TABLE {table}_{place}",
            f"ALTER TABLE {table} ATTACH PARTITION {table}_{place} FOR VALUES FROM ({place}00) TO ({place + 1}00)",
            f"CREATE TABLE {table}_{place} PARTITION OF {table} FOR VALUES FROM ({place}00) TO ({place + 1}00)",
            f"ALTER TABLE {table} RENAME TO moved; CREATE VIEW {table} AS SELECT *, app.boom() FROM app.moved",
            f"DROP VIEW {table}; ALTER TABLE app.moved RENAME TO {table.partition('.')[2]}",
            f"ALTER TABLE {table}_1 ALTER {column} TYPE app.evil USING NULL",
            f"ALTER TABLE {table} RENAME TO moved; CREATE VIEW {table} AS SELECT id, x.* FROM app.moved, "
            "public.crosstab('SELECT 1, 1, 1 FROM app.say(''query text of a view'')') AS x (n int, v int)",
            f"CREATE TRIGGER again AFTER INSERT ON {target} FOR EACH ROW "
            f"EXECUTE FUNCTION public.check_foreign_key(1, 'cascade', 'id', 'app.audit', 'what')",
            f"ALTER TABLE {target} ENABLE ROW LEVEL SECURITY; CREATE POLICY q ON {target} USING (EXISTS (SELECT FROM "
            "public.crosstab('SELECT 1, 1, 1 FROM app.say(''query text of a policy'')') AS x (n int, v int)))",
            f"INSERT INTO app.moved (id, {column}) VALUES (1, {value})",
        ))  # fmt: skip

    def _refusal(self, intruder: Intruder, target: str) -> str:
        """A statement that takes privileges away, or takes names which the capture will need."""
        pick, account = self.chance.choice, f'"{intruder.master.connection.info.user}"'
        right = pick(("ALL", "ALL", "SELECT", "TRIGGER", "SELECT (id)"))
        stems = intruder.administrator.rows(
            "SELECT trigger_name FROM sluice.demo_tables WHERE schemaname = 'app' ORDER BY 1"
        )
        name = pick(("", "!")) + (stems[0][0] if stems else "none") + pick(("_i", "_u", "_d", "_t", "_g", "_p", "_b"))
        when = pick((
            "AFTER INSERT ON {} FOR EACH ROW", "BEFORE TRUNCATE ON {}", "AFTER UPDATE ON {} FOR EACH STATEMENT",
        ))  # fmt: skip
        return pick((
            f"REVOKE {right} ON {target} FROM {account}", f"REVOKE {right} ON {target} FROM PUBLIC",
            f"REVOKE {right} ON {target} FROM CURRENT_USER", f"GRANT ALL ON {target} TO CURRENT_USER",
            f"REVOKE USAGE ON SCHEMA app FROM {account}", f"GRANT USAGE ON SCHEMA app TO {account}",
            f"GRANT SELECT, TRIGGER ON {target} TO {account}",
            f"GRANT SELECT, TRIGGER ON ALL TABLES IN SCHEMA app TO {account}; GRANT USAGE ON SCHEMA app TO {account}",
            f'CREATE TRIGGER "{name}" {when.format(target)} EXECUTE FUNCTION app.audit()',
            f'CREATE TRIGGER "{name}" {when.format(target)} EXECUTE FUNCTION app.audit()',
            f'DROP TRIGGER "{name}" ON {target}',
        ))  # fmt: skip

    def _turns(self) -> str:
        """What another session does between two statements of one, which has planned the first, or has a snapshot."""
        pick, table = self.chance.choice, self.table
        low, row = pick((0, 50)), pick((1, 2, 3, 4, 5))
        written = f"INSERT INTO {table} (id) VALUES ({low + 7}), ({low + 8}); DELETE FROM {table} WHERE id = {low + 7}"
        removed = f"DELETE FROM {table} WHERE id = {row}" + (" AND k = 'here'" if self.kind == "listed" else "")
        fits = "IN ('there')" if self.kind == "listed" else "FROM (50) TO (100)"
        leaf = f"CREATE TABLE {table}_1_2 PARTITION OF {table}_1 FOR VALUES {fits}"
        between = pick((
            f"CREATE INDEX ON {table} ((id + app.constant(1)))",
            f"{leaf}; CREATE INDEX ON {table}_1_2 ((id + app.below(1)))",
            f"CREATE INDEX ON {table}_1_2 ((id + app.below(1)))",
            *([self._branch(), self._branch()] if self.kind == "tree" else ()),
        ))  # fmt: skip
        return f"{pick((written, removed, OLDER))};;{between};;{pick((removed, removed, written))}"

    def _branch(self) -> str:
        """A statement about a partitioned table below the captured one, or about what stands below that."""
        pick, table, account = self.chance.choice, self.table, "PUBLIC"
        place, leaf = pick((1, 2, 3)), pick((1, 2))
        made = f"CREATE TABLE {table}_{place} PARTITION OF {table} FOR VALUES"
        key = pick(("RANGE (id)", "RANGE (id)", f"LIST ({pick(KEYS)})", f"LIST ({pick(KEYS)})"))
        low = place * 100 - 100
        bounds = pick((f"FROM ({low}) TO ({low + 100})", f"FROM (app.slot({low * 100})) TO (app.below({low + 100}))"))
        half = low + 50 * (leaf - 1)
        fits = f"FROM ({half}) TO ({half + 50})" if key.startswith("RANGE") else f"IN ({place - 1})"
        values = pick((fits, fits, f"FROM ({half}) TO ({half + 50})", f"IN (app.slot({low}))"))
        return pick((
            f"{made} {bounds} PARTITION BY {key}",
            f"{made} {bounds} PARTITION BY {key}; "
            f"CREATE TABLE {table}_{place}_{leaf} PARTITION OF {table}_{place} FOR VALUES {values}",
            f"CREATE TABLE {table}_{place}_{leaf} PARTITION OF {table}_{place} FOR VALUES {values}",
            f"CREATE TABLE {table}_{place}_{leaf} PARTITION OF {table}_{place} FOR VALUES {values}; "
            f"CREATE INDEX ON {table}_{place}_{leaf} ((id + app.below(1)))",
            f"CREATE INDEX ON {table}_{place}_{leaf} ((id + app.below(1)))",
            f"CREATE TABLE {table}_1_2 PARTITION OF {table}_1 FOR VALUES FROM (50) TO (100); "
            f"CREATE INDEX ON {table}_1_2 ((id + app.below(1))); DELETE FROM {table} WHERE id < {10 * leaf}",
            f"INSERT INTO {table} (id) VALUES (7), (8); DELETE FROM {table} WHERE id = 7",
            f"{made} {bounds}",
            f"DROP TABLE {table}_{place}", f"DROP TABLE {table}_{place}", f"DROP TABLE {table}_{place}_{leaf}",
            f"ALTER TABLE {table} DETACH PARTITION {table}_{place}",
            f"ALTER TABLE {table}_{place} DETACH PARTITION {table}_{place}_{leaf}",
            f"ALTER TABLE {table}_{place} ATTACH PARTITION {table}_{place}_{leaf} FOR VALUES {values}",
            f"BEGIN; DROP TABLE {table}_{place}; {made} {bounds}; "
            f"INSERT INTO {table} (id) VALUES ({place * 100 - 30}); COMMIT",
            f"TRUNCATE {table}_{place}", f"INSERT INTO {table} (id) VALUES ({place * 100 - 30})",
            f"DELETE FROM {table} WHERE id < {place * 100}",
            f"REVOKE ALL ON {table}_{place} FROM {account}",
        ))  # fmt: skip

    def run(self, intruder: Intruder, steps: int = 60) -> None:
        """Raises `AssertionError` with all statements so far if something of them ran as another account."""
        done = [*self.start(), "-- captured"]
        intruder.run(*done[:-1])
        intruder.master.register(TableName.parse(self.table))
        sessions = [intruder.session(), intruder.session()]
        for session in sessions:
            session.execute("SET lock_timeout = '100ms'")
        try:
            for _ in range(steps):
                number = self.chance.choice((0, 0, 0, 1))
                for statement in self.next(intruder).split(";;"):
                    idle = all(session.info.transaction_status == 0 for session in sessions)
                    if "STATISTICS" in statement and not idle:
                        continue  # A transaction that does not see it: docs/security.md, limits.
                    done.append(f"{number}: {statement}")
                    _attempt(sessions[number], statement)
                    number = 1 - number
                idle = all(session.info.transaction_status == 0 for session in sessions)
                if idle and self.chance.random() < self.compares:
                    done.append("-- compared")
                    _attempt(intruder.master.connection, f"SELECT {intruder.master.name('check_structure')}()")
                assert not intruder.gained(), "\n".join([*intruder.gained(), *done])
        finally:
            for session in sessions:
                session.close()
            intruder.heard.clear()
        intruder.connection.execute(f"DROP VIEW IF EXISTS {self.table}" if self._is_view(intruder) else "SELECT 1")
        intruder.attempt(f"DROP TABLE IF EXISTS {self.table} CASCADE", "DROP TABLE IF EXISTS app.moved CASCADE")
        _attempt(intruder.master.connection, f"SELECT {intruder.master.name('check_structure')}()")
        intruder.master.register()

    def _is_view(self, intruder: Intruder) -> bool:
        return bool(intruder.administrator.rows(
            "SELECT FROM pg_class WHERE oid = to_regclass(%s) AND relkind = 'v'", [self.table]))  # fmt: skip


def _attempt(connection: psycopg.Connection[tuple[object, ...]], statement: str) -> None:
    try:
        connection.execute(statement)  # type: ignore[call-overload]
    except psycopg.Error:
        if connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
            connection.execute("ROLLBACK")


@pytest.fixture(params=["event triggers", "comparison"])
def intruder(
    request: pytest.FixtureRequest, database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> Iterator[Intruder]:
    with intruding(database, postgres, event_triggers=request.param == "event triggers") as made:
        _prepare(made)
        yield made


def _prepare(intruder: Intruder) -> None:
    intruder.administrator.sql(
        "CREATE EXTENSION tablefunc SCHEMA public", "CREATE EXTENSION refint SCHEMA public", RUNS_TEXT
    )
    intruder.run(*MORE_TYPES)


def test_nothing_that_an_owner_tries_runs_as_another_account(
    intruder: Intruder, request: pytest.FixtureRequest
) -> None:
    for seed in range(2 * request.config.option.run_number, 2 * request.config.option.run_number + 2):
        print(f"seed {seed}")
        Attempt(seed).run(intruder)


@pytest.mark.long
def test_no_statement_of_many_attempts_runs_as_another_account(
    intruder: Intruder, request: pytest.FixtureRequest
) -> None:
    ends = time.monotonic() + request.config.option.intruder_seconds
    seed = 1_000_000 * (1 + request.config.option.run_number % 1000)
    while time.monotonic() < ends:
        seed += 1
        print(f"seed {seed}")
        Attempt(seed).run(intruder)


def _replaced(function: str, old: str, new: str) -> str:
    """A statement that makes a function of ours again, with `new` in place of `old`."""
    return (
        f"DO $do$ DECLARE code text := pg_get_functiondef('sluice.demo_{function}'::regproc); BEGIN "
        f"ASSERT strpos(code, $old${old}$old$) > 0; EXECUTE replace(code, $old${old}$old$, $new${new}$new$); END $do$"
    )


_TRIGGERS = _replaced("unsafe_key", "t.kind = 'p'", "false")
HOLES = {
    "a bound is as PostgreSQL writes it": (
        _TRIGGERS,
        _replaced(
            "rows_of_leaf",
            "SELECT CASE WHEN count(*)",
            "SELECT pg_get_partition_constraintdef(p_leaf) UNION ALL SELECT CASE WHEN count(*)",
        ),
    ),
    "a bound is only looked at": (
        _TRIGGERS,
        _replaced(
            "rows_of_leaf",
            "FROM pg_partition_ancestors(p_leaf)",
            "FROM (SELECT pg_get_partition_constraintdef(p_leaf) OFFSET 0) y CROSS JOIN pg_partition_ancestors(p_leaf)",
        ),
    ),
    "triggers are made on any key": (_TRIGGERS,),
    "a verdict is remembered too long": (
        _replaced("unreadable_since", "THEN", "OR true THEN"),
        _replaced(
            "settle_code",
            '"sluice".demo_partition_tree(p_relid) b',
            "(SELECT unnest(sluice.demo_leaves(p_relid)) AS relid) b",
        ),
    ),
    "an older snapshot decides": (_replaced("is_outdated", "= 'read committed'", "<> ''"),),
}
"""Faults that were found, each made again by changing our functions."""


@pytest.mark.long
@pytest.mark.parametrize("hole", HOLES)
def test_attempts_find_holes_that_were_closed(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer, hole: str, request: pytest.FixtureRequest
) -> None:
    with intruding(database, postgres, event_triggers=False) as intruder:
        _prepare(intruder)
        intruder.master.sql(*HOLES[hole])
        first = 1_000_000 * (1 + request.config.option.run_number % 1000)
        for seed in range(first, first + 400):
            try:
                Attempt(seed).run(intruder)
            except AssertionError as found:
                print(f"{hole}: {seed - first + 1} attempts\n{found}")
                return
    raise AssertionError(f"{hole}: no attempt found it")
