"""Notes in INFO which tables the event triggers (`ddl.sql`) capture as soon as they are made.

INFO.VALUE under `wildcards` is JSON: `lines`, of which the first that matches counts, each with `schema`, `name` (a
regular expression of PostgreSQL), `actions` (null: not captured) and `debug`; `keyed`, whether it needs a primary key;
and the endings of names of Sluice's own tables.
"""

import json
from collections.abc import Sequence
from string import punctuation

from sluice.configuration.resolve import MASTER_TABLES, SLAVE_TABLES
from sluice.configuration.rule import TablePattern
from sluice.database.capture import Line


def noted(lines: Sequence[Line], *, keyed: bool) -> str | None:
    """The value of INFO for these lines; None where no table is to be captured at once."""
    if not any(line.actions for line in lines):
        return None
    return json.dumps(
        {
            "lines": [
                {
                    "schema": line.pattern.schema,
                    "name": _regular(line.pattern),
                    "actions": "".join(action for action in "IUD" if action in line.actions) or None,
                    "debug": int(line.debug),
                }
                for line in lines
            ],
            "keyed": keyed,
            "master": sorted(f"_{name}" for name in MASTER_TABLES),
            "slave": [*sorted(f"_{name}$" for name in SLAVE_TABLES), r"_stage_\d+_\d+_\w+$"],
        }
    )


def _regular(pattern: TablePattern) -> str:
    return regular_expression(pattern.name) if pattern.wildcard else f"^{escaped(pattern.name)}$"


def regular_expression(wildcard: str) -> str:
    """A file name pattern with `*`, `?` and `[…]` as a regular expression of PostgreSQL."""
    expression, place = "", 0
    while place < len(wildcard):
        letter = wildcard[place]
        place += 1
        end = _end_of_set(wildcard, place) if letter == "[" else -1
        if end >= 0:
            expression += _set(wildcard[place:end])
            place = end + 1
        else:
            expression += {"*": ".*", "?": "."}.get(letter) or escaped(letter)
    return f"^{expression}$"


def escaped(text: str) -> str:
    """A regular expression that matches only this text."""
    return "".join(f"\\{letter}" if letter in punctuation else letter for letter in text)


def _end_of_set(wildcard: str, start: int) -> int:
    """The place of the closing bracket of the one before `start`; -1 without one: the bracket is a letter then."""
    first = start + wildcard.startswith("!", start)
    return wildcard.find("]", first + wildcard.startswith("]", first))


def _set(inside: str) -> str:
    """The regular expression for the letters and ranges between brackets; `!` negates them."""
    negated, rest = inside.startswith("!"), inside.removeprefix("!")
    members, place = "", 0
    while place < len(rest):
        if rest[place + 1 : place + 2] == "-" and place + 2 < len(rest):
            first, last = rest[place], rest[place + 2]
            members += f"{escaped(first)}-{escaped(last)}" if first <= last else ""
            place += 3
        else:
            members += escaped(rest[place])
            place += 1
    if not members:
        return "." if negated else "(?!)"
    return f"[{'^' if negated else ''}{members}]"
