"""A table of accounts, transactions on it, and a stream of its changes into Parquet."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.rig.rig import Rig

ACCOUNTS = "CREATE TABLE public.accounts (id int PRIMARY KEY, balance int NOT NULL, note text)"
LAKE = {"table": "public.accounts", "feed": "lake"}


def transfer(rig: Rig, number: int) -> None:
    """One transaction: money moves, and a row is inserted or deleted. The sum stays the same."""
    with rig.master.transaction():
        rig.master.execute("UPDATE public.accounts SET balance = balance - %s WHERE id = 1", [number])
        rig.master.execute("UPDATE public.accounts SET balance = balance + %s WHERE id = 2", [number])
        rig.master.execute("INSERT INTO public.accounts VALUES (%s, 0, %s)", [1000 + number, f"<{number}>"])
        if number % 3 == 0:
            rig.master.execute("DELETE FROM public.accounts WHERE id = %s", [1000 + number - 1])


def run_to_end(session: SparkSession, folder: Path) -> None:
    """Writes all current changes into Parquet, one folder for each action."""
    changes = session.readStream.format("sluice.changes").options(**LAKE).load()
    query = (
        changes.writeStream.format("parquet")
        .partitionBy("action")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "changes"))
    )
    assert query.awaitTermination(300)


def folded(session: SparkSession, folder: Path) -> tuple[dict[int, Any], int]:
    """The rows that result from the changes in Parquet, and the number of changes. No change is there twice."""
    changes = session.read.parquet(str(folder / "changes")).orderBy("repl_key").toArrow().to_pylist()
    rows: dict[int, Any] = {}
    for change in changes:
        if change["before"] is not None:
            assert rows.pop(change["before"]["id"]) == change["before"]
        if change["after"] is not None:
            rows[change["after"]["id"]] = change["after"]
    assert len({change["repl_key"] for change in changes}) == len(changes)
    return rows, len(changes)


def rows_of(rig: Rig) -> dict[int, Any]:
    names = ("id", "balance", "note")
    rows = rig.master.execute("SELECT id, balance, note FROM public.accounts").fetchall()
    return {row[0]: dict(zip(names, row, strict=True)) for row in rows}


def state_after(transfers: int) -> dict[int, Any]:
    """The table after so many transfers."""
    moved = sum(range(1, transfers + 1))
    rows = {1: {"id": 1, "balance": 100 - moved, "note": None}, 2: {"id": 2, "balance": 100 + moved, "note": ""}}
    for number in range(1, transfers + 1):
        rows[1000 + number] = {"id": 1000 + number, "balance": 0, "note": f"<{number}>"}
        if number % 3 == 0:
            del rows[1000 + number - 1]
    return rows
