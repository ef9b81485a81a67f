"""Tables that MariaDB cannot create: found by the task `check`, by table and column, with a remedy in the
configuration, before anything is changed; or made so that it can."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from devstack.account import new_folder
from devstack.mariadb import MariaDBServer
from sluice.airflow.steps_master import check
from sluice.airflow.task_context import TaskContext
from sluice.model.compatibility import TablesDiffer
from sluice.model.connection import ConnectionInfo
from sluice.preflight.checks import NotReady
from sluice.vendors.mysql.connection import connect as connect_slave
from sluice.vendors.postgres.connection import connect
from tests.airflow_connections import connect_airflow
from tests.conftest import MARIADB_SETTINGS
from tests.scenarios.mariadb.rig import Rig
from tests.scenarios.mariadb.test_conflicts import begun

DURABLE = "innodb_flush_log_at_trx_commit"
LONG = "a" * 63
TOO_MUCH = {
    "case": 'CREATE TABLE public.case_ ("Id" int PRIMARY KEY, id int, fine int)',
    "accents": 'CREATE TABLE public.accents (id int PRIMARY KEY, "Ärger" int, "ärger" int)',
    "blank": 'CREATE TABLE public.blank (id int PRIMARY KEY, "name " text, "other\t" text)',
    "emoji": 'CREATE TABLE public.emoji (id int PRIMARY KEY, "😀" text, "x🦆" int)',
    "own": 'CREATE TABLE public.own (id int PRIMARY KEY, "DB_ROW_ID" int, "DB_TRX_ID" int)',
    "texts": f"CREATE TABLE public.texts (id int PRIMARY KEY, {', '.join(f'f{n} text' for n in range(450))})",
    "columns": f"CREATE TABLE public.columns (id int PRIMARY KEY, {', '.join(f'f{n} int' for n in range(1100))})",
    "table": 'CREATE TABLE public."t😀" (id int PRIMARY KEY)',
    "table blank": 'CREATE TABLE public."t " (id int PRIMARY KEY)',
}
"""A statement of the master for each fault."""
SAID = {
    "case": ("to the server the columns 'Id', 'id' have one name", "rename"),
    "accents": ("'Ärger', 'ärger' have one name", "rename"),
    "blank": ("column 'name '", "rename"),
    "emoji": ("column '😀'", "column 'x🦆'", "rename"),
    "own": ("column 'DB_ROW_ID'", "rename"),
    "texts": ("Row size too large", "exclude"),
    "columns": ("Too many columns", "exclude"),
    "table": ("beyond U+FFFF", "target"),
    "table blank": ("ends with a blank", "target"),
}
FITTING = (
    f"CREATE TABLE public.wide (id int PRIMARY KEY, {', '.join(f'f{n} varchar(255)' for n in range(70))}); "
    f"CREATE TABLE public.images (id int PRIMARY KEY, {', '.join(f'f{n} varchar(255)' for n in range(60))}); "
    f"CREATE TABLE public.texts (id int PRIMARY KEY, {', '.join(f'f{n} text' for n in range(250))}); "
    f"CREATE TABLE public.many (id int PRIMARY KEY, {', '.join(f'f{n} int' for n in range(900))}); "
    f'CREATE TABLE public."{LONG}" ("{LONG}" int PRIMARY KEY, "select" int, "é" int, " e" int, "a.b" text); '
    "CREATE TABLE public.keys (a text, b text, c numeric(65), d uuid, e text UNIQUE, PRIMARY KEY (a, b, c, d)); "
    "CREATE TABLE public.defaults (id int PRIMARY KEY DEFAULT length('x'), "
    "at timestamptz DEFAULT now() - interval '1 d', t text DEFAULT 'a' || 'b', u uuid DEFAULT gen_random_uuid()); "
    "CREATE TABLE public.owner (id int PRIMARY KEY); "
    "CREATE TABLE public.cat (id int PRIMARY KEY, owner int CONSTRAINT owner_fk REFERENCES public.owner); "
    "CREATE TABLE public.dog (id int PRIMARY KEY, owner int CONSTRAINT owner_fk REFERENCES public.owner)"
)
ROWS = [
    "INSERT INTO public.wide (id, f1, f69) SELECT n, 'a', repeat('é', 255) FROM generate_series(1, 9) AS n",
    f"INSERT INTO public.images SELECT n, {', '.join(['repeat(chr(233), 255)'] * 60)} FROM generate_series(1, 9) AS n",
    f"INSERT INTO public.texts SELECT n, {', '.join(['repeat(chr(120), 100)'] * 250)} FROM generate_series(1, 9) AS n",
    "INSERT INTO public.many (id, f0, f899) SELECT n, n, n FROM generate_series(1, 9) AS n",
    f"INSERT INTO public.\"{LONG}\" SELECT n, n, n, n, 'x' FROM generate_series(1, 9) AS n",
    "INSERT INTO public.keys SELECT 'a', 'b' || n, n, gen_random_uuid(), 'e' || n FROM generate_series(1, 9) AS n",
    "INSERT INTO public.defaults (id) SELECT n FROM generate_series(1, 9) AS n",
    "INSERT INTO public.owner VALUES (1); INSERT INTO public.cat VALUES (1, 1); INSERT INTO public.dog VALUES (1, 1)",
]
CHANGES = [
    f"UPDATE public.wide SET {', '.join(f'f{n} = repeat(chr(252), 255)' for n in range(70))} WHERE id < 5",
    f"UPDATE public.images SET {', '.join(f'f{n} = f{n} || NULL' for n in range(60))} WHERE id < 5",
    f"UPDATE public.images SET {', '.join(f'f{n} = repeat(chr(252), 255)' for n in range(60))} WHERE id > 3",
    f"UPDATE public.texts SET {', '.join(f'f{n} = repeat(chr(121), 100)' for n in range(250))} WHERE id > 3",
    f"UPDATE public.many SET {', '.join(f'f{n} = {n}' for n in range(900))} WHERE id > 3",
    "UPDATE public.keys SET a = 'x', e = NULL WHERE c > 4",
    "DELETE FROM public.wide WHERE id = 3",
]


@pytest.mark.long
def test_what_fits_is_made_loaded_and_followed_also_where_texts_of_a_row_do_not_fit_into_one(
    rig: Callable[..., Rig],
) -> None:
    pair = begun(rig, f"{FITTING}; {'; '.join(ROWS)}", compare_values="true")
    assert pair.differences() == {}
    with pair.apply() as running:
        running.await_normal_mode()
        for change in CHANGES:
            pair.master.execute(change.encode())
            pair.await_current()
        assert pair.differences() == {}
        assert pair.rejects.open() == []
        keys = "SELECT table_name FROM information_schema.table_constraints WHERE constraint_type = 'FOREIGN KEY' AND "
        keys += "table_schema = DATABASE() ORDER BY 1"
        pair.await_that(lambda: pair.slave.run(keys).fetchall() == [("cat",), ("dog",)])
        # Both follow the master, also under the name that one has only there.
        pair.master.execute("ALTER TABLE public.cat DROP CONSTRAINT owner_fk")
        pair.master.execute("ALTER TABLE public.dog DROP CONSTRAINT owner_fk")
        pair.await_that(lambda: pair.slave.run(keys).fetchall() == [])


@pytest.fixture
def server_that_commits_to_disk(mariadb_server: MariaDBServer) -> Iterator[MariaDBServer]:
    with mariadb_server.connect() as admin, admin.cursor() as cursor:
        cursor.execute(f"SET GLOBAL {DURABLE} = 1")
        yield mariadb_server
        cursor.execute(f"SET GLOBAL {DURABLE} = 0, innodb_force_primary_key = OFF")


@pytest.fixture
def checked(
    database: Callable[..., ConnectionInfo],
    server_that_commits_to_disk: MariaDBServer,
    mariadb: Callable[[], ConnectionInfo],
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., str]:
    """Runs the task for the master's statements; what it refuses, "" for nothing. `lines`: of the tables. `other`: a
    slave on another server."""
    master, slave = database(role=True), mariadb()
    connect_airflow(monkeypatch, "m", master)
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)

    def run(*statements: str, lines: str = "public.*: {}", other: ConnectionInfo | None = None) -> str:
        there = other or slave
        connect_airflow(monkeypatch, "s", there)
        with connect(master, application="test", autocommit=True) as session:
            for statement in statements:
                session.execute(statement.encode())
        (tmp_path / "SHOP.yaml").write_text(
            "prefix: SHOP_\nmaster: {conn_id: m}\nslaves: {dr1: {conn_id: s, vendor: mysql}}\n"
            f"tables:\n  {lines}\n",
            encoding="utf-8",
        )
        dag, params = SimpleNamespace(dag_id="initial_update"), {"prefix": "SHOP_", "slave": "dr1"}
        context = {"params": params, "dag": dag, "ti": SimpleNamespace(task_id="check"), "run_id": "manual__1"}
        try:
            check.body(TaskContext.of(context))
        except NotReady as refused:
            return str(refused)
        finally:
            with connect_slave(there, application="test") as session:
                assert session.run("SHOW TABLES").fetchall() == []
        return ""

    return run


def test_each_fault_is_named_with_table_column_and_remedy_and_nothing_is_changed(checked: Callable[..., str]) -> None:
    said = checked(*TOO_MUCH.values(), "CREATE TABLE public.fine (id int PRIMARY KEY)")
    assert "1 thing is lacking" in said and "public.fine" not in said
    for name, texts in SAID.items():
        (table,) = re.findall(r"CREATE TABLE public\.(\S+|\"[^\"]+\") \(", TOO_MUCH[name])
        for text in (f"public.{table}", *texts):
            assert text in said, (name, text, said)


def test_the_remedy_of_the_configuration_works(checked: Callable[..., str]) -> None:
    lines = (
        "public.case_: {columns: {Id: {rename: key_id}}}\n"
        '  public.emoji: {columns: {"😀": {rename: smile}, "x🦆": {exclude: true}}}'
    )
    assert checked(TOO_MUCH["case"], TOO_MUCH["emoji"], lines=lines) == ""


def test_tables_without_a_key_are_refused_by_a_server_that_requires_one(
    checked: Callable[..., str], server_that_commits_to_disk: MariaDBServer
) -> None:
    with server_that_commits_to_disk.connect() as admin, admin.cursor() as cursor:
        cursor.execute("SET GLOBAL innodb_force_primary_key = ON")
        said = checked("CREATE TABLE public.log (a int)", "CREATE TABLE public.keyed (a int PRIMARY KEY)")
        assert "public.log cannot be made" in said and "public.keyed" not in said
        assert "primary key on the master" in said and "SET GLOBAL innodb_force_primary_key = OFF" in said
        cursor.execute("SET GLOBAL innodb_force_primary_key = OFF")
        assert checked() == ""


@pytest.mark.long
def test_all_but_tables_without_a_key_works_on_a_server_that_requires_one(
    rig: Callable[..., Rig], server_that_commits_to_disk: MariaDBServer
) -> None:
    with server_that_commits_to_disk.connect() as admin, admin.cursor() as cursor:
        cursor.execute("SET GLOBAL innodb_force_primary_key = ON")
        pair = rig("CREATE TABLE public.a (id int PRIMARY KEY, v text); INSERT INTO public.a VALUES (1, 'x')", stage=3)
        update = pair.load()
        with pair.apply() as running:
            pair.await_current()
            pair.finish(update)
            running.await_normal_mode()
            pair.master.execute("INSERT INTO public.a SELECT n, 'y' FROM generate_series(2, 50) AS n")
            pair.master.execute("ALTER TABLE public.a ADD COLUMN k int")
            pair.master.execute("UPDATE public.a SET k = -id")
            pair.master.execute("ALTER TABLE public.a DROP COLUMN id, ADD PRIMARY KEY (k)")
            pair.master.execute("UPDATE public.a SET v = 'z' WHERE k < -5")
            pair.await_current()
            assert pair.differences() == {}


def test_a_load_of_nothing_else_says_the_same_before_it_changes_anything(rig: Callable[..., Rig]) -> None:
    pair = rig(f"{TOO_MUCH['case']}; {TOO_MUCH['blank']}")
    with pytest.raises(TablesDiffer) as refused:
        pair.begin_load()
    assert "'Id', 'id' have one name" in str(refused.value) and "column 'name '" in str(refused.value)
    assert not [name for (name,) in pair.slave.run("SHOW TABLES") if not name.startswith("demo_")]


@pytest.mark.long
def test_a_load_leaves_them_out_and_loads_all_others(rig: Callable[..., Rig]) -> None:
    pair = rig(f"{TOO_MUCH['case']}; {TOO_MUCH['blank']}; CREATE TABLE public.fine (id int PRIMARY KEY)")
    pair.master.execute("INSERT INTO public.fine VALUES (1)")
    update = pair.begin_load()
    with pair.apply():
        pair.load(update)
        pair.await_current()
        reasons = " ".join(pair.checkpoint.tables.reasons.values())
        assert "'Id', 'id' have one name" in reasons and "column 'name '" in reasons
        made = [name for (name,) in pair.slave.run("SHOW TABLES") if not name.startswith("demo_")]
        assert made == ["fine"] and list(pair.slave.run("SELECT id FROM fine")) == [(1,)]


@pytest.mark.long
@pytest.mark.parametrize("size", ["4k", "8k"])
def test_pages_in_which_keys_do_not_fit_are_refused(checked: Callable[..., str], size: str) -> None:
    server = MariaDBServer(
        new_folder("sluice-test-mariadb-"), settings=MARIADB_SETTINGS | {"innodb-page-size": size, DURABLE: "1"}
    )
    server.start(die_with_parent=True)
    try:
        server.create_account("slave", "slave_1")
        refused = checked("CREATE TABLE public.t (id int PRIMARY KEY)", other=server.info("slave_1", "slave"))
    finally:
        server.stop()
        shutil.rmtree(server.directory, ignore_errors=True)
    assert "innodb_page_size of 16384 or more" in refused and "pages of 16 KiB" in refused
