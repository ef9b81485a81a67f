"""What is verified through when, as a page: no script, light and dark."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from typing import Any

from sluice.coordination.gate import ERROR, INITIAL_UPDATE, Closure
from sluice.coordination.items_state import Found as ItemsFound
from sluice.coordination.lacks import Found
from sluice.counted import counted, duration
from sluice.model.names import Prefix, TableName
from sluice.model.reject import how_to_settle
from sluice.model.table_state import how_to_capture, how_to_load
from sluice.verify.page import clock, outcome_of, whole_page


@dataclass(frozen=True)
class Shown:
    """A pair, what its apply last said (`coordination.status`), and its tables (`coordination.verification_log`)."""

    prefix: str
    slave: str
    status: Mapping[str, Any]
    tables: Mapping[str, Mapping[str, Any]]
    applying: bool
    """Whether an apply holds the lease."""
    closures: Sequence[Closure] = ()
    """What keeps the gate closed."""
    lacks: Sequence[Found] = ()
    """Definitions that the slave lacks."""
    not_captured: Sequence[Found] = ()
    """Tables of the master that are not captured."""
    items: ItemsFound = field(default_factory=ItemsFound)
    """What the last purge found."""


@dataclass(frozen=True)
class Past:
    """A report: the name of its folder; of each pair its name, outcome and start."""

    name: str
    pairs: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Broken:
    """A replication that cannot be used; `prefix` is empty where its file does not tell it."""

    prefix: str
    mistakes: Sequence[str]
    """File, line, key, what is wrong and what would be right."""


def overview(
    pairs: Iterable[Shown], past: Iterable[Past], now: datetime, trouble: str = "", broken: Iterable[Broken] = ()
) -> str:
    """HTML. `trouble`: why the pairs are not known. `now`: with a time zone."""
    notice = f"<p class=could-not-compare>{escape(trouble)}</p>" if trouble else ""
    body = "".join(_broken(one) for one in broken) + "".join(_pair(one, now) for one in pairs)
    body = body or "<p>No replication is configured.</p>" * (not trouble)
    return whole_page("Verification", f"<h1>Verification</h1>{notice}{body}{_reports(list(past))}")


def state_of(status: Mapping[str, Any], now: datetime) -> str:
    """State and lag in words, by what the apply last said."""
    if not status:
        return "nothing is known: no initial update has begun yet, or no apply has run for a day"
    state = str(status.get("state") or "state not known")
    if status.get("catching_up"):
        state += ", catching up"
    try:
        as_of = datetime.fromisoformat(str(status.get("current_as_of")))
    except ValueError:
        return state
    as_of = as_of if as_of.tzinfo else as_of.replace(tzinfo=UTC)
    return f"{state}, current as of {clock(as_of)} UTC, {duration((now - as_of).total_seconds())} behind"


def messages_of(one: Shown) -> list[tuple[str, bool]]:
    """What a person should know of the apply, and whether a person must act."""
    found = []
    for closure in one.closures:
        if closure.name == ERROR:
            found.append((f"The apply has stopped: {closure.with_remedy}", True))
        else:
            found.append((f"The gate is closed: {closure}", False))
    activity = str(one.status.get("activity") or "")
    if one.applying and not one.closures and activity.startswith("waiting"):
        found.append((f"The apply is {activity}", False))
    if lacking := [TableName.parse(name) for name in one.status.get("not_ready") or ()]:
        remedy = how_to_load(Prefix(one.prefix), one.slave, lacking)
        found.append((f"{counted(len(lacking), 'table')} not loaded, changes left out. {remedy}", True))
    found += [(str(reason), True) for reason in one.status.get("differing") or ()]
    if settle := how_to_settle(one.status.get("set_aside") or ()):
        found.append((settle, True))
    for reasons in (one.items.dropped, one.items.not_dropped):
        if reason := reasons.get(one.slave):
            found.append((reason, True))
    if one.items.warning:
        found.append((one.items.warning, True))
    if one.not_captured:
        found += [(f"{each.what}. {how_to_capture(Prefix(one.prefix))}", True) for each in one.not_captured]
    found += [(each.on_slave, True) for each in one.lacks]
    if mistake := one.status.get("configuration"):
        found.append((f"The apply goes on with the configuration it has, because of a mistake: {mistake}", True))
    return found


def _broken(one: Broken) -> str:
    name = one.prefix or "A file of which no prefix is known"
    count = counted(len(one.mistakes), "mistake")
    lines = "".join(f"<li><code>{escape(mistake)}</code>" for mistake in one.mistakes)
    return (
        f"<section><h2>{escape(name)}</h2><p class=different>No run can use this replication: its configuration has "
        f"{count}.</p><ul>{lines}</ul></section>"
    )


def _pair(one: Shown, now: datetime) -> str:
    mode = f"safe mode {one.status.get('safe_mode') or 'not known'}" if one.applying else "no apply runs"
    # An apply that is held by an update says what was so before it.
    updated = any(closure.name == INITIAL_UPDATE for closure in one.closures)
    state = "an initial update is under way" if updated else escape(state_of(one.status, now))
    head = f"<h2>{escape(one.prefix)} → {escape(one.slave)}</h2><p class=soft>{state}; {escape(mode)}</p>"
    for message, grave in messages_of(one):
        head += f"<p class={'different' if grave else 'could-not-compare'}>{escape(message)}</p>"
    if not one.tables:
        return (
            f"<section>{head}<p>No table has been compared yet. The DAG housekeeping lists the tables once the slave "
            "is NORMAL, every ten minutes; the DAG resync compares them.</p></section>"
        )
    rows = "".join(_table(name, seen) for name, seen in one.tables.items())
    return (
        f"<section>{head}<div class=scroll><table><tr><th>Table<th>Last compared (UTC)<th>Verified through"
        f"<th class=n>Rows</tr>{rows}</table></div></section>"
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
    return f"<tr><td>{escape(name)}<td>{last}<td class=one>{through}<td class=n>{rows}</tr>"


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
