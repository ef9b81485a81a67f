"""What a rehearsal takes from a master, and that it changes and locks nothing there."""

import json
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from devstack import cli
from devstack.postgres import PostgresServer
from devstack.redis import RedisServer
from devstack.rehearse import rows
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres.source.resources import PostgresCapture
from tests.rig.rig import Rig

Database = Callable[..., ConnectionInfo]
SCHEMA = """
CREATE TYPE public.mood AS ENUM ('sad', 'happy');
CREATE DOMAIN public.positive AS int CHECK (value > 0);
CREATE TABLE public.lines (id bigserial PRIMARY KEY, "order" int, n public.positive, tags text[], m public.mood);
CREATE TABLE public.orders (id int PRIMARY KEY, customer int NOT NULL, code varchar(5) UNIQUE, twice int
    GENERATED ALWAYS AS (id * 2) STORED, price numeric(4,2), at timestamptz, span int4range, j jsonb, u uuid);
CREATE TABLE public.customers (id int PRIMARY KEY, boss int REFERENCES public.customers, name text NOT NULL);
ALTER TABLE public.orders ADD FOREIGN KEY (customer) REFERENCES public.customers;
ALTER TABLE public.lines ADD FOREIGN KEY ("order") REFERENCES public.orders;
CREATE TABLE public.parted (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE public.parted_1 PARTITION OF public.parted FOR VALUES FROM (0) TO (1000);
CREATE TABLE public.checked (id int PRIMARY KEY, CHECK (id < 0));
"""


def test_a_sample_has_every_row_that_its_foreign_keys_name(postgres: PostgresServer, database: Database) -> None:
    master, copy = database(), database()
    with postgres.connect(master.database) as there, postgres.connect(copy.database) as here:
        for connection in (there, here):
            connection.execute(SCHEMA)
        there.execute(
            "INSERT INTO customers SELECT g, nullif(g, 1000) + 1, 'n' FROM generate_series(1000, 1, -1) g; "
            "INSERT INTO orders (id, customer) SELECT g, 1000 - g % 3 FROM generate_series(1, 500) g; "
            'INSERT INTO lines ("order") SELECT 500 - g FROM generate_series(1, 300) g; '
            "INSERT INTO parted SELECT g, 'v' FROM generate_series(1, 50) g"
        )
        rows.sample(there, here, 5)
        for key in rows.foreign_keys(here):
            names = {table.oid: table.quoted for table in rows.tables_of(here)}
            lost = here.execute(
                f'SELECT count(*) FROM {names[key.table]} c WHERE c."{key.columns[0]}" IS NOT NULL AND NOT EXISTS '
                f'(SELECT FROM {names[key.parent]} p WHERE p."{key.parent_columns[0]}" = c."{key.columns[0]}")'.encode()
            ).fetchone()
            assert lost == (0,)
        assert here.execute("SELECT count(*) FROM lines").fetchone() == (5,)
        assert here.execute("SELECT count(*) FROM parted").fetchone() == (5,)
        assert here.execute("SELECT nextval('lines_id_seq')").fetchone() == (301,)


def test_made_up_rows_fit_types_and_keys_and_a_refused_table_is_named(
    postgres: PostgresServer, database: Database
) -> None:
    with postgres.connect(database().database) as here:
        here.execute(SCHEMA)
        filled, refused = rows.make_up(here, 20)
        assert set(filled) == {f"public.{name}" for name in ("customers", "orders", "lines", "parted")}
        assert "checked" in str(refused)
        assert here.execute("SELECT count(*) FROM orders o JOIN customers c ON c.id = o.customer").fetchone() == (20,)
        assert here.execute('SELECT count(*) FROM lines l JOIN orders o ON o.id = l."order"').fetchone() == (20,)
        assert here.execute("SELECT count(DISTINCT m), min(n) > 0 FROM lines").fetchone() == (2, True)


@pytest.mark.long
def test_a_captured_master_is_copied_without_capture_and_nothing_is_changed_there(
    postgres: PostgresServer,
    database: Database,
    redis_server: RedisServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig.empty(database, redis_server.url, tmp_path, installed=False)
    rig.master.execute(SCHEMA)
    rig.master.execute("INSERT INTO public.customers VALUES (1, NULL, 'one')")
    rig.master.execute(f'ALTER DATABASE "{rig.master_info.database}" SET search_path = public, pg_catalog'.encode())
    rig.capture()
    PostgresCapture(rig.master, rig.pair.prefix, "public").make_event_triggers()
    before = _everything(rig.master)
    (script := tmp_path / "m.sql").write_text("SHOW search_path;\nALTER TABLE customers ADD a int;\n\\dt\n\\dy")
    info, data = rig.master_info, tmp_path / "report.json"
    monkeypatch.setenv("PGPASSWORD", info.password)
    url = f"postgresql://{info.user}@{info.host}:{info.port}/{info.database}"
    options = ["--master", url, str(script), "--rows", "10", "--json", str(data), "--quiet"]
    assert cli.main(["rehearse", *options]) == 0
    report = json.loads(data.read_text())
    outputs = [step["plain"]["outcome"]["output"] for step in report["steps"]]
    assert "public, pg_catalog" in outputs[0]
    assert "demo_" not in outputs[2] + outputs[3] and "customers" in outputs[2]
    assert [table["name"] for table in report["tables"] if table["rows"] == 1] == ["public.customers"]
    assert _everything(rig.master) == before
    # The same as the replication's own rehearsal.
    uri = f"postgresql://{info.user}:{info.password}@{info.host}:{info.port}/{info.database}"
    monkeypatch.setenv("AIRFLOW_CONN_M", uri)
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    assert cli.main(["rehearse", "DEMO", str(script), "--quiet", "--made-up", "0"]) == 0
    # A load is measured by the master's rows, of which few came along.
    rig.master.execute("INSERT INTO public.customers SELECT g, NULL, 'n' FROM generate_series(2, 5000) g")
    rig.master.execute("ANALYZE public.customers")
    script.write_text("ALTER TABLE customers DISABLE TRIGGER ALL; UPDATE customers SET name = 'unseen';")
    assert cli.main(["rehearse", *options]) == 1
    found = json.loads(data.read_text())["findings"]
    (reload,) = [one["text"] for one in found if one["kind"] == "reload"]
    assert "public.customers (10 rows here, about 5,000 in 0 MB on the master: 0 s at 100,000 rows a second)" in reload
    rig.close()


def _everything(connection: "psycopg.Connection[tuple[object, ...]]") -> object:
    return connection.execute(
        "SELECT (SELECT array_agg((relname, relacl, relkind)::text ORDER BY oid) FROM pg_class), "
        "(SELECT array_agg(t::text ORDER BY oid) FROM pg_trigger t), (SELECT count(*) FROM public.demo_items)"
    ).fetchone()
