"""How long one core takes to reduce changes to net changes: `python benchmarks/net_changes.py [rows]`.

The mix of the drain benchmark: half inserts, four tenths updates, one tenth deletes of a six-column
table. Prints seconds for each step; needs no database.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from sluice.apply import net_changes
from sluice.database import xml_images
from sluice.database.items import ITEMS
from sluice.vendors.postgres.target import stage

COLUMNS = ("id", "customer", "amount", "status", "note", "created")


def row(number: int, version: int) -> str:
    note = '<col name="note" type="null"></col>' if number % 5 == 0 else f'<col name="note">note {number}</col>'
    return (
        f'<col name="id">{number}</col><col name="customer">customer {number % 977}</col>'
        f'<col name="amount">{number % 10000}.{version:02}</col>'
        f'<col name="status">{"open" if version % 2 else "closed"}</col>'
        f'{note}<col name="created">2026-01-01 10:00:{number % 60:02}.{number:06}+00</col>'
    )


def items(rows: int) -> Any:
    """`rows` changes of `rows` / 2 keys in REPL_KEY order."""
    half, updates = rows // 2, rows * 4 // 10
    inserted = [("INSERT", number, row(number, 0), None) for number in range(half)]
    updated = [("UPDATE", number, row(number, 1), f'<col name="id">{number}</col>') for number in range(updates)]
    deleted = [("DELETE", number, None, row(number, 0)) for number in range(updates, half)]
    action, key, new, old = zip(*inserted, *updated, *deleted, strict=True)
    count = len(key)
    columns = [range(count), range(count), ["public"] * count, ["orders"] * count, map(str, key), action, new, old]
    return pa.table([pa.array(list(values), field.type) for values, field in zip(columns, ITEMS, strict=True)], ITEMS)


def best(run: Callable[[], Any], times: int = 5) -> tuple[float, Any]:
    """Least seconds of several runs, and the last result."""
    seconds = []
    for _ in range(times):
        begun = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - begun)
    return min(seconds), result


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    pa.set_cpu_count(1)
    whole = items(rows)
    inserts = whole.slice(0, rows // 2)
    contents = pa.concat_arrays([*inserts.column("content").chunks] * 2)
    half = whole.slice(rows // 2)
    figures: dict[str, float] = {}
    figures["parse every content"], _ = best(lambda: xml_images.columns(contents, COLUMNS))
    figures["reduce the mix"], changes = best(
        lambda: net_changes.reduce(net_changes.events(whole, ("id",), xml_images))
    )
    figures["the same with old images"], _ = best(
        lambda: net_changes.reduce(net_changes.events(half, ("id",), xml_images), before=True), 3
    )
    figures["COPY text of the net rows"], _ = best(lambda: stage.copy_text(changes.inserts))
    for name, seconds in figures.items():
        print(f"{name:32} {seconds:6.2f} s for {rows:,} changes, net rows {changes.rows:,}")
    print(json.dumps({"name": "net", "ours": rows / figures["reduce the mix"], "unit": "changes/s", "detail": figures}))


if __name__ == "__main__":
    main()
