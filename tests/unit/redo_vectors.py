"""Real output of OpenLogReplicator, with what Oracle's LogMiner says of the same transactions.

It is no part of this repository (its license is another one): it lies in `shared/vectors` beside a checkout, where
somebody has put it. It was written with fewer details than docs/redo.md asks for, so what the format would have said
is added here: the columns of each table, and their types.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.airflow_home import ROOT

OWNER = "OLR_TEST"
KEYS = {"TEST_ORDERS": ["ORDER_ID"], "TEST_ITEMS": ["ITEM_ID"], "TEST_AUDIT": ["AUDIT_ID"]}
"""The primary keys that are not ID."""
_TYPES = {
    "COL_DATE": "date",
    "COL_TIMESTAMP": "timestamp",
    "COL_RAW": "raw",
    "ORDER_DATE": "date",
    "COL_CHAR": "char",
    "COL_FLOAT": "binary_float",
    "COL_DOUBLE": "binary_double",
    "IS_ACTIVE": "boolean",
    "IS_VERIFIED": "boolean",
    ("TEST_NULLS", "COL_C"): "date",
    **{("TEST_MANY_COLS", f"COL_{number}"): "date" for number in (21, 22, 23)},
    **{("TEST_MANY_COLS", f"COL_{number}"): "timestamp" for number in (24, 25)},
}


@cache
def place() -> Path | None:
    """The folder of the vectors."""
    found = (parent / "shared" / "vectors" for parent in ROOT.parents)
    return next((each for each in found if (each / "olr").is_dir()), None)


def scenarios() -> list[str]:
    there = place()
    return sorted(each.name for each in (there / "olr").iterdir()) if there is not None else ["none"]


def required() -> Path:
    there = place()
    if there is None:
        pytest.skip("no shared/vectors beside the checkout: the real output of OpenLogReplicator is not there")
    return there


def columns(scenario: str) -> dict[str, list[dict[str, Any]]]:
    """The columns of each table, from all that its messages name."""
    found: dict[str, dict[str, object]] = {}
    for payload in _payloads(scenario):
        names = found.setdefault(payload["schema"]["table"], {})
        for image in ("before", "after"):
            names |= payload.get(image, {})
    for change in references(scenario):
        for image in ("before", "after"):
            found[change["table"]] |= dict.fromkeys(change.get(image, {}), "")
    return {
        table: [{"name": name, "type": _type(table, name, value)} for name, value in names.items()]
        for table, names in found.items()
    }


def lines(scenario: str) -> list[str]:
    """The output, with the columns of each table."""
    known = columns(scenario)
    made = []
    for line in (required() / "olr" / scenario / "output.json").read_text().splitlines():
        for table, described in known.items():
            plain = f'"schema":{{"owner":"{OWNER}","table":"{table}"}}'
            more = json.dumps(described, separators=(",", ":"))
            line = line.replace(plain, f'{plain[:-1]},"columns":{more}}}')
        made.append(line)
    return made


def transactions(scenario: str) -> list[list[str]]:
    """The lines of each transaction, in the order of commits."""
    found: list[list[str]] = []
    for line in lines(scenario):
        if '"op":"begin"' in line:
            found.append([])
        found[-1].append(line)
    return found


def keys(scenario: str) -> dict[tuple[str, str], list[str]]:
    return {(OWNER, table): KEYS.get(table, ["ID"]) for table in columns(scenario)}


def references(scenario: str) -> list[dict[str, Any]]:
    """LogMiner's rows."""
    text = (required() / "olr" / scenario / "logminer-reference.json").read_text()
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def _payloads(scenario: str) -> Iterator[Mapping[str, Any]]:
    for line in (required() / "olr" / scenario / "output.json").read_text().splitlines():
        payload = json.loads(line)["payload"][0]
        if "schema" in payload:
            yield payload


def _type(table: str, name: str, value: object) -> str:
    return _TYPES.get((table, name)) or _TYPES.get(name) or ("varchar2" if isinstance(value, str) else "number")
