"""Which tables are captured as soon as they are made, as INFO has it for the event triggers (`ddl.sql`).

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
from sluice.database.session import Session
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import quoted


def note_wildcards(connection: Session, prefix: Prefix, schema: str, lines: Sequence[Line], *, keyed: bool) -> bool:
    """So that event triggers know what `lines` mean; False when it is noted already."""
    info, value = quoted(schema, f"{prefix.lower}info"), noted(lines, keyed=keyed)
    if value is None:
        return connection.execute(f"DELETE FROM {info} WHERE name = 'wildcards'").rowcount > 0
    cursor = connection.execute(
        f"INSERT INTO {info} AS i (name, value) VALUES ('wildcards', %s) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE i.value <> excluded.value",
        [value],
    )
    return cursor.rowcount > 0


def noted(lines: Sequence[Line], *, keyed: bool) -> str | None:
    """What INFO says of these lines; None where no table is to be captured at once."""
    if not any(line.actions for line in lines):
        return None
    return json.dumps(
        {
            "lines": [
                {
                    "schema": line.pattern.schema,
                    "name": _meaning(line.pattern),
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


def _meaning(pattern: TablePattern) -> str:
    return regular_expression(pattern.name) if pattern.wildcard else f"^{escaped(pattern.name)}$"


def regular_expression(wildcard: str) -> str:
    """What `*`, `?` and `[…]` of a file name mean, as PostgreSQL's regular expressions have it."""
    found, place = "", 0
    while place < len(wildcard):
        letter = wildcard[place]
        place += 1
        end = _end_of_set(wildcard, place) if letter == "[" else -1
        if end >= 0:
            found += _set(wildcard[place:end])
            place = end + 1
        else:
            found += {"*": ".*", "?": "."}.get(letter) or escaped(letter)
    return f"^{found}$"


def escaped(text: str) -> str:
    """A regular expression for this text alone."""
    return "".join(f"\\{letter}" if letter in punctuation else letter for letter in text)


def _end_of_set(wildcard: str, start: int) -> int:
    """Where the bracket closes that was opened before `start`; -1: it does not, and is a letter as any other."""
    first = start + wildcard.startswith("!", start)
    return wildcard.find("]", first + wildcard.startswith("]", first))


def _set(inside: str) -> str:
    """What stands between brackets: letters and ranges of them; those behind `!` are left out."""
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
