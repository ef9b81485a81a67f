"""The README and the pages name only what exists: files, commands, DAGs, statements, keys, names in the code."""

import argparse
import ast
import dataclasses
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from devstack import cli
from sluice.configuration.model import Endpoint, Replication, SlaveConfig
from sluice.configuration.options import DdlOptions, ThrottleOptions, VerifyOptions
from sluice.configuration.redo import RedoOptions
from sluice.configuration.rule import TableRule
from sluice.configuration.section import Options
from sluice.model.conflict_rule import ConflictRule
from sluice.model.slave_state import SlaveState

ROOT = Path(__file__).resolve().parents[2]
BESIDE = [ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES = [ROOT / "README.md", *BESIDE, *sorted((ROOT / "docs").glob("*.md"))]
NO_CONCEPT = (
    "README.md",
    *(page.name for page in BESIDE),
    "glossary.md",
    "configuration.md",
    "xmlblaster-files.md",
    "airflow.md",
    "privileges.md",
    "security.md",
    "connections.md",
    "redo-requirements.md",
    "requirements.md",
    "errors.md",
)
LONGEST = 250
"""Lines of a page; one concept a page needs no more."""

FOLDERS = tuple(
    f"{path.name}/" for path in ROOT.iterdir() if path.is_dir() and path.name not in (".git", ".venv", ".sluice")
)
SQL_FILES = {path.name for path in ROOT.glob("include/sql/*/*.sql")}
DAGS = {
    match
    for path in ROOT.glob("dags/*.py")
    for match in re.findall(r"lifecycle_dag\(\s*\"(\w+)\"", path.read_text(encoding="utf-8"))
}


def kinds(kind: type[Options]) -> Iterator[type[Options]]:
    """A section of the configuration, and its subsections."""
    yield kind
    for one in dataclasses.fields(kind):
        if isinstance(one.default, Options):
            yield from kinds(type(one.default))


KINDS = [each for kind in (Replication, Endpoint, SlaveConfig, TableRule, RedoOptions) for each in kinds(kind)]
DETAILS = {
    ThrottleOptions: ["initial-update.md"],
    VerifyOptions: ["verify.md"],
    DdlOptions: ["definitions.md"],
    RedoOptions: ["redo.md", "redo-proxy.md"],
}
"""Pages with keys that docs/configuration.md leaves to them."""
PLACEHOLDERS = {"${prefix}", "${schema}", "${role}", "${tables}", "${owner}", "${database}", "${pattern}"}


@pytest.fixture(params=PAGES, ids=lambda page: page.name)
def page(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[str]:
    """Fenced blocks of a language, however far they are indented."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", text_of(page), re.MULTILINE | re.DOTALL)
    return ["\n".join(line[len(indent) :] for line in body.split("\n")) for indent, body in found]


def prose(page: Path) -> str:
    return re.sub(r"^ *```.*?^ *```", "", text_of(page), flags=re.MULTILINE | re.DOTALL)


def words(page: Path) -> list[str]:
    """The texts between single backticks, outside of fenced blocks."""
    return re.findall(r"(?<!`)`([^`]+)`(?!`)", re.sub(r"\s+", " ", prose(page)))


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of headings."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def subcommands() -> dict[str, argparse.ArgumentParser]:
    actions = cli.parser()._subparsers._group_actions  # type: ignore[union-attr]
    return dict(actions[0].choices)  # type: ignore[arg-type]


def commands(page: Path) -> Iterator[list[str]]:
    """Every `./sluice …` of a page, split into words."""
    for line in [*words(page), *"\n".join(blocks(page, "sh")).split("\n")]:
        for command in re.split(r"&&|;", line.split(" #")[0]):
            if command.strip().startswith("./sluice"):
                yield command.split()[1:]


def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there), target


def test_every_page_is_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        targets = re.findall(r"\]\(([^)\s#]+\.md)", prose(page))
        waiting += [path for target in targets if (path := (page.parent / target).resolve()) not in reached]
    assert set(PAGES) <= reached


def test_every_page_leads_back_to_the_index_and_the_index_to_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    pages = [page for page in PAGES if page.parent == index.parent and page != index]
    assert [page.name for page in pages if "](README.md)" not in text_of(page)] == []
    assert [page.name for page in pages if f"]({page.name}" not in text_of(index)] == []


def test_files_that_are_named_exist(page: Path) -> None:
    for word in words(page):
        if word.startswith(FOLDERS) and not re.search(r"[<…*]", word):
            assert (ROOT / word.split()[0]).exists(), word


def test_statements_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(r"\b([a-z_0-9]+\.sql)\b", text_of(page))) - {
        "pyspark.sql",
        "schema.sql",
    }  # the other one is the reader's
    assert named <= SQL_FILES


def test_commands_that_are_shown_are_understood(page: Path) -> None:
    known = subcommands()
    for command in commands(page):
        if not command or command[0] == "setup":  # handled before the command line is
            continue
        assert command[0] in known, command
        if command[0] != "test":
            options = known[command[0]].format_help()
            assert all(option in options for option in command if option.startswith("--")), command


def test_options_that_are_named_exist(page: Path) -> None:
    helps = "".join(parser.format_help() for parser in (cli.parser(), *subcommands().values()))
    for word in words(page):
        if word.startswith("--"):
            assert word.split()[0] in helps, word


def test_tests_that_are_shown_as_arguments_exist(page: Path) -> None:
    for command in commands(page):
        for argument in command:
            if argument.startswith("tests/"):
                assert (ROOT / argument).exists(), argument


def test_dags_that_are_named_exist(page: Path) -> None:
    candidates = re.findall(r"DAGs? `(\w+)`", prose(page)) + re.findall(r"\btrigger `(\w+)`", prose(page))
    assert set(candidates) <= DAGS


def test_the_readme_names_every_dag() -> None:
    named = set(re.findall(r"\w+", text_of(ROOT / "README.md") + (ROOT / "docs/img/lifecycle.svg").read_text()))
    assert named >= DAGS


def test_names_of_the_code_exist(page: Path) -> None:
    for name in re.findall(r"\bsluice(?:\.[a-zA-Z_]+)+", " ".join(words(page))):
        if name in ("sluice.origin",):
            continue
        *modules, last = name.split(".")
        file = ROOT.joinpath("plugins", *modules).with_suffix(".py")
        folder = ROOT.joinpath("plugins", *modules)
        inside = folder / f"{last}.py"
        if not file.exists() and not inside.exists():
            file = folder / "__init__.py"
        assert inside.exists() or re.search(rf"^(?:def|class) {last}\b|^{last}\b", file.read_text(), re.MULTILINE), name


def test_examples_parse(page: Path) -> None:
    for block in blocks(page, "yaml"):
        assert isinstance(yaml.safe_load(block), dict)
    for block in blocks(page, "python"):
        ast.parse(block)
    for block in blocks(page, "sh"):
        assert set(re.findall(r"\$\{\w+\}", block)) <= PLACEHOLDERS


def test_python_examples_use_what_exists(page: Path) -> None:
    for block in blocks(page, "python"):
        head = "\n".join(line for line in block.split("\n") if line.startswith(("import ", "from ")))
        exec(compile(head, page.name, "exec"), {})


def test_the_example_of_a_replication_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sluice import config

    (block,) = blocks(ROOT / "README.md", "yaml")
    (tmp_path / "SHOP.yaml").write_text(block)
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    assert config.load("SHOP_").slave("dr1").vendor == "postgres"


def test_keys_of_the_configuration_exist(page: Path) -> None:
    """Words that look like a key with its value, and those that begin as keys do."""
    known = {field.name for kind in (*KINDS, ConflictRule) for field in dataclasses.fields(kind)}
    for word in words(page):
        key = re.fullmatch(r"([a-z_]+): (?:true|false|\w+)", word)
        if key:
            assert key[1] in known, word
    explained = {
        "on_conflict",
        "existing_tables",
        "safe_mode",
        "max_batch_changes",
        "checkpoint_interval",
        "block_rows",
    }
    assert explained <= known


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_key_of_the_configuration_is_described(kind: type[Options]) -> None:
    pages = ("configuration.md", *DETAILS.get(kind, ()))
    described = "".join(text_of(ROOT / "docs" / page) for page in pages)
    for one in dataclasses.fields(kind):
        if one.metadata:
            assert re.search(rf"(?<![\w.]){one.name}:|`[^`\n]*\b{one.name}\b[^`\n]*`", described), one.name


def test_states_are_spelt_as_in_the_code(page: Path) -> None:
    drawn = set(re.findall(r"\b(UNCONFIG\w+|INITIAL\w*|TRANSITION\w*|NORMAL\w*|INCONSIST\w+)\b", text_of(page)))
    assert drawn <= {*map(str, SlaveState), "INITIAL_UPDATE"}


def test_sql_examples_name_existing_tables(page: Path) -> None:
    made = "".join(path.read_text() for path in ROOT.glob("include/sql/postgres/*.sql"))
    for block in blocks(page, "sql"):
        for name in re.findall(r"public\.demo_(\w+)", block):
            assert "${prefix}" + name in made, name


def test_pages_are_short_and_lines_fit(page: Path) -> None:
    lines = text_of(page).split("\n")
    assert len(lines) <= LONGEST
    for line in lines:
        if not line.startswith(("|", "   |")):
            assert len(line) <= 130, line


def test_every_page_of_a_concept_has_a_picture_and_says_what_a_crash_does() -> None:
    for page in PAGES:
        if page.name not in NO_CONCEPT:
            assert "```\n" in text_of(page) or ".svg)" in text_of(page), page.name
            assert "## What if it crashes here?" in text_of(page), page.name


def test_the_picture_is_readable_in_light_and_dark() -> None:
    for picture in (ROOT / "docs/img").glob("*.svg"):
        ET.parse(picture)
        assert "prefers-color-scheme: dark" in picture.read_text(), picture.name
