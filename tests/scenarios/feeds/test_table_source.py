"""Rows of a table as of one position, as a Spark user reads them."""

import urllib.request
from decimal import Decimal

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from devstack.spark import SparkServer
from tests.rig.rig import Rig
from tests.scenarios.feeds.conftest import MakeRig
from tests.scenarios.feeds.reading import HOSTILE, TYPES, as_plain, registered, rows_of

ORDERS = """
CREATE TABLE public.orders (id int PRIMARY KEY, amount numeric(10,2), note text);
INSERT INTO public.orders SELECT n, n * 1.5, 'note ' || n FROM generate_series(1, 1000) AS n;
CREATE TABLE public.heap (a int, b text);
INSERT INTO public.heap VALUES (1, 'x'), (1, 'x'), (2, NULL)
"""


@pytest.fixture
def rig(master: MakeRig, session: SparkSession) -> Rig:
    rig = master(TYPES + ";" + ORDERS)
    registered(session, rig)
    return rig


def read(session: SparkSession, table: str = "public.orders", **options: str | int) -> DataFrame:
    return session.read.format("sluice").options(table=table, **options).load()


def test_rows_come_with_their_types_and_hostile_values_as_they_are(session: SparkSession, rig: Rig) -> None:
    rig.master.execute(HOSTILE)
    found = read(session, "public.types")
    types = dict(found.dtypes)
    assert {name: types[name] for name in ("id", "s", "n", "f", "r", "b", "y", "d", "ts", "tz", "u")} == {
        "id": "bigint", "s": "smallint", "n": "decimal(12,3)", "f": "double", "r": "float", "b": "boolean",
        "y": "binary", "d": "date", "ts": "timestamp_ntz", "tz": "timestamp", "u": "string",
    }  # fmt: skip
    assert [as_plain(row) for row in found.orderBy("id").collect()] == rows_of(rig)
    assert "g" not in types
    position, before = rig.now().text(), rows_of(rig)
    rig.master.execute("UPDATE public.types SET id = 7, t = NULL WHERE id = 1; DELETE FROM public.types WHERE id = 3")
    then = read(session, "public.types", position=position, partitionRows=1).orderBy("id").collect()
    assert [as_plain(row) for row in then] == before


@pytest.mark.long
def test_a_value_that_a_type_does_not_hold_is_named_and_can_be_read_as_text(session: SparkSession, rig: Rig) -> None:
    rig.master.execute("INSERT INTO public.types (id, n, ts) VALUES (1, 'NaN', 'infinity')")
    with pytest.raises(PySparkException, match=r"Column n \(number\(12,3\)\) has a value.*texts"):
        read(session, "public.types", columns="n").collect()
    assert read(session, "public.types", columns="n,ts", texts="n, ts").first() == ("NaN", "infinity")


@pytest.mark.long
def test_partitions_filters_and_columns_read_what_is_wanted(session: SparkSession, rig: Rig) -> None:
    found = read(session, columns="note,id", partitionRows=300)
    assert found.select(F.spark_partition_id()).distinct().count() == 4
    assert found.filter("id >= 250 AND id < 260 AND note <> 'note 255'").count() == 9
    assert found.filter(F.col("note").isin("note 7", "it's")).collect() == [("note 7", 7)]
    assert read(session).filter("amount = 1.5 OR amount IS NULL").count() == 1
    assert read(session).filter(F.col("amount") == Decimal("3.00")).select("id").collect() == [(2,)]
    assert sorted(read(session, "public.heap", columns="a").collect()) == [(1,), (1,), (2,)]


@pytest.mark.long
def test_the_rows_are_those_of_the_position_and_of_no_later_one(session: SparkSession, rig: Rig) -> None:
    position = rig.now().text()
    before = session.createDataFrame(read(session, partitionRows=100).toArrow()).orderBy("id").collect()
    rig.master.execute(
        "UPDATE public.orders SET id = id + 5000, note = 'moved' WHERE id % 3 = 0;"
        "UPDATE public.orders SET note = 'changed' WHERE id % 3 = 1; DELETE FROM public.orders WHERE id % 7 = 0;"
        "INSERT INTO public.orders SELECT n, 0, 'new' FROM generate_series(2000, 2100) AS n"
    )
    then = read(session, partitionRows=100, position=position)
    assert then.orderBy("id").collect() == before
    assert then.filter("note = 'note 7'").count() == 1
    assert then.filter("note = 'new'").count() == 0
    assert read(session).filter("note = 'new'").count() == 101


@pytest.mark.long
def test_a_wrong_option_is_reported_with_its_remedy(session: SparkSession, rig: Rig) -> None:
    wrong: list[tuple[dict[str, str], str]] = [
        ({"table": "public.order"}, "captures no table public.order; it captures public.heap"),
        ({"table": "orders"}, "write schema.table"),
        ({"collumns": "id"}, "has no option collumns; it has columns, feed"),
        ({"columns": "ID"}, "no column 'ID'; it has id, amount, note"),
        ({"partitionRows": "many"}, "option partitionRows: write a whole number"),
        ({"position": "yesterday"}, "is no position"),
        ({"feed": "pond"}, "has no feed 'pond'; it has lake"),
        ({"prefix": "SHOP_"}, "'SHOP_' is not registered in this session; DEMO_ is"),
    ]
    for options, said in wrong:
        with pytest.raises(PySparkException, match=said):
            session.read.format("sluice").options(**{"table": "public.orders", **options}).load().collect()


@pytest.mark.long
def test_no_password_shows_in_a_plan_or_a_page(session: SparkSession, rig: Rig, spark: SparkServer) -> None:
    password = rig.master_info.password
    assert len(password) > 8
    found = read(session)
    assert found.count() == 1000
    shown = found._explain_string(True)  # type: ignore[operator]
    assert password not in shown
    pages = ("jobs/", "SQL/", "connect/", "environment/", "api/v1/applications")
    for page in pages:
        with urllib.request.urlopen(f"{spark.ui_url}/{page}") as answer:
            assert password.encode() not in answer.read(), page
    written = [file for file in spark.directory.rglob("*") if file.is_file() and "scratch" not in file.parts]
    assert any("events" in file.parts for file in written)
    assert not [file for file in written if password.encode() in file.read_bytes()]
