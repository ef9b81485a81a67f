"""Each file of include/sql/oracle was parsed as it is, by a parser of Oracle's dialect that refuses broken text.

It takes minutes, so every run compares the files with the record of what was parsed. The long tier parses all of them
again, and asks the parser whether it refuses what is broken.
"""

from pathlib import Path

import pytest

from tests.oracle import parse, sql_units

AGAIN = "parse it and look at what is refused: PYTHONPATH=plugins .venv/bin/python -m tests.oracle.parse"

REFUSED: dict[str, str] = {}
"""Texts that the parser does not understand, and why they are right all the same. It may only get shorter."""


@pytest.mark.parametrize("name", sql_units.names())
def test_a_file_was_parsed_as_it_is(name: str) -> None:
    record = parse.record()
    for unit, text in sql_units.units(name).items():
        assert unit in record and record[unit]["sha256"] == parse.digest(text), f"{unit} has changed: {AGAIN}"


def test_the_triggers_that_a_server_made_were_parsed_as_they_are() -> None:
    record, found = parse.record(), parse.made_triggers()
    assert len(found) == 2
    for name, text in found.items():
        assert record[name]["sha256"] == parse.digest(text), f"{name} has changed: {AGAIN}"


def test_the_record_holds_nothing_else_and_names_what_is_refused() -> None:
    record = parse.record()
    assert set(record) == set(parse.units()), AGAIN
    assert {name for name, parsed in record.items() if parsed["refused"]} == set(REFUSED)


BROKEN = {
    "a missing semicolon": "BEGIN\n    x := 1\n    y := 2;\nEND;\n",
    "an unknown statement": "BEGIN\n    FOO BAR BAZ;\nEND;\n",
    "an unknown keyword": "CREATE OR REPLACE TRIGGER t AFTER INSRT ON x FOR EACH ROW\nBEGIN\n    NULL;\nEND;\n",
    "an unknown object": "CREATE TABLEX foo (a NUMBER);\n",
    "an IF without its end": "BEGIN\n    IF a = 1 THEN NULL; END;\nEND;\n",
    "a bracket too many": "SELECT (a)) FROM b;\n",
}


@pytest.mark.long
def test_the_parser_refuses_broken_text() -> None:
    found = dict(parse.parse(BROKEN))
    assert [name for name in BROKEN if not found[name]["refused"]] == []


@pytest.mark.long
def test_the_parser_confirms_the_record() -> None:
    assert dict(parse.parse(parse.units())) == parse.record()


def test_a_broken_file_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison with the record cannot pass for a text that nobody parsed."""
    (tmp_path / "oracle").mkdir()
    (tmp_path / "oracle" / "position_draw.sql").write_text("SELECT ${prefix}SEQ.NEXTVAL FORM DUAL\n")
    monkeypatch.setenv("SLUICE_SQL", str(tmp_path))
    with pytest.raises(AssertionError, match="position_draw 1 has changed"):
        test_a_file_was_parsed_as_it_is("position_draw")
