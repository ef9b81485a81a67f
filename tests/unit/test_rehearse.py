"""What a rehearsal decides without a server: where statements end, what differs, what is found."""

import fcntl
import os
from pathlib import Path

import pytest

from devstack.rehearse import report as reports
from devstack.rehearse.command import page
from devstack.rehearse.course import difference
from devstack.rehearse.definitions import roles_of
from devstack.rehearse.psql import Outcome
from devstack.rehearse.report import Followed, Lock, Report, Side, Step, Table, Waits
from devstack.rehearse.script import Kind, read, split
from devstack.rehearse.servers import FOLDER, LOCK, remove_left
from sluice.errors import Terminal

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
