"""A Delta table that a stream of changes keeps equal to its master's table, as in docs/feeds.md."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame

SCHEMA = pa.schema([("id", pa.int32()), ("balance", pa.int32()), ("note", pa.string())])


def create(folder: Path) -> None:
    write_deltalake(str(folder / "delta"), SCHEMA.empty_table())


def rows(folder: Path, version: int | None = None) -> dict[int, Any]:
    table = DeltaTable(str(folder / "delta"), version=version)
    return {row["id"]: row for row in pa.table(table.to_pyarrow_table()).to_pylist()}


def merges_into(path: str) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch`: one commit a batch, and none for a batch that was committed already."""

    def merge(batch: DataFrame, number: int) -> None:
        table = DeltaTable(path)
        done = table.transaction_version("lake")
        if done is not None and done >= number:
            return
        last: dict[int, Any] = {}
        for change in batch.orderBy("repl_key").toArrow().to_pylist():
            if change["before"] is not None:
                last[change["before"]["id"]] = {**change["before"], "gone": True}
            if change["after"] is not None:
                last[change["after"]["id"]] = {**change["after"], "gone": False}
        values = {name: f"s.{name}" for name in SCHEMA.names}
        (
            table.merge(
                pa.Table.from_pylist(list(last.values()), schema=SCHEMA.append(pa.field("gone", pa.bool_()))),
                "t.id = s.id",
                source_alias="s",
                target_alias="t",
                commit_properties=CommitProperties(app_transactions=[Transaction("lake", number)]),
            )
            .when_matched_delete("s.gone")
            .when_matched_update(values, "NOT s.gone")
            .when_not_matched_insert(values, "NOT s.gone")
            .execute()
        )

    return merge
