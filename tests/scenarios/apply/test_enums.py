"""Enums change on the slave as on the master, before the first row that uses the change."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from sluice.vendors.postgres.connection import connect
from tests.rig.loaders import Background
from tests.rig.rig import Rig
from tests.waiting import until

MOOD = "CREATE TYPE public.\"Mood\" AS ENUM ('sad', 'o''k')"
TABLES = (
    f'{MOOD}; CREATE DOMAIN public.feeling AS public."Mood"; CREATE TYPE public.pair AS (a int, b public."Mood");'
    "CREATE TABLE public.plain (id int PRIMARY KEY, m public.\"Mood\" DEFAULT 'sad');"
    'CREATE TABLE public.inside (id int PRIMARY KEY, a public."Mood"[], d public.feeling, p public.pair)'
)

CASES: dict[str, list[str]] = {
    "a label is added and used": [
        "ALTER TYPE public.\"Mood\" ADD VALUE 'happy'",
        "INSERT INTO public.plain VALUES (10, 'happy')",
        "UPDATE public.plain SET m = 'happy' WHERE id = 1",
    ],
    "labels are added at places": [
        "ALTER TYPE public.\"Mood\" ADD VALUE 'first' BEFORE 'sad'",
        "ALTER TYPE public.\"Mood\" ADD VALUE 'be<tw>een' AFTER 'sad'",
        "ALTER TYPE public.\"Mood\" ADD VALUE '\"la&st\"' AFTER 'o''k'",
        "INSERT INTO public.plain SELECT 100 + n, m "
        'FROM unnest(enum_range(NULL::public."Mood")) WITH ORDINALITY u (m, n)',
    ],
    "a label is used inside other types": [
        "ALTER TYPE public.\"Mood\" ADD VALUE 'happy'",
        "INSERT INTO public.inside VALUES (10, '{happy,sad}', 'happy', '(1,happy)')",
    ],
    "a label is renamed": [
        "INSERT INTO public.plain VALUES (10, 'sad')",
        "ALTER TYPE public.\"Mood\" RENAME VALUE 'sad' TO 'blue'",
        "UPDATE public.plain SET m = 'o''k' WHERE id = 1",
        "INSERT INTO public.plain VALUES (11, 'blue')",
        "DELETE FROM public.plain WHERE id = 10",
    ],
    "labels are renamed and added": [
        "ALTER TYPE public.\"Mood\" RENAME VALUE 'sad' TO 'blue'",
        "ALTER TYPE public.\"Mood\" ADD VALUE 'sky' AFTER 'blue'",
        "INSERT INTO public.plain VALUES (11, 'blue'), (12, 'sky')",
        "ALTER TYPE public.\"Mood\" RENAME VALUE 'o''k' TO 'fine'",
        "UPDATE public.plain SET m = 'fine'",
    ],
    "a label is renamed and another one gets its name": [
        "INSERT INTO public.plain VALUES (10, 'sad')",
        "ALTER TYPE public.\"Mood\" RENAME VALUE 'sad' TO 'former'",
        "ALTER TYPE public.\"Mood\" ADD VALUE 'sad' BEFORE 'former'",
        "INSERT INTO public.plain VALUES (11, 'former'), (12, 'sad')",
        "UPDATE public.plain SET m = 'sad' WHERE id = 2",
    ],
    "labels exchange their names": [
        "ALTER TYPE public.\"Mood\" RENAME VALUE 'sad' TO 'between'",
        "ALTER TYPE public.\"Mood\" RENAME VALUE 'o''k' TO 'sad'",
        "ALTER TYPE public.\"Mood\" RENAME VALUE 'between' TO 'o''k'",
        "INSERT INTO public.plain VALUES (11, 'sad')",
        "UPDATE public.plain SET m = 'sad' WHERE id = 1",
    ],
    "the type is renamed and extended": [
        'ALTER TYPE public."Mood" RENAME TO moods',
        "ALTER TYPE public.moods ADD VALUE 'happy'",
        "INSERT INTO public.plain VALUES (10, 'happy')",
    ],
    "a column of a new type is added": [
        "CREATE TYPE public.color AS ENUM ('red', 'green')",
        "ALTER TABLE public.plain ADD c public.color DEFAULT 'red'",
        "UPDATE public.plain SET c = 'green' WHERE id = 1",
        "ALTER TYPE public.color ADD VALUE 'blue'",
        "INSERT INTO public.plain VALUES (10, 'sad', 'blue')",
    ],
}


@pytest.mark.one_in(60)
@pytest.mark.parametrize("told", [True, False], ids=["event triggers", "comparison"])
@pytest.mark.parametrize("when", ["while applying", "before applying", "in a large window"])
@pytest.mark.parametrize("case", CASES)
def test_enums_are_followed(rig: Callable[..., Rig], case: str, when: str, told: bool) -> None:
    pair = rig(TABLES)
    if not told:
        pair.master.execute("DROP EVENT TRIGGER " + ", ".join(_event_triggers(pair)))
        pair.master.execute("SELECT public.demo_check_structure()")
    rows = 21_000 if when == "in a large window" else 5
    pair.master.execute(f"INSERT INTO public.plain SELECT -g, 'sad' FROM generate_series(1, {rows}) g".encode())
    pair.master.execute("INSERT INTO public.plain VALUES (1, 'sad'), (2, 'o''k')")
    pair.master.execute("INSERT INTO public.inside VALUES (1, '{sad}', 'sad', '(1,sad)')")

    def change() -> None:
        for statement in CASES[case]:
            pair.master.execute(statement.encode())

    if when != "while applying":
        change()
    with pair.apply() as running:
        if when == "while applying":
            pair.await_current()
            pair.await_that(lambda: running.in_normal_mode)
            change()
        pair.await_current()
        assert pair.differences() == {}
    assert _enums(pair.master) == _enums(pair.slave)


RETYPED = "ALTER TABLE public.plain ALTER m TYPE public.{0} USING m::text::public.{0}"
REPLACED = {
    "the old one is dropped first": (
        RETYPED.format("new"), "DROP TYPE public.old", "ALTER TYPE public.new RENAME TO old"),
    "the old one is renamed last": (
        RETYPED.format("new"), "ALTER TYPE public.old RENAME TO former", "ALTER TYPE public.new RENAME TO old",
        "DROP TYPE public.former"),
    "the old one is renamed first": (
        "ALTER TYPE public.old RENAME TO former", "ALTER TYPE public.new RENAME TO old", RETYPED.format("old"),
        "DROP TYPE public.former"),
    "the new one is made under its name": (
        "DROP TYPE public.new", "ALTER TYPE public.old RENAME TO former", "CREATE TYPE public.old AS ENUM ('x', 'z')",
        RETYPED.format("old"), "DROP TYPE public.former"),
}  # fmt: skip
"""What migration tools do where they cannot drop a label."""


@pytest.mark.parametrize("way", REPLACED)
def test_a_type_takes_the_name_of_the_one_that_it_replaces_within_a_transaction(
    rig: Callable[..., Rig], way: str
) -> None:
    made = "CREATE TYPE public.old AS ENUM ('x', 'y'); CREATE TABLE public.plain (id int PRIMARY KEY, m public.old)"
    pair = rig(made)
    with pair.apply() as running:
        pair.master.execute("INSERT INTO public.plain VALUES (1, 'x'), (2, NULL)")
        pair.await_normal_mode(running)
        for _ in range(2):  # what is left of the first time is in the way of nothing
            with pair.master.transaction():
                pair.master.execute("CREATE TYPE public.new AS ENUM ('x', 'z')")
                for statement in REPLACED[way]:
                    pair.master.execute(statement.encode())
                pair.master.execute("UPDATE public.plain SET m = 'z' WHERE id = 2")
            pair.await_current()
            assert pair.differences() == {} and not pair.checkpoint.tables.not_ready


@pytest.mark.one_in(2)
@pytest.mark.parametrize("told", [True, False], ids=["event triggers", "comparison"])
def test_rows_written_while_a_label_is_renamed_arrive(rig: Callable[..., Rig], told: bool) -> None:
    pair = rig(TABLES)
    if not told:
        pair.master.execute("DROP EVENT TRIGGER " + ", ".join(_event_triggers(pair)))
        pair.master.execute("SELECT public.demo_check_structure()")
    pair.master.execute("INSERT INTO public.plain VALUES (1, 'sad'), (2, 'o''k')")
    pair.master.execute("INSERT INTO public.inside VALUES (1, '{sad}', 'sad', '(1,sad)')")
    write = (
        "INSERT INTO public.plain SELECT 10 + id, m FROM public.plain;"
        "INSERT INTO public.inside SELECT 10 + id, a, d, p FROM public.inside"
    )
    with pair.apply() as running, connect(pair.pair.master_info, application="test") as other:
        pair.await_applied(running)
        other.execute("ALTER TYPE public.\"Mood\" RENAME VALUE 'sad' TO 'blue'")
        # By a session that does not see the new name yet.
        writer = Background(lambda: pair.master.execute(write))
        until(lambda: not writer.is_alive() or _waits_for_a_lock(other))
        other.execute("INSERT INTO public.plain VALUES (3, 'blue')")
        other.commit()
        assert writer.end() is None
        pair.await_applied(running)
        assert pair.differences() == {}
    assert _enums(pair.master) == _enums(pair.slave)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("moment", ["before the change", "after it"])
def test_a_long_transaction_does_not_block_renaming_a_label(rig: Callable[..., Rig], moment: str) -> None:
    pair = rig(TABLES)
    with connect(pair.pair.master_info, application="test") as other:
        other.execute("INSERT INTO public.plain VALUES (1, 'sad')")
        pair.master.execute("ALTER TYPE public.\"Mood\" RENAME VALUE 'sad' TO 'blue'")
        if moment == "after it":
            other.execute("INSERT INTO public.plain VALUES (2, 'blue')")
        other.commit()
    with pair.apply():
        pair.await_current()
        assert pair.differences() == {}


def _waits_for_a_lock(connection: psycopg.Connection[Any]) -> bool:
    found = connection.execute(
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')"
    )
    return found.fetchone() == (True,)


def _event_triggers(pair: Rig) -> list[str]:
    return [name for (name,) in pair.master.execute("SELECT quote_ident(evtname) FROM pg_event_trigger").fetchall()]


def _enums(connection) -> list[tuple[str, list[str]]]:  # type: ignore[no-untyped-def]
    found: list[tuple[str, list[str]]] = connection.execute(
        "SELECT t.typname, array_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e "
        "JOIN pg_type t ON t.oid = e.enumtypid GROUP BY 1 ORDER BY 1"
    ).fetchall()
    return found
