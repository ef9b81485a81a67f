"""A new replication from the page: both ends are tested, tables listed with what `check` says, the file drafted."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sluice import config
from sluice.airflow.pages.new_pages import Chosen, NotChosen, examined, offered, proven
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo
from sluice.operate.replication_file import put
from sluice.vendors.postgres.connection import connect
from tests.airflow_connections import connect_airflow
from tests.errors import raises_code

ODD = '"Odd ""S"".x"'
CHOSEN = Chosen("shop", "postgres:m", (("dr1", "postgres:s"), ("dr2", "postgres:t")))


@pytest.fixture
def ends(
    database: Callable[..., ConnectionInfo], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, ConnectionInfo]:
    """A master and two slaves; the account of the replication may do little. Returns the administrator's log-ins."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    infos = {name: database() for name in ("m", "s", "t")}
    with connect(infos["m"], application="test", autocommit=True) as master:
        master.execute(
            f"""DROP ROLE IF EXISTS new_page; CREATE ROLE new_page LOGIN PASSWORD 'p'; CREATE SCHEMA {ODD};
            CREATE TABLE public.orders (id int PRIMARY KEY); CREATE TABLE public."a*b.c" (id int);
            CREATE TABLE {ODD}."Select" (id int PRIMARY KEY);
            INSERT INTO public.orders SELECT generate_series(1, 1000); ANALYZE public.orders;
            GRANT USAGE ON SCHEMA {ODD} TO new_page; GRANT SELECT ON {ODD}."Select" TO new_page""".encode()
        )
    for name, info in infos.items():
        connect_airflow(monkeypatch, name, replace(info, user="new_page", password="p"))
    return infos


def test_tables_are_listed_with_sizes_and_what_check_says_of_each(ends: dict[str, ConnectionInfo]) -> None:
    found = examined(CHOSEN)
    assert [(side.name, side.trouble) for side in found.sides] == [("master", ""), ("dr1", ""), ("dr2", "")]
    tables = {str(one.table): one for one in found.tables}
    assert tables["public.orders"].rows == 1000 and tables["public.orders"].bytes > 8000
    assert any("SELECT, TRIGGER on" in issue.what for issue in tables["public.orders"].issues)
    assert [issue.what for issue in tables[f'{ODD}."Select"'].issues] == [f'TRIGGER on {ODD}."Select"']
    assert set(found.schemas) == {"public.*", f"{ODD}.*"}


def test_an_end_that_does_not_answer_is_named_and_nothing_is_listed(
    ends: dict[str, ConnectionInfo], monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_airflow(monkeypatch, "s", replace(ends["s"], port=1))
    found = examined(replace(CHOSEN, slaves=(*CHOSEN.slaves, ("dr3", "postgres:nothing"))))
    assert [bool(side.trouble) for side in found.sides] == [False, True, False, True] and not found.tables
    with pytest.raises(Terminal, match=r"dr1: .*"):
        proven(replace(CHOSEN, tables=("public.*",)))


def test_the_file_is_written_for_the_chosen_tables_once_nothing_is_lacking(ends: dict[str, ConnectionInfo]) -> None:
    wish = replace(CHOSEN, tables=("public.*", '"public"."orders"', f'{ODD}."Select"'))
    with pytest.raises(Terminal, match="lacking"):
        proven(wish)
    for _ in range(3):  # what is shown can be copied and run
        for issue in examined(CHOSEN).issues:
            side = {"master": "m", "slave dr1": "s", "slave dr2": "t"}[issue.side]
            with connect(ends[side], application="test", autocommit=True) as administrator:
                administrator.execute((issue.statement or "").encode())
    put(*proven(wish))
    made = config.load("SHOP_")
    assert made.master.conn_id == "m" and [one.conn_id for one in made.slaves.values()] == ["s", "t"]
    assert [str(rule.pattern) for rule in made.tables] == ["public.*", f'{ODD}."Select"']
    with raises_code("file-in-use", match="configured in"):
        examined(CHOSEN)


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        (replace(CHOSEN, name=""), "a name"),
        (replace(CHOSEN, master=""), "the master"),
        (replace(CHOSEN, slaves=()), "Choose a slave"),
        (replace(CHOSEN, slaves=(("dr1", ""),)), "both a name and a connection"),
        (replace(CHOSEN, slaves=(("a", "x:y"), ("a", "x:z"))), "same name"),
    ],
)
def test_what_is_not_chosen_is_asked_for(wish: Chosen, why: str) -> None:
    with pytest.raises(NotChosen, match=why):
        examined(wish)


class Listing:
    """Airflow's API with 101 connections."""

    def get(self, path: str, **query: int) -> object:
        kinds = ["postgres", "aws", "generic", *["mysql"] * 98]
        rows = [{"connection_id": f"c{n}", "conn_type": kind, "host": "h", "port": 1} for n, kind in enumerate(kinds)]
        return {"connections": rows[query["offset"] : query["offset"] + query["limit"]]}

    def call(self, method: str, path: str, body: object = None) -> object:
        raise AssertionError(path)


def test_connections_of_databases_are_offered_by_what_they_may_lead_to() -> None:
    found = offered(Listing())
    assert [one.value for one in found if one.conn_id == "c0"] == ["postgres:c0"]
    assert {one.vendor for one in found if one.conn_id == "c2"} == {"postgres", "mysql", "oracle"}
    assert len(found) == 1 + 3 + 98 and found[0].address == "h:1/"
