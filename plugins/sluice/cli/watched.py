"""The monitor on a terminal: all slaves in one table, or one of them in detail. Pure.

A text appears once: what a message says is not repeated by the slave's sentence, gate, and events.
"""

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from sluice.counted import counted, duration
from sluice.model.monitor_data import MessageData, Overview, SlaveOverview, WholeSlave
from sluice.operate.remedies import at_terminal, command
from sluice.paths import PROGRAM

BOLD, RED, YELLOW, GREEN, BLUE, GREY, PLAIN = (f"\x1b[{code}m" for code in (1, 31, 33, 32, 34, 90, 0))
COLORS = {
    "NORMAL": GREEN,
    "TRANSITION": YELLOW,
    "INITIAL": BLUE,
    "INCONSISTENT": RED,
    "UNCONFIGURED": GREY,
    "UNKNOWN": GREY,
}
LEVELS = {"warning": YELLOW, "critical": RED}
MARKS = {"fine": " ", "warning": "!", "critical": "✖"}
EVENTS_SHOWN = 5
SWITCHES_SHOWN = 10
TABLES_SHOWN = 200
TABLES_NAMED = 8
"""A command for more tables is for all: it would not be read."""
STATES = {"UNCONFIGURED": "not loaded", "UNKNOWN": "not known"}
"""How states are shown that people would misread: such a slave is configured, it was never loaded."""
LEAST_SENTENCE = 28
"""Columns for the sentence of a slave; a narrower terminal shows it below the slave's line."""
HEADS = ("", "slave", "state", "behind", "changes/s", "tables", "rejects", "what it does")


def table(overview: Overview, *, colors: bool, width: int = 120) -> list[str]:
    """A line a slave, grouped by master. `overview`: the content of `/sluice/overview.json`."""
    lines = [str(overview["trouble"])] if overview["trouble"] else []
    lines += messages("", overview["messages"], colors=colors)
    rows = [[*HEADS]]
    marks = ["fine"]
    states = [""]
    for master in overview["masters"]:
        for one in master["slaves"]:
            rows.append(_row(master["prefix"], one))
            marks.append(one["level"])
            states.append(_shown(one))
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS) - 1)]
    for row, level, state in zip(rows, marks, states, strict=True):
        cells = "  ".join(
            _padded(text, size, column) for column, (text, size) in enumerate(zip(row, widths, strict=False))
        )
        below = len(cells) + LEAST_SENTENCE > width
        line = _cut(cells if below else f"{cells}  {row[-1]}", width)
        if colors and state:
            line = line.replace(state, f"{_color(state)}{state}{PLAIN}", 1)
            line = f"{LEVELS[level]}{line[:1]}{PLAIN}{line[1:]}" if level in LEVELS else line
        elif colors:
            line = f"{GREY}{line}{PLAIN}"
        lines.append(line)
        if below and state:
            lines.append(_cut(f"     {row[-1]}", width))
    for master in overview["masters"]:
        if queue := master["queue"]:
            holders = f", the purge is held by {', '.join(queue['held_by'])}" if queue["held_by"] else ""
            lines += ["", f"{master['prefix']} ITEMS {counted(queue['changes'], 'change')}{holders}"]
        lines += messages(master["prefix"], master["messages"], master["prefix"], colors=colors)
        for one in master["slaves"]:
            pair = f"{master['prefix']} → {one['slave']}"
            lines += messages(pair, one["messages"], master["prefix"], one["slave"], colors=colors)
    for broken in overview["broken"]:
        lines += ["", f"{broken['prefix'] or 'a file'}: {counted(len(broken['mistakes']), 'mistake')}"]
        lines += [f"    {mistake}" for mistake in broken["mistakes"]]
    return lines


def details(one: WholeSlave, *, colors: bool) -> list[str]:
    """Lines about one slave. `one`: the content of its `state.json`."""
    shown, found = _shown(one), one["messages"]
    gate = [closure.partition(": ")[0] if says(found, _reason(closure)) else closure for closure in one["closures"]]
    facts = {
        "current as of": _shown_time(one["current_as_of"])
        + (f", {_behind(one)} behind" if one["lag_seconds"] is not None else ""),
        "changes": f"{one['changes_per_second']:,.0f}/s" + (f", {one['changes']:,} so far" if one["changes"] else ""),
        "apply": f"{one['applied_by']}, since {_shown_time(one['since'])}" if one["applying"] else "does not run",
        "safe mode": one["safe_mode"] or "–",
        "gate": "closed: " + "; ".join(gate) if gate else "open",
        "tables": _tables(one),
        "rejects": f"{counted(one['rejected'], 'change')} set aside" if one["rejected"] else "none",
        "verified": f"through {_shown_time(one['verified_through'])}" if one["verified_through"] else "never",
    }
    if one["database"]:
        facts["database"] = one["database"]
    head = f"{_color(shown)}{shown}{PLAIN}" if colors else shown
    sentence = _sentence(one["prefix"], one)
    lines = [f"{one['prefix']} → {one['slave']}: {head}. {sentence[:1].upper()}{sentence[1:]}"]
    lines += [f"    {name:<14} {fact}" for name, fact in facts.items()]
    lines += [f"    {line}" for line in one["load"]]
    lines += [f"    not loaded     {table}: {state}" for table, state in list(one["not_ready"].items())[:TABLES_SHOWN]]
    if one["switches"]:
        lines.append("    who was the master:")
        lines += [f"      {_switch(each)}" for each in one["switches"][-SWITCHES_SHOWN:]]
    events = [event for event in one["events"] if not says(found, _reason(event["text"]))]
    if events:
        lines.append("    what happened last:")
        for event in events[-EVENTS_SHOWN:]:
            lines.append(f"      {_moment(event['at'])}  {at_terminal(event['text'], one['prefix'], one['slave'])}")
    if one["trouble"]:
        lines.append(f"    {one['trouble']}")
    return [*lines, *messages("", found, one["prefix"], one["slave"], colors=colors)]


def _tables(one: SlaveOverview) -> str:
    if not one["tables"]:
        return "not known yet: housekeeping lists them every ten minutes"
    return f"{one['tables']}, {len(one['not_ready'])} not loaded" if one["not_ready"] else str(one["tables"])


def _shown_time(text: str | None) -> str:
    return f"{text[:19].replace('T', ' ')} UTC" if text else "–"


def _switch(one: Mapping[str, str]) -> str:
    refused = f", which refused writes since {_shown_time(one['guarded_at'])}" if one["guarded_at"] else ""
    at = _shown_time(one["at"])
    return f"{at}  {one['master']} in place of {one['former']}{refused}: {one['action']}, by {one['by']}"


def evidence(body: str) -> list[str]:
    """The lines of a question's body, which is Markdown; links are for pages."""
    return [line.replace("**", "") for line in body.splitlines() if line.strip() and "](" not in line]


def _reason(text: str) -> str:
    """What follows who or what it is about: `error (apply, 18:54 UTC): the reason`."""
    head, colon, reason = text.partition(": ")
    return reason if colon else head


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _row(prefix: str, one: SlaveOverview) -> list[str]:
    ready = one["tables"] - len(one["not_ready"])
    tables = f"{ready} of {one['tables']}" if one["not_ready"] else str(one["tables"] or "–")
    return [
        MARKS[one["level"]],
        f"{prefix} → {one['slave']}",
        _shown(one),
        _behind(one),
        f"{one['changes_per_second']:,.0f}" if one["applying"] else "–",
        tables,
        str(len(one["rejects"]) or "–"),
        _sentence(prefix, one),
    ]


def _shown(one: SlaveOverview) -> str:
    return STATES.get(one["state"], one["state"])


def _color(shown: str) -> str:
    return COLORS.get(next((state for state, text in STATES.items() if text == shown), shown), "")


def _sentence(prefix: str, one: SlaveOverview) -> str:
    """What the slave does, in one line; shortened if a message says it."""
    sentence = " ".join(one["sentence"].split())
    head, colon, reason = sentence.partition(": ")
    if colon and head in ("Stopped", "Held") and says(one["messages"], reason):
        return f"{head}, see below"
    return at_terminal(sentence, prefix, one["slave"])


def says(messages: Sequence[MessageData], text: str) -> bool:
    """Whether a message contains the text."""
    expected = " ".join(text.split()).rstrip(".…")
    return bool(expected) and any(expected in " ".join(message["text"].split()) for message in messages)


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


def messages(
    name: str, found: Sequence[MessageData], prefix: str = "", slave: str = "", *, colors: bool = False
) -> list[str]:
    """The findings with the commands that help."""
    lines = []
    for message in found:
        if message["level"] == "fine":
            continue
        mark = MARKS[message["level"]]
        mark = f"{LEVELS[message['level']]}{mark}{PLAIN}" if colors else mark
        text = at_terminal(message["text"], prefix, slave)
        lines.append(f"{mark} {name}: {text}" if name else f"{mark} {text}")
        if message["question"]:
            lines += [f"      {line}" for line in evidence(message["details"])]
            answer = command("approve", prefix, slave)
            lines.append(f"      {answer} --set question={message['question']} --set answer=Approve (or Reject)")
        elif message["remedy"] and prefix and f"{PROGRAM} " not in text:
            tables = message["tables"].splitlines()
            chosen = tables if len(tables) <= TABLES_NAMED else ()
            lines.append(f"      {command(message['remedy'], prefix, slave, chosen)}")
        if message["failed"] and prefix:
            run = shlex.quote(f"run={message['run']}")
            aside = command("put_aside", prefix)
            lines.append(f"      or, if nothing is left to do: {aside} --set dag={message['dag']} --set {run}")
    return lines
