"""Numbers with nouns in messages."""

import ast
import re
from pathlib import Path

import pytest

from sluice.counted import counted, duration, listed

ROOT = Path(__file__).resolve().parents[2]
NOUNS = (
    "blocks changes columns constraints copies days definitions differences files indexes items jobs keys lines "
    "loaders minutes others pairs processes records rejects replications reports rows schemas sequences sessions "
    "slaves slices statements steps tables tasks transactions triggers values windows"
)
PLURAL = re.compile(rf" (more |other |changed )?({NOUNS.replace(' ', '|')})\b(?!/)")
"""A plural right behind a number. Not a rate: `rows/s`."""
FORMAT = re.compile(rf"%[\d.,]*[ds]{PLURAL.pattern}")


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 slaves"), (1, "1 slave"), (2, "2 slaves"), (1_234_567, "1,234,567 slaves")]
)
def test_the_noun_fits_its_number(number: int, told: str) -> None:
    assert counted(number, "slave") == told


def test_a_plural_of_its_own() -> None:
    assert [counted(number, "process", "processes") for number in (1, 2)] == ["1 process", "2 processes"]


def uncounted(text: str) -> list[str]:
    """The places in the code where a number that may be 1 is followed by a plural."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            for value, behind in zip(node.values, node.values[1:], strict=False):
                if isinstance(value, ast.FormattedValue) and isinstance(behind, ast.Constant):
                    told = PLURAL.match(str(behind.value))
                    # A constant of the code is no surprise: its writer knows whether it is 1.
                    constant = isinstance(value.value, ast.Name) and value.value.id.isupper()
                    if told and not constant:
                        found.append(f"{node.lineno}: {{{ast.unparse(value.value)}}}{told[0]}")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [f"{node.lineno}: {told[0]}" for told in FORMAT.finditer(node.value)]
    return found


def test_the_search_finds_what_it_looks_for() -> None:
    assert uncounted('f"{len(x)} tables"') and uncounted('log.info("%d changes", n)') and uncounted('f"{n} more files"')
    assert not uncounted('f"{rate:,.0f} rows/s"') and not uncounted('f"at most {MOST:,} rows"')


@pytest.mark.one_in(3)
@pytest.mark.parametrize("folder", ["plugins", "spark_jobs", "dags"])
def test_every_noun_behind_a_number_is_counted(folder: str) -> None:
    found = [
        f"{file.relative_to(ROOT)}:{place}"
        for file in sorted((ROOT / folder).rglob("*.py"))
        for place in uncounted(file.read_text(encoding="utf-8"))
    ]
    assert not found, "use sluice.counted.counted:\n" + "\n".join(found)


def test_a_list_ends_with_how_many_more_there_are() -> None:
    names = ["a", "b", "c"]
    assert listed([], 2) == "" and listed(names, 3) == "a, b, c"
    assert listed(names, 2) == "a, b and 1 more"
    assert listed(names, 2, "table") == "a, b and 1 table more" and listed(names, 1, "table") == "a and 2 tables more"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-3, "0 s"),
        (0.4, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7_200, "2 h"),
        (172_800, "2 days"),
        (864_000, "10 days"),
    ],
)
def test_a_duration_is_in_the_unit_that_fits(seconds: float, told: str) -> None:
    assert duration(seconds) == told
