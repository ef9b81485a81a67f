"""The lines of `./sluice status` about verification: the time and position through which tables are verified."""

from collections.abc import Mapping
from contextlib import closing

from sluice.config import Survey
from sluice.coordination import redis_store
from sluice.coordination.verification_log import VerificationLog
from sluice.counted import counted
from sluice.database import positions
from sluice.database.registry import UnknownVendor
from sluice.errors import SluiceError
from sluice.model.names import Prefix
from sluice.paths import PROGRAM

LISTED = 40
"""Tables of a pair to list at most; `--json` has all."""

Tables = Mapping[str, Mapping[str, object]]
"""Entries of `coordination.verification_log`."""


def of_pairs(survey: Survey, store_url: str) -> list[dict[str, object]]:
    """Every configured pair with `prefix`, `slave` and `tables`; empty while Redis does not answer."""
    try:
        with closing(redis_store.connect(store_url)) as client:
            return [
                {"prefix": str(one.prefix), "slave": slave, "tables": VerificationLog(client, one.prefix, slave).read()}
                for one in survey.replications
                for slave in one.slaves
            ]
    except SluiceError:
        return []


def summary_lines(tables: Tables, prefix: Prefix, slave: str) -> list[str]:
    """A line about each compared table of the pair, and the number of the others."""
    compared = {name: seen for name, seen in tables.items() if seen.get("outcome") or seen.get("time")}
    never = len(tables) - len(compared)
    untried = [f"    {counted(never, 'table')} never compared: {PROGRAM} verify {prefix} {slave}"] if never else []
    if not compared:
        return untried
    rows = [("table", "last compared", "verified through", "position")]
    rows += [_table(name, seen) for name, seen in list(compared.items())[:LISTED]]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["    " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
    if len(compared) > LISTED:
        lines.append(f"    and {len(compared) - LISTED} more: --json lists them")
    return [line.rstrip() for line in [*lines, *untried]]


def _table(name: str, seen: Mapping[str, object]) -> tuple[str, str, str, str]:
    last = f"{seen['outcome']} {_clock(seen.get('checked'))}" if seen.get("outcome") else "–"
    return name, last, _clock(seen.get("time")), _brief(str(seen.get("position", "")))


def _brief(text: str, longest: int = 40) -> str:
    """A position shortened to fit a line; empty for an invalid one."""
    try:
        brief = str(positions.parse(text))
    except (ValueError, KeyError, TypeError, UnknownVendor):
        return ""
    return brief if len(brief) <= longest else brief[: longest - 1] + "…"


def _clock(text: object) -> str:
    return str(text)[:19].replace("T", " ") if text else "never"
