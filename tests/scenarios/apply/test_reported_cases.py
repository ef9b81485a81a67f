"""Situations that users of replication reported in public, on all releases, with event triggers and without.

Each statement ends as on a server without capture, and the slave is equal, or leaves out a table and says why.
`reported.sql` has the cases.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from psycopg import sql

from devstack.postgres import PostgresServer
from devstack.postgres_releases import NEWEST, OLDEST, RELEASES
from devstack.redis import RedisServer
from devstack.rehearse.course import difference
from devstack.rehearse.psql import Psql
from devstack.rehearse.script import Statement
from sluice import sql_files
from sluice.load import steps
from sluice.model.connection import ConnectionInfo
from sluice.verify.rehearsal import Outcome
from tests.rig.rig import Rig, rows_of

WAYS = [
    pytest.param(
        (release, told),
        marks=() if (release, told) == (NEWEST, True) else pytest.mark.long,
        id=f"{release}, {'told' if told else 'by comparison'}",
    )
    for release in RELEASES
    for told in (False, True)
]
OWN = ("demo_", "sluice")
"""Texts in names of Sluice's objects."""
WARNINGS = ("+ WARNING: The triggers that capture", "+ HINT: Afterwards start an initial update of the table")
"""What an event trigger says where triggers are disabled: from there on no change is captured."""
APP = "reported_app"
"""The plain role."""


@dataclass
class Case:
    """See `reported.sql`."""

    since: int = OLDEST
    left_out: dict[str, str] = field(default_factory=dict)
    """Table → a part of the reason."""
    left_out_on_oldest: dict[str, str] = field(default_factory=dict)
    """The same, on the oldest release alone."""
    parts: dict[str, list[str]] = field(default_factory=dict)
    """`before`, `during`, `compare` → statements."""


def cases(text: str) -> dict[str, Case]:
    found = {}
    for section in re.split(r"^-- case ", text, flags=re.MULTILINE)[1:]:
        head, _, body = section.partition("\n")
        name, _, since = head.partition(" since ")
        found[name] = case = Case(int(since or OLDEST))
        case.left_out = dict(re.findall(r"^-- left out (\S+): (.*)$", body, re.MULTILINE))
        case.left_out_on_oldest = dict(re.findall(rf"^-- left out on {OLDEST} (\S+): (.*)$", body, re.MULTILINE))
        for part in re.split(r"^-- (?=before$|during$|compare$)", body, flags=re.MULTILINE)[1:]:
            kind, _, statements = part.partition("\n")
            statements = re.sub(r"^--.*\n", "", statements, flags=re.MULTILINE)
            case.parts[kind] = [one.strip() for one in (statements + "\n").split(";\n") if one.strip()]
    return found


def one_migration(tables: int) -> Case:
    """One transaction changes many tables; others write to them before the comparison has seen anything."""
    names = [f"c46_m{number}" for number in range(tables)]
    before = [
        statement
        for name in names
        for statement in (
            f"CREATE TABLE {name} (id int PRIMARY KEY, n int NOT NULL, q int)",
            f"INSERT INTO {name} SELECT g, g, g FROM generate_series(1, 20) g",
        )
    ]
    altered = [
        f"ALTER TABLE {name} {what}" for name in names for what in ("ADD c int DEFAULT 7", "ALTER q TYPE bigint")
    ]
    written = [
        f"@writer {statement}"
        for name in names
        for statement in (f"UPDATE {name} SET n = n + 1 WHERE id = 1", f"DELETE FROM {name} WHERE id = 2")
    ]
    return Case(parts={"before": before, "during": ["BEGIN", *altered, "COMMIT", *written]})


def settings_of_the_session() -> Case:
    """Definitions and rows under settings that a role or database may have."""
    settings = (
        "enable_nestloop = off", "enable_sort = off", "enable_seqscan = off", "enable_hashjoin = off",
        "enable_indexscan = off", "enable_material = off", "jit_above_cost = 0", "plan_cache_mode = force_generic_plan",
        "from_collapse_limit = 1", "default_transaction_isolation = 'serializable'",
        "default_transaction_isolation = 'repeatable read'", "session_replication_role = local",
        "quote_all_identifiers = on", "xmlbinary = hex", "client_encoding = 'SQL_ASCII'", "lock_timeout = '5s'",
        "temp_buffers = 100", "work_mem = '64kB'", "DateStyle = 'German'", "IntervalStyle = 'sql_standard'",
        "standard_conforming_strings = off", "search_path = pg_temp, public", "row_security = off",
        "plpgsql.extra_errors = 'all'", "plpgsql.variable_conflict = use_variable", "check_function_bodies = off",
    )  # fmt: skip
    during = []
    for number, setting in enumerate(settings):
        during += [
            f"SET {setting}",
            f"ALTER TABLE public.ps_t ADD c{number} int DEFAULT {number}",
            "INSERT INTO public.ps_t (v) SELECT 'v' || g FROM generate_series(1, 15) g",
            "UPDATE public.ps_t SET v = v || '<', d = '2024-02-03', i = '1 day 2:03' WHERE id % 3 = 0",
            "SELECT lastval()",
            f"ALTER TABLE public.ps_part ADD c{number} int DEFAULT {number}",
            f"INSERT INTO public.ps_part (id, v) VALUES ({number}, '\\<')",
            f"CREATE INDEX ON public.ps_t (c{number})",
            "RESET ALL",
        ]
    before = [
        "CREATE TABLE public.ps_t (id serial PRIMARY KEY, v text, d date, i interval)",
        "CREATE TABLE public.ps_part (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE public.ps_part_1 PARTITION OF public.ps_part FOR VALUES FROM (0) TO (100)",
    ]
    return Case(parts={"before": before, "during": during})


CASES = {
    **cases((Path(__file__).parent / "reported.sql").read_text()),
    "c46": one_migration(12),
    "settings": settings_of_the_session(),
}


@dataclass
class Run:
    """A master with the tables of all cases, which a slave follows, and a database with the same without capture."""

    release: int
    rig: Rig
    plain: ConnectionInfo


@pytest.fixture(scope="module", params=WAYS)
def run(
    request: pytest.FixtureRequest,
    server_of_release: Callable[[int], PostgresServer],
    redis_server: RedisServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Run]:
    release, told = request.param
    server = server_of_release(release)
    names = {name: f"reported {name}" for name in ("captured", "plain", "slave")}
    with ExitStack() as stack:
        server.create_role(APP)
        stack.callback(_drop, server, [*names.values()])
        for name in names.values():
            server.create_database(name)
        for name in ("captured", "plain", "slave"):
            with server.connect(names[name]) as connection:
                connection.execute("CREATE SCHEMA reported_elsewhere")
                if name == "slave":
                    continue
                for case in CASES.values():
                    for statement in case.parts["before"] if case.since <= release else ():
                        connection.execute(statement.encode())
        rig = Rig.empty(
            lambda **_: None,  # type: ignore[arg-type, return-value]
            redis_server.url, tmp_path_factory.mktemp("replications"), tables=("public.*", "reported_elsewhere.*"),
            master=server.info(names["captured"]), slave=server.info(names["slave"]), schema="sluice", interval=0.1,
            slave_options={"on_error": "isolate"},
        )  # fmt: skip
        stack.callback(rig.close)
        rig.prepare(update := rig.update())
        if not told:  # which a superuser's installation has made
            rig.master.execute(
                sql_files.render("postgres", "event_triggers_remove", prefix="demo_", schema="sluice").encode()
            )
            rig.master.execute("SELECT sluice.demo_check_structure()")
        assert rig.master.execute("SELECT sluice.demo_has_event_triggers()").fetchone() == (told,)
        with rig.apply():
            rig.load_to_normal(update)
            steps.finish(update)
            yield Run(release, rig, server.info(names["plain"]))


def _drop(server: PostgresServer, names: list[str]) -> None:
    with server.connect() as connection:
        for name in names:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        connection.execute(f"DROP ROLE {APP}".encode())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name == "settings" else ()) for name in CASES]
)
def test_statements_end_as_without_capture_and_the_slave_follows_or_says_what_it_leaves_out(
    run: Run, name: str
) -> None:
    case, rig = CASES[name], run.rig
    if run.release < case.since:
        pytest.skip(f"PostgreSQL {run.release} does not know the statements")
    expected = case.left_out | (case.left_out_on_oldest if run.release == OLDEST else {})
    assert differences(rig.master_info, run.plain, case) == {}
    rig.master.execute("SELECT sluice.demo_tell_unseen()")
    rig.master.execute("SELECT sluice.demo_check_structure()")
    rig.await_that(lambda: expected.keys() <= {table.name for table in rig.checkpoint.tables})
    rig.await_current()
    stem = case.parts["before"][0].split()[2].split("_")[0].removeprefix("public.") + "_"
    states = rig.checkpoint.tables
    left_out = {table.name: states.explain(table) for table in states if table.name.startswith(stem)}
    assert left_out.keys() == expected.keys(), left_out
    assert all(reason in left_out[table] for table, reason in expected.items()), left_out
    for query in case.parts.get("compare", ()) if expected == case.left_out else ():
        assert rig.slave.execute(query.encode()).fetchall() == rig.master.execute(query.encode()).fetchall()
    different = {
        str(table): (rows_of(rig.master, table, rig.master), rows_of(rig.slave, table, rig.master))
        for table in rig.tables(rig.master)
        if table.name.startswith(stem) and table.name not in expected and "compare" not in case.parts
        if rows_of(rig.master, table, rig.master) != rows_of(rig.slave, table, rig.master)
    }
    assert different == {}


def differences(captured: ConnectionInfo, plain: ConnectionInfo, case: Case) -> dict[str, list[str]]:
    """The statements of a case that end otherwise on the captured database, and how."""
    found = {}
    ends = [outcomes(info, case) for info in (plain, captured)]
    for step, *both in zip(case.parts["during"], *ends, strict=True):
        if lines := [line for line in difference(*both, OWN) if not line.startswith(WARNINGS)]:
            found[step] = lines
    return found


def outcomes(info: ConnectionInfo, case: Case) -> list[Outcome]:
    """How each statement of a case ends, in the session that it names."""
    with ExitStack() as stack:
        sessions: dict[str, Psql] = {}
        found = []
        for line, step in enumerate(case.parts["during"], 1):
            name, statement = step[1:].split(" ", 1) if step.startswith("@") else ("", step)
            if name not in sessions:
                # A session that waits for another one of this case would wait forever.
                limited = {"PGOPTIONS": "-c statement_timeout=20s"}
                sessions[name] = made = stack.enter_context(Psql(info, more=limited))
                if name == "app":
                    made.run(Statement(f"SET SESSION AUTHORIZATION {APP};", 0))
            found.append(sessions[name].run(Statement(f"{statement}\n;", line)))
        return found
