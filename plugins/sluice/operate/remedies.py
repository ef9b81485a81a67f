"""What a person does about a finding, in the words of the place where he reads it: a command or a button.

Findings are texts that name a DAG, because logs and notices show them, too: "Start the DAG reconcile_tables with prefix
SHOP_.", "run reconcile_tables", "trigger the DAG failover for slave dr1 with the action abort". A terminal shows the
command in its place, a page the button's label.
"""

import json
import re
import shlex
from collections.abc import Callable, Sequence

from sluice.errors import RESTART_APPLY
from sluice.operate import api
from sluice.operate.actions import ACTIONS, Scope
from sluice.paths import PROGRAM

_SENTENCE = re.compile(
    r"\b(?P<verb>[Ss]tart|[Rr]un|[Tt]rigger) "
    r"(?:the DAG (?P<dag>\w+)|(?P<bare>cdc_apply|initial_update|install_resources|reconcile_tables|resync)\b)"
    r"(?: with prefix (?P<prefix>\w+))?(?:(?:,| for) slave (?P<slave>[^\s,;]*[^\s,;.]))?"
    r"(?: for (?:it|this slave|this prefix))?(?: with the action (?P<action>\w+))?"
)
_TABLES = " and tables "
_MORE = re.compile(r"\[.*?\] \(and [\d,]+ more\)")
_ACTIONS = {
    api.UPDATE: "initiate",
    api.APPLY: "restart",
    api.GATE: "open",
    api.RESYNC: "verify",
    api.REJECTS: "rejects",
    api.RECONCILE: "reconcile",
    api.INSTALL: "install",
    api.FAILOVER: "failover",
}
"""The action that starts the DAG, if the sentence names no tables and no other action."""


def command(action: str, prefix: str, slave: str = "", tables: Sequence[str] = ()) -> str:
    """The command that does an action of the monitor, or `capture_redo`."""
    pair = " ".join(shlex.quote(word) for word in (prefix, slave or "SLAVE"))
    chosen = "".join(f" --tables {shlex.quote(table)}" for table in tables)
    if action == "capture_redo":
        return f"{PROGRAM} capture-redo {prefix}"
    if action == "open":
        return f"{PROGRAM} gate {pair} open"
    if action == "rejects":
        return f"{PROGRAM} rejects {pair}"
    if action == "verify":
        return f"{PROGRAM} verify {pair}{chosen}"
    if action == "repair":
        return f"{PROGRAM} verify {pair} --repair{chosen} --why REASON"
    described = ACTIONS[action]
    why = " --why REASON" if described.why_required else ""
    return f"{PROGRAM} act {action} {pair if described.scope is Scope.SLAVE else prefix}{chosen}{why}"


def at_terminal(text: str, prefix: str, slave: str = "") -> str:
    """The text with commands in place of DAGs. `prefix`, `slave`: of what it is about."""

    def run(action: str, found: re.Match[str], tables: Sequence[str]) -> str:
        words = command(action, found["prefix"] or prefix, found["slave"] or slave, tables)
        chosen = f" --set action={found['action']}" if action == "failover" and found["action"] else ""
        return f"{'R' if found['verb'].istitle() else 'r'}un {words}{chosen}"

    rendered = _replaced(text, run)
    # A full stop would be taken for a part of the command.
    return rendered[:-1] if rendered != text and rendered.endswith(".") else rendered


def on_page(text: str) -> str:
    """The text with the labels of buttons in place of DAGs; DAGs without a button stay."""

    def press(action: str, found: re.Match[str], tables: Sequence[str]) -> str:
        if action not in ACTIONS:
            return found[0]
        chosen = f", {found['action']}" if action == "failover" and found["action"] else ""
        return f"{'U' if found['verb'].istitle() else 'u'}se {ACTIONS[action].label}{chosen}"

    return _replaced(text, press)


def loads_first(text: str) -> list[str]:
    """The tables that the first remedy in the text loads; empty if that is another one."""
    text = text.replace(RESTART_APPLY, f"start the DAG {api.APPLY}")
    found = _SENTENCE.search(text)
    return _tables(text, found.end())[0] or [] if found and api.UPDATE in (found["dag"], found["bare"]) else []


def _replaced(text: str, render: Callable[[str, re.Match[str], Sequence[str]], str]) -> str:
    text = text.replace(RESTART_APPLY, f"start the DAG {api.APPLY}")
    parts, at = [], 0
    for found in _SENTENCE.finditer(text):
        dag = found["dag"] or found["bare"]
        if found.start() < at or (dag not in _ACTIONS and dag != "capture_redo"):
            continue
        tables, end = _tables(text, found.end())
        action = _ACTIONS.get(dag, dag)
        if tables is not None:
            action = "reload"
        elif dag == api.RESYNC and found["action"]:
            action = found["action"]
        parts += [text[at : found.start()], render(action, found, tables or ())]
        at = end
    return "".join([*parts, text[at:]])


def _tables(text: str, start: int) -> tuple[list[str] | None, int]:
    """The tables that follow at `start`, and where they end. None: no tables. Shortened lists name none: the command
    then loads all that is not loaded."""
    if not text.startswith(_TABLES, start):
        return None, start
    begin = start + len(_TABLES)
    try:
        tables, end = json.JSONDecoder().raw_decode(text, begin)
    except ValueError:
        shortened = _MORE.match(text, begin)
        return ([], shortened.end()) if shortened else (None, start)
    return [str(table) for table in tables], end
