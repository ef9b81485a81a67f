"""What a rehearsal decides without a server: where statements end, what differs, what is found."""

import argparse
import fcntl
import json
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devstack import cli
from devstack.rehearse import command
from devstack.rehearse import report as reports
from devstack.rehearse.arguments import add_arguments
from devstack.rehearse.course import difference
from devstack.rehearse.definitions import roles_of
from devstack.rehearse.script import Kind, read, split
from devstack.rehearse.servers import FOLDER, LOCK, remove_left
from sluice.airflow import kept_rehearsals
from sluice.errors import Terminal
from sluice.verify.rehearsal import (
    SHOWN,
    Followed,
    Kept,
    Lock,
    Outcome,
    Report,
    Side,
    Step,
    Table,
    Waits,
    page,
    to_keep,
    without_rows,
)
from sluice.verify.rehearsal import read as read_report
from tests.unit.test_monitor import replication

OWN = ("rehearsal_", "sluice")


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("SELECT 1; SELECT 2;\n", ["SELECT 1;", " SELECT 2;"]),
        ("SELECT ';', E'\\';', \";\", $$;$$, $a$;$$;$a$ /* ; /* ; */ ; */ -- ;\n;", None),
        ("CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2);", None),
        ("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END;", None),
        ("COPY t (a) FROM stdin;\n1;\n'\n\\.\nSELECT 1;", ["COPY t (a) FROM stdin;\n1;\n'\n\\.", "SELECT 1;"]),
        ("\\copy t from stdin\n1;'\n\\.\nSELECT 1;", ["\\copy t from stdin\n1;'\n\\.", "SELECT 1;"]),
        ("COPY t FROM stdin;\r\n1;\r\n\\.\r\nSELECT 1;", ["COPY t FROM stdin;\r\n1;\r\n\\.", "SELECT 1;"]),
        ("COPY t FROM stdin;\n1\n2", ["COPY t FROM stdin;\n1\n2\n\\."]),
        ("\\restrict abc\n\nSELECT 1;\n\\unrestrict abc\n", ["SELECT 1;"]),
        ("SELECT E'a''b\\';' || 'c''d;', \"e\"\";\";", None),
        ("\\set x 1\nSELECT :x \\gset\nSELECT 2;", ["\\set x 1", "SELECT :x \\gset", "SELECT 2;"]),
        ("\\if true\nSELECT 1;\n\\endif\nSELECT 3;", ["\\if true\nSELECT 1;\n\\endif", "SELECT 3;"]),
        ("SELECT 1 \\; SELECT 2;", None),
        ("SELECT 1; -- the end", ["SELECT 1;"]),
        ("BEGIN; CREATE TABLE t (a int); END;", ["BEGIN;", " CREATE TABLE t (a int);", " END;"]),
    ],
)  # fmt: skip
def test_statements_end_where_psql_ends_them(script: str, statements: list[str] | None) -> None:
    assert [statement.text for statement in split(script)] == (statements or [script])


def test_a_statement_that_the_end_of_the_file_leaves_open_is_sent() -> None:
    (statement,) = split("\nSELECT 1 -- one")
    assert (statement.text, statement.line, statement.short) == ("SELECT 1 -- one\n;", 2, "SELECT 1")


def test_a_script_is_read_as_it_is_and_one_in_utf_16_is_named(tmp_path: Path) -> None:
    file = tmp_path / "m.sql"
    file.write_bytes(b"\xef\xbb\xbf-- caf\xe9\r\nSELECT 'caf\xe9'; SELECT 2;")
    first, second = read(file)
    assert first.text.encode(errors="surrogateescape") == b"-- caf\xe9\r\nSELECT 'caf\xe9';"
    assert (first.line, first.short, second.line) == (2, "SELECT 'caf\ufffd'", 2)
    file.write_text("SELECT 1;", encoding="utf-16")
    with pytest.raises(Terminal, match="Save it in UTF-8"):
        read(file)


def test_files_beside_a_script_are_found_from_anywhere(tmp_path: Path) -> None:
    (script := tmp_path / "all.sql").write_text("\\ir one.sql\n")
    (statement,) = read(script)
    assert statement.text == f"\\i '{tmp_path / 'one.sql'}'" and statement.kind is Kind.PSQL


def test_times_uuids_processes_and_our_triggers_make_no_difference_and_our_warnings_do() -> None:
    told = 'Asynchronous notification "c" received from server process with PID'
    plain = Outcome(
        f" 2026-01-01 10:00:00.123+00 | 0d6e1b2c-0000-4000-8000-000000000001\n(1 row)\n{told} 41.\n", "00000", 1
    )
    captured = Outcome(
        " 2026-01-01 10:00:05.5421+00 | ffffffff-0000-4000-8000-000000000002 \nTriggers:\n rehearsal_t AFTER\n"
        f"(2 rows)\n{told} 1042.\n",
        "00000", 2,
    )  # fmt: skip
    assert difference(plain, captured, OWN) == []
    warned = Outcome(plain.output + "WARNING:  sluice says\n", "00000", 1)
    assert difference(plain, warned, OWN) == ["+ WARNING: sluice says"]
    assert difference(Outcome("", "00000"), Outcome("", "42P01"), OWN) == ["- SQLSTATE 00000", "+ SQLSTATE 42P01"]


def test_findings_name_the_statement_that_causes_them() -> None:
    fine, failed = Outcome("", "00000", 1, 0.01), Outcome("ERROR:  no\n", "23505", 0, 0.01, error="ERROR:  no")
    steps = [
        Step("a.sql", 1, "SELECT 1", Side(0, fine), Side(0, fine)),
        Step("a.sql", 2, "DELETE", Side(0, failed), Side(0, failed)),
        Step("a.sql", 3, "ALTER", Side(0, fine), Side(0, failed), ["+ ERROR"]),
        Step("a.sql", 3, "SET", Side(0, fine), Side(0, fine), followed=[Followed("t", None, stopped="no")]),
        Step("a.sql", 4, "DROP", Side(0, fine), Side(0, fine), followed=[Followed("s", None, {"public.t": "absent"})]),
    ]
    found = reports.of_steps(steps)
    assert [(one.kind, one.place) for one in found] == [
        ("fails", "a.sql:2"), ("differs", "a.sql:3"), ("stopped", "a.sql:3"),
        ("left out", "a.sql:4"), ("behind", "a.sql:4"),
    ]  # fmt: skip
    tables = [
        Table("s", "public.t", 1, "absent"),
        Table("s", "public.u", 1, "different"),
        Table("s", "v", 1, "identical"),
    ]
    assert [one.place for one in reports.of_tables(tables, found)] == ["s: public.u"]


def test_the_page_stands_alone_and_escapes() -> None:
    outcome = Outcome("<b>", "00000", 1, 0.5)
    lock = Lock("public.t", "AccessExclusiveLock", 0.1, 0.2)
    step = Step("a.sql", 1, "SELECT '<i>'", Side(0, outcome, [lock]), None, ["+ <u>"], followed=[Followed("s", 0.1)])
    report = Report("a.sql", 18, [step], [Table("s", "t", 3, "identical")], reports.of_steps([step]))
    report.waits["plain"] = Waits(3, 0.5, 0.1, {"ERROR <x>": 2})
    report.equal_after["s"] = None
    text = page(report)
    assert "SELECT &#39;&lt;i&gt;&#39;" in text and "<i>'" not in text and "<u>" not in text and "<x>" not in text
    assert "http" not in text and "<script" not in text and "prefers-color-scheme: dark" in text
    assert any("has not followed" in line for line in reports.lines(report))
    assert report.as_dict()["steps"][0]["plain"]["outcome"]["seconds"] == 0.5


def whole_report() -> Report:
    """One with everything, and HTML in every text."""
    odd = "<b>\"&'</b>"
    outcome = Outcome(f"{odd} 4711-secret", "23505", 1, 0.5, False, "ERROR:  4711-secret")
    side = Side(0.0, outcome, [Lock(odd, odd, 0.1, 0.2)])
    followed = Followed(odd, None, {odd: "inconsistent: “4711-secret”"}, odd)
    step = Step(odd, 1, f"{odd} SET a = '4711-secret'", side, side, ["+ 4711-secret"], -3, -4, [followed])
    report = Report(odd, 18, [step], [Table(odd, odd, 3, odd, odd)], reports.of_steps([step]), notes=[odd])
    report.waits["plain"] = Waits(3, 0.5, 0.1, {"ERROR 4711-secret": 2, "ERROR 4711-secret <b>": 3})
    report.equal_after[odd] = None
    report.prefix, report.began = "DEMO_", "2026-12-01T12:00:00+02:00"
    return report


def test_a_report_is_read_as_it_was_written_and_shown_as_text() -> None:
    report = whole_report()
    again = read_report(Report, json.dumps(report.as_dict()))
    assert again == replace(report, began="2026-12-01T10:00:00+00:00")
    text = page(again, Kept("<i>", "2026-12-01T13:00:00+00:00", again))
    assert (
        "<b>&" not in text and '<b>"' not in text and "<i>," not in text and "kept by &lt;i&gt; 2026-12-01 13" in text
    )
    assert "4711-secret" in text


def paths_in(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield from paths_in(each, (*path, name))


def test_a_report_that_was_changed_anywhere_is_refused_or_shown_as_text() -> None:
    written = json.dumps(whole_report().as_dict())
    refused = 0
    for path in paths_in(json.loads(written)):
        for wrong in (None, [None], {"x": 1}, True, -1e300, 10**30, '<script>"'):
            told: dict[str, Any] = {"": json.loads(written)}
            at: Any = told
            for name in ("", *path[:-1])[: len(path)]:
                at = at[name]
            at[path[-1] if path else ""] = wrong
            try:
                report = read_report(Report, json.dumps(told[""]))
            except Terminal as error:
                refused += error.code == "report-refused" and str(error).startswith("report")
            else:
                assert "<script>" not in page(report) + page(without_rows(report))
    assert refused > 350


@pytest.mark.parametrize(
    ("path", "wrong", "said"),
    [
        (("title",), 7, "report.title is no text"),
        (("began",), "yesterday", "report.began is no time with a time zone"),
        (("began",), "0001-01-01T00:00:00+14:00", "report.began is no time with a time zone"),
        (("release",), True, "report.release is no whole number"),
        (("steps", 0, "items"), 1.5, "report.steps[0].items is no whole number"),
        (("steps", 0, "captured", "outcome", "seconds"), -1, "report.steps[0].captured.outcome.seconds is negative"),
        (("steps", 0, "plain", "began"), 1e300, "report.steps[0].plain.began is too large"),
        (("steps", 0, "plain", "ended"), 0, "report.steps[0].plain.ended is not known"),
        (("given_rows",), None, "report.given_rows is neither true nor false"),
        (("notes",), "x", "report.notes is no list"),
        (("waits",), [], "report.waits is no object"),
        (("format",), 2, "report.format is not 1: another release wrote it"),
        (("<script>",), 1, "report.<script> is not known"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_report_is_named_with_its_place_and_remedy(
    path: Sequence[str | int], wrong: object, said: str
) -> None:
    told = at = whole_report().as_dict()
    for name in path[:-1]:
        at = at[name]  # type: ignore[index]
    at[path[-1]] = wrong  # type: ignore[index]
    with pytest.raises(Terminal, match=rf"^{re.escape(said)}.*\. Take the file of .*--json FILE"):
        read_report(Report, json.dumps(told))


@pytest.mark.parametrize(
    "text",
    [
        b"", b"\xff\xfe", b"[" * 100_000, b'{"title": NaN}', b"9" * 5000, b"null", b"[]", b'"<script>"',
        b'{"format": 1, "\\ud800": 1}', b'{"format": 2}', b'{"format": true}',
    ],
)  # fmt: skip
def test_what_is_no_report_is_refused(text: bytes) -> None:
    with pytest.raises(Terminal) as refused:
        read_report(Report, text)
    assert refused.value.code == "report-refused" and str(refused.value).encode()


def test_values_of_rows_are_hidden_in_everything_that_servers_say() -> None:
    text = page(without_rows(whole_report()))
    assert "4711-secret" not in text and "•••" in text and "5 times •••" in text and "inconsistent" in text


def test_what_is_kept_is_of_the_replication_and_has_no_given_rows(tmp_path: Path) -> None:
    demo, report = replication(), whole_report()
    for prefix, said in (("", "of no replication: it was made without a PREFIX"), ("SHOP_", "of SHOP_")):
        with pytest.raises(Terminal, match=f"The report is {said}") as refused:
            kept_rehearsals.keep(replace(report, prefix=prefix), demo, "anna", tmp_path)
        assert refused.value.code == "report-refused" and not any(tmp_path.iterdir())
    report.steps[0].text = "x" * 10_000
    assert len(to_keep(report, demo).steps[0].text) == SHOWN and "4711-secret" in str(to_keep(report, demo))
    made = to_keep(replace(report, given_rows=True), demo)
    assert "4711-secret" not in str(made) and "not made up" in made.notes[-1]


def test_reports_are_kept_side_by_side_for_their_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    demo, report = replication(), whole_report()
    assert kept_rehearsals.latest(demo.prefix) == [] and not any(tmp_path.iterdir())
    with ThreadPoolExecutor(4) as writers:
        names = [*writers.map(lambda _: kept_rehearsals.keep(report, demo, "anna"), range(8))]
    folder = kept_rehearsals.folder_in(tmp_path, demo.prefix)
    assert {file.name for file in folder.iterdir()} == {f"{name}.json" for name in names}
    assert folder.stat().st_mode & 0o777 == 0o700 and (folder / f"{names[0]}.json").stat().st_mode & 0o777 == 0o600
    assert [one.name for one in kept_rehearsals.latest(demo.prefix)] == sorted(names, reverse=True)
    assert kept_rehearsals.latest(demo.prefix, 1)[0].findings == len(report.findings)
    (folder / f"{names[0]}.json").write_text("{}")
    assert kept_rehearsals.kept_under(demo.prefix, names[0]) is None
    assert kept_rehearsals.kept_under(demo.prefix, f"../{demo.prefix}/{names[1]}") is None
    (folder / ".half").touch()
    for name in (".half", f"{names[1]}.json"):
        os.utime(folder / name, (0, 0))
    assert kept_rehearsals.forget({str(demo.prefix): 0}) == 0
    assert kept_rehearsals.forget({str(demo.prefix): 10}) == 1
    assert len([*folder.iterdir()]) == 7 and not (folder / ".half").exists()


def test_keeping_needs_a_replication(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (file := tmp_path / "m.sql").write_text("SELECT 1;")
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert command.run(parser.parse_args(["--schema", str(file), str(file), "--keep"])) == command.FAILED
    assert "--keep wants the PREFIX of a replication" in capsys.readouterr().err


def test_scripts_may_stand_before_and_after_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    args = cli.parsed(["rehearse", "SHOP", "a.sql", "--schema", "s.sql", "b.sql", "--rows", "5", "c.sql"])
    assert (args.given, args.schema, args.rows) == (["SHOP", "a.sql", "b.sql", "c.sql"], ["s.sql"], 5)
    for words, unknown in ((["rehearse", "a.sql", "--rowz", "5"], "--rowz 5"), (["down", "a.sql"], "a.sql")):
        with pytest.raises(SystemExit):
            cli.parsed(words)
        assert f"unrecognized arguments: {unknown}\n" in capsys.readouterr().err


def test_rows_of_a_copy_are_not_shown_as_its_statement() -> None:
    copy, other = split("COPY t (a) FROM stdin;\n4711-secret\n\\.\nSELECT 'FROM stdin', 2;")
    assert (copy.short, other.short) == ("COPY t (a) FROM stdin", "SELECT 'FROM stdin', 2")


def test_roles_that_a_dump_names_and_does_not_make_are_found() -> None:
    dump = (
        'ALTER TABLE t OWNER TO shop;\nGRANT SELECT ON t TO "Read Only";\nGRANT ALL ON t TO PUBLIC;\n'
        "CREATE ROLE made; ALTER TABLE u OWNER TO made;\n"
        'ALTER DEFAULT PRIVILEGES FOR ROLE boss GRANT ALL ON TABLES TO x;\nREVOKE ALL ON t FROM y, "Z";\n'
        "CREATE POLICY p ON t FOR SELECT TO w USING (a IN (SELECT b FROM u));\nSET ROLE NONE;"
    )
    assert roles_of(dump) == ["Read Only", "Z", "boss", "shop", "w", "x", "y"]


def test_folders_of_killed_rehearsals_are_removed_and_those_of_running_ones_are_not(tmp_path: Path) -> None:
    left, running, young = (tmp_path / f"{FOLDER}{name}" for name in ("left", "running", "young"))
    for folder in (left, running, young):
        folder.mkdir()
    (left / LOCK).touch()
    with open(running / LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert remove_left(tmp_path) == [left]
        os.utime(young, (0, 0))
        assert remove_left(tmp_path) == [young]
    assert running.exists()
