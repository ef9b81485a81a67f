"""The monitor on a terminal: all slaves in one table, or one of them in detail. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sluice.counted import counted, duration
from sluice.model.monitor_data import MessageData, Overview, SlaveOverview, WholeSlave

BOLD, RED, YELLOW, GREEN, BLUE, GREY, PLAIN = (f"\x1b[{code}m" for code in (1, 31, 33, 32, 34, 90, 0))
COLOURS = {"NORMAL": GREEN, "TRANSITION": YELLOW, "INITIAL": BLUE, "INCONSISTENT": RED, "UNCONFIGURED": GREY}
LEVELS = {"warning": YELLOW, "critical": RED}
MARKS = {"fine": " ", "warning": "!", "critical": "✖"}
EVENTS_SHOWN = 5
LEAST_SENTENCE = 28
"""Columns for the sentence of a slave; a narrower terminal shows it below the slave's line."""
HEADS = ("", "slave", "state", "behind", "changes/s", "tables", "rejects", "what it does")


def table(overview: Overview, *, colours: bool, width: int = 120) -> list[str]:
    """A line a slave, grouped by master. `overview`: the content of `/sluice/overview.json`."""
    lines = [str(overview["trouble"])] if overview["trouble"] else []
    rows = [[*HEADS]]
    marks = ["fine"]
    states = [""]
    for master in overview["masters"]:
        for one in master["slaves"]:
            rows.append(_row(master["prefix"], one))
            marks.append(one["level"])
            states.append(one["state"])
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS) - 1)]
    for row, level, state in zip(rows, marks, states, strict=True):
        cells = "  ".join(
            _padded(text, size, column) for column, (text, size) in enumerate(zip(row, widths, strict=False))
        )
        below = len(cells) + LEAST_SENTENCE > width
        line = _cut(cells if below else f"{cells}  {row[-1]}", width)
        if colours and state:
            line = line.replace(state, f"{COLOURS.get(state, '')}{state}{PLAIN}", 1)
            line = f"{LEVELS[level]}{line[:1]}{PLAIN}{line[1:]}" if level in LEVELS else line
        elif colours:
            line = f"{GREY}{line}{PLAIN}"
        lines.append(line)
        if below and state:
            lines.append(_cut(f"     {row[-1]}", width))
    for master in overview["masters"]:
        if queue := master["queue"]:
            holders = f", the purge is held by {', '.join(queue['held_by'])}" if queue["held_by"] else ""
            lines += ["", f"{master['prefix']} ITEMS {counted(queue['changes'], 'change')}{holders}"]
        lines += _messages(master["prefix"], master["messages"], colours)
        for one in master["slaves"]:
            lines += _messages(f"{master['prefix']} → {one['slave']}", one["messages"], colours)
    for broken in overview["broken"]:
        lines += ["", f"{broken['prefix'] or 'a file'}: {counted(len(broken['mistakes']), 'mistake')}"]
        lines += [f"    {mistake}" for mistake in broken["mistakes"]]
    return lines


def details(one: WholeSlave, *, colours: bool) -> list[str]:
    """Lines about one slave. `one`: the content of its `state.json`."""
    state = one["state"]
    shown = f"{COLOURS.get(state, '')}{state}{PLAIN}" if colours else state
    facts = {
        "current as of": f"{one['current_as_of']}, {_behind(one)} behind" if one["current_as_of"] else "–",
        "changes": f"{one['changes_per_second']:,.0f}/s" + (f", {one['changes']:,} so far" if one["changes"] else ""),
        "apply": f"{one['applied_by']}, since {one['since']}" if one["applying"] else "does not run",
        "safe mode": one["safe_mode"] or "–",
        "gate": "closed: " + "; ".join(one["closures"]) if one["closures"] else "open",
        "tables": f"{one['tables']}, {len(one['not_ready'])} not ready" if one["not_ready"] else str(one["tables"]),
        "rejects": f"{counted(one['rejected'], 'change')} set aside" if one["rejected"] else "none",
        "verified": f"through {one['verified_through']}" if one["verified_through"] else "never",
    }
    lines = [f"{one['prefix']} → {one['slave']}: {shown}: {one['sentence']}"]
    lines += [f"    {name:<14} {fact}" for name, fact in facts.items()]
    lines += [f"    {line}" for line in one["load"]]
    if one["events"]:
        lines.append("    what happened last:")
        lines += [f"      {_moment(event['at'])}  {event['text']}" for event in one["events"][-EVENTS_SHOWN:]]
    if one["trouble"]:
        lines.append(f"    {one['trouble']}")
    return [*lines, *_messages("", one["messages"], colours)]


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _row(prefix: str, one: SlaveOverview) -> list[str]:
    ready = one["tables"] - len(one["not_ready"])
    tables = f"{ready} of {one['tables']}" if one["not_ready"] else str(one["tables"] or "–")
    return [
        MARKS[one["level"]],
        f"{prefix} → {one['slave']}",
        one["state"],
        _behind(one),
        f"{one['changes_per_second']:,.0f}" if one["applying"] else "–",
        tables,
        str(len(one["rejects"]) or "–"),
        " ".join(one["sentence"].split()),
    ]


def _behind(one: SlaveOverview) -> str:
    seconds = one["lag_seconds"]
    if seconds is None:
        return "–"
    return f"{seconds:.1f} s" if seconds < 10 else duration(seconds)


def _cut(line: str, width: int) -> str:
    line = line.rstrip()
    return line if len(line) <= width else line[: width - 1] + "…"


def _padded(text: str, size: int, column: int) -> str:
    return text.rjust(size) if 3 <= column <= 6 else text.ljust(size)


def _messages(name: str, messages: Sequence[MessageData], colours: bool) -> list[str]:
    lines = []
    for message in messages:
        if message["level"] == "fine":
            continue
        mark = MARKS[message["level"]]
        mark = f"{LEVELS[message['level']]}{mark}{PLAIN}" if colours else mark
        lines.append(f"{mark} {name}: {message['text']}" if name else f"{mark} {message['text']}")
    return lines
