"""Schemas of a master; a slave gets the tables of each in another way."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Otherwise:
    """How a slave gets the tables of a schema: by lines of the configuration, and as SQL on the master."""

    line: Mapping[str, Any] = field(default_factory=dict)
    row: str = "to_jsonb(t)"
    where: str = "true"
    schema: str | None = None
    """On the slave."""


EXIT = """
import pyarrow.compute as pc

def rows(given):
    return given.filter(pc.invert(pc.ends_with(given['id'], '7')))
"""
PLAIN = Otherwise()
BY_SCHEMA = {
    "plain": PLAIN,
    "filtered": Otherwise({"where": "id % 3 <> 0 OR v LIKE 'new%'"}, where="id % 3 <> 0 OR v LIKE 'new%'"),
    "mapped": Otherwise(
        {
            "columns": {
                "v": {"rename": 'V "v"'},
                "secret": {"exclude": "true"},
                "twice": {"expression": "id * 2"},
                "origin": {"constant": "master"},
            }
        },
        row="""to_jsonb(t) - '{v,secret}'::text[] || jsonb_build_object('V "v"', v, 'twice', id * 2,
            'origin', 'master')""",
    ),
    "Placed ]]>": Otherwise({"target": {"schema": 'else "where"'}}, schema='else "where"'),
    "given": Otherwise(
        {
            "where": "v <> 'out'",
            "columns": {"secret": {"exclude": "true"}},
            "exit": "history_exit:rows",
            "target": {"schema": "select"},
        },
        row="to_jsonb(t) - 'secret'",
        where="v <> 'out' AND right(id::text, 1) <> '7'",
        schema="select",
    ),
}
