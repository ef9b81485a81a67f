"""The statements in files."""

import re
from pathlib import Path

import pytest

from sluice import sql_files

FILES = sorted(sql_files.folder().rglob("*.sql"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_statement_is_ascii_because_databases_of_other_encodings_read_it(file: Path) -> None:
    """The header is no part of the statement, and may contain any character."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("--")]
    assert [line for line in lines if not line.isascii()] == []


def parameters(file: Path) -> set[str]:
    """The parameters of the statement."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("--")]
    return set(re.findall(r"%\((\w+)\)s", "\n".join(lines)))


COMMON = {file.name: file for file in FILES if file.parent.name == "common"}


@pytest.mark.parametrize(
    "file",
    [file for file in FILES if file.parent.name != "common" and file.name in COMMON],
    ids=lambda file: f"{file.parent.name}-{file.stem}",
)
def test_a_vendors_own_wording_of_a_common_statement_uses_all_that_it_is_given(file: Path) -> None:
    """A parameter that was added only to the common one would be lost on that vendor's slaves, without an error."""
    assert parameters(file) == parameters(COMMON[file.name])


def test_a_name_that_holds_the_end_of_a_text_in_dollar_quotes_stays_a_name() -> None:
    table = '"a $sluice$; DROP TABLE b; $sluice_$"'
    made = sql_files.render("postgres", "guard_lay", prefix="demo_", schema='"x$s$"', function="f", table=table)
    assert table in made
    assert made.replace(table, "").count("$sluice__$") == 2 and "$sluice$" not in made.replace(table, "")
    plain = sql_files.render("postgres", "guard_lay", prefix="demo_", schema="x", function="f", table="t")
    assert plain.count("$sluice$") == 2


def test_statements_with_long_lists_of_keys_are_not_kept() -> None:
    """A window's lists of keys never return: 512 of them would take gigabytes."""
    sql_files._rendered_once.cache_clear()
    name = next(file.stem for file in FILES if file.parent.name == "postgres" and "${window}" in file.read_text())
    text = dict.fromkeys(
        re.findall(r"\$\{(\w+)\}", sql_files.folder().joinpath("postgres", f"{name}.sql").read_text()), "x"
    )
    sql_files.render("postgres", name, **text)
    sql_files.render("postgres", name, **{**text, "window": "k" * 100_000})
    assert sql_files._rendered_once.cache_info().currsize == 1
