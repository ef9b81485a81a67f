"""What is verified through when, as a page: no script, light and dark."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from sluice.domain.position import Position
from sluice.verify.page import clock, outcome_of, whole_page


@dataclass(frozen=True)
class Shown:
    """A pair, what its apply last said (`stores.status`), and its tables (`stores.verified`)."""

    prefix: str
    slave: str
    status: Mapping[str, Any]
    tables: Mapping[str, Mapping[str, Any]]
    applying: bool
    """Whether an apply holds the lease."""


@dataclass(frozen=True)
class Past:
    """A report: the name of its folder; of each pair its name, outcome and start."""

    name: str
    pairs: Sequence[tuple[str, str, str]]


def overview(pairs: Iterable[Shown], past: Iterable[Past], trouble: str = "") -> str:
    """HTML. `trouble`: why the pairs are not known."""
    told = f"<p class=could-not-compare>{escape(trouble)}</p>" if trouble else ""
    body = "".join(_pair(one) for one in pairs) or "<p>No replication is configured.</p>" * (not trouble)
    return whole_page("Verification", f"<h1>Verification</h1>{told}{body}{_reports(list(past))}")


def _pair(one: Shown) -> str:
    status = one.status
    state = "state not known"
    if status:
        state = f"{status.get('state')}, current as of {clock(status.get('current_as_of'))}"
    mode = f"safe mode {status.get('safe_mode') or 'not known'}" if one.applying else "no apply runs"
    head = f"<h2>{escape(one.prefix)} → {escape(one.slave)}</h2><p class=soft>{escape(state)}; {escape(mode)}</p>"
    if not one.tables:
        return f"<section>{head}<p>Nothing to verify: the slave is not NORMAL, or has not been for long.</p></section>"
    rows = "".join(_table(name, seen) for name, seen in one.tables.items())
    return (
        f"<section>{head}<div class=scroll><table><tr><th>Table<th>Last compared (UTC)<th>Verified through"
        f"<th>Position<th class=n>Rows</tr>{rows}</table></div></section>"
    )


def _table(name: str, seen: Mapping[str, Any]) -> str:
    outcome = seen.get("outcome")
    last = "–"
    if outcome:
        run = escape(str(seen.get("run")))
        reason = f" <span class=soft>{escape(str(seen['reason']))}</span>" if seen.get("reason") else ""
        when = f"<span class=one>{clock(seen.get('checked'))}</span>"
        last = f"<a href='reports/{run}/'>{outcome_of(outcome)}</a> {when}{reason}"
    through = clock(seen["time"]) if seen.get("time") else "<span class=could-not-compare>never</span>"
    rows = f"{seen['rows']:,}" if "rows" in seen else "–"
    position = escape(Position.brief(str(seen.get("position", ""))))
    return f"<tr><td>{escape(name)}<td>{last}<td class=one>{through}<td class='v one'>{position}<td class=n>{rows}</tr>"


def _reports(past: Sequence[Past]) -> str:
    if not past:
        return "<h2 class=free>Reports</h2><p>No run of the DAG resync has written a report yet.</p>"
    rows = "".join(
        f"<tr><td class=one>{clock(started)}<td>{escape(pair)}"
        f"<td><a href='reports/{escape(one.name)}/'>{outcome_of(outcome)}</a></tr>"
        for one in past
        for pair, outcome, started in one.pairs
    )
    head = "<tr><th>Run of (UTC)<th>Pair<th>Outcome</tr>"
    return f"<h2 class=free>Reports</h2><div class=scroll><table>{head}{rows}</table></div>"
