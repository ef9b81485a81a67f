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


def parameters(statement: str) -> set[str]:
    """The parameters of the statement."""
    return set(re.findall(r"%\((\w+)\)s", statement))


STATEMENTS = {(file.parent.name, name): text for file in FILES for name, text in sql_files.statements(file).items()}


def test_a_statement_is_found_by_its_name_and_is_there_once() -> None:
    assert len(STATEMENTS) == sum(len(sql_files.statements(file)) for file in FILES)
    for (vendor, name), text in STATEMENTS.items():
        assert sql_files._read_statement(sql_files.folder(), vendor, name)[0] == text


@pytest.mark.parametrize(
    ("vendor", "name"), [place for place in STATEMENTS if place[0] != "common" and ("common", place[1]) in STATEMENTS]
)
def test_a_vendors_own_wording_of_a_common_statement_uses_all_that_it_is_given(vendor: str, name: str) -> None:
    """A parameter that was added only to the common one would be lost on that vendor's slaves, without an error."""
    assert parameters(STATEMENTS[vendor, name]) == parameters(STATEMENTS["common", name])


def test_the_head_of_a_statement_names_callers_that_exist() -> None:
    library = Path(sql_files.__file__).parent.parent
    called = {
        module
        for file in FILES
        for line in re.findall(r"^-- Called by:.*$", file.read_text(encoding="utf-8"), re.MULTILINE)
        for module in re.findall(r"sluice(?:\.\w+)+", line)
    }
    assert called and not [each for each in called if not is_there(library, each)]


def is_there(library: Path, name: str) -> bool:
    """Whether it is a package, a module, or something in one."""
    parts = name.split(".")
    modules = (Path(library, *parts[:count]).with_suffix(".py") for count in range(2, len(parts) + 1))
    return Path(library, *parts).is_dir() or any(module.is_file() for module in modules)


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
    found = (
        (name, text) for (vendor, name), text in STATEMENTS.items() if vendor == "postgres" and "${window}" in text
    )
    name, statement = next(found)
    text = dict.fromkeys(re.findall(r"\$\{(\w+)\}", statement), "x")
    sql_files.render("postgres", name, **text)
    sql_files.render("postgres", name, **{**text, "window": "k" * 100_000})
    assert sql_files._rendered_once.cache_info().currsize == 1
