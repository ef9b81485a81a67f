"""Rehearsals on real servers: what they predict, and that nothing is left of them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack import cli
from devstack.account import new_folder
from devstack.postgres import PostgresServer
from devstack.rehearse import course
from devstack.rehearse.servers import FOLDER
from tests.scenarios.rehearse.conftest import SCHEMA, Rehearse
from tests.waiting import until


def test_a_migration_that_replicates_makes_no_finding_and_is_measured(rehearse: Rehearse) -> None:
    report = rehearse(
        "ALTER TABLE orders ADD status text NOT NULL DEFAULT 'new';\n"
        "BEGIN;\nUPDATE orders SET status = 'old' WHERE id <= 10;\nCOMMIT;\n"
        "CREATE TABLE notes (id int PRIMARY KEY, v text);\nCOPY notes FROM stdin;\n1\tx\n\\.\nSELECT * FROM notes;"
    )
    assert report.findings == []
    assert [table.outcome for table in report.tables] == ["identical"] * 3
    assert [step.line for step in report.steps] == [1, 2, 3, 4, 5, 6, 9]
    assert report.steps[3].items == 10 and report.steps[3].followed, "changes are visible at the commit"
    assert report.equal_after["dr1"] is not None


def test_what_fails_and_what_the_slave_leaves_out_is_found_with_its_statement(rehearse: Rehearse) -> None:
    report = rehearse(
        "SELECT 1/0;\n"
        "CREATE FUNCTION twice(n int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 2 * n';\n"
        "CREATE TABLE made (id int PRIMARY KEY, d int GENERATED ALWAYS AS (twice(id)) STORED);\n"
        "INSERT INTO made VALUES (1);"
    )
    kinds = {(finding.kind, finding.place) for finding in report.findings}
    assert ("fails", "m.sql:1") in kinds
    left = [finding for finding in report.findings if finding.kind in ("left out", "reload")]
    assert all("made" in finding.text or "made" in finding.remedy for finding in left)


def test_what_fails_within_a_file_a_loop_or_psql_itself_is_found(rehearse: Rehearse, tmp_path: Path) -> None:
    (tmp_path / "part.sql").write_text("INSERT INTO orders VALUES (1, 1, 1);\nSELECT 1;\n")
    report = rehearse(
        "\\ir part.sql\n\\nonsense\n\\if true\nSELECT 1/0;\n\\endif\n"
        "SELECT format('DROP TABLE %I', name) FROM (VALUES ('missing'), ('orders')) t (name) \\gexec\n"
        "\\copy orders from 'missing.csv'\n\\! echo 'ERROR: of nobody'; cat\nSELECT 2;"
    )
    assert [(one.kind, one.place) for one in report.findings] == [("fails", f"m.sql:{n}") for n in (1, 2, 3, 6, 7)]
    assert "part.sql:1: ERROR:  duplicate key" in report.findings[0].text


def test_scripts_of_other_programs_are_read_as_psql_reads_them(rehearse: Rehearse) -> None:
    report = rehearse(
        b"\xef\xbb\xbf\\restrict abc\r\n-- of pg_dump\r\nCOPY customers (id, name) FROM stdin;\r\n"
        b'201\tit\'s;\r\n\\.\r\n\\copy customers from stdin with (format csv)\r\n202,"a;\r\nb"\r\n\\.\r\n'
        b"\\unrestrict abc\r\nSET client_encoding = 'LATIN1';\r\n"
        b"UPDATE customers SET name = 'caf\xe9' WHERE id = 201;\r\n"
        b"COPY customers (id, name) FROM stdin;\r\n203\tunto the end"
    )
    assert report.findings == []
    assert [step.line for step in report.steps] == [3, 6, 11, 12, 13]
    assert [(table.rows, table.outcome) for table in report.tables] == [(103, "identical"), (300, "identical")]


def test_many_statements_that_are_alike_are_followed_together(rehearse: Rehearse) -> None:
    many = "".join(f"INSERT INTO customers VALUES ({number}, 'many');\n" for number in range(200, 260))
    report = rehearse(f"{many}INSERT INTO orders VALUES (1000, 259, 1);")
    assert report.findings == []
    assert [(step.line, step.items) for step in report.steps if step.items > 1] == [(60, 40)]
    assert len([step for step in report.steps if step.followed]) == 22
    assert {table.outcome for table in report.tables} == {"identical"}


def test_a_statement_that_waits_for_a_lock_that_nobody_gives_back_is_ended_and_found(
    rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = "SELECT * FROM stuck WHERE pg_cancel_backend(pid) AND pg_sleep(0.5) IS NOT NULL"
    monkeypatch.setattr(course, "_STUCK", f"WITH stuck AS MATERIALIZED ({course._STUCK}) {late}")
    report = rehearse(
        "BEGIN;\nLOCK TABLE orders;\nPREPARE TRANSACTION 'forgotten';\nALTER TABLE orders ADD a int;\n"
        "ROLLBACK PREPARED 'forgotten';",
        wait=2.0,
    )
    assert [(one.kind, one.place) for one in report.findings] == [("fails", "m.sql:4")]
    assert "waiting 2 s for a lock held by prepared transaction forgotten" in report.findings[0].text


@pytest.mark.parametrize("notified", [True, False])
def test_a_script_that_ends_all_sessions_is_followed_and_one_that_drops_the_capture_is_told(
    rehearse: Rehearse, notified: bool
) -> None:
    ends = (
        "SELECT count(pg_terminate_backend(pid)) > 0 FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid();\n"
    )
    report = rehearse(f"{ends}CREATE TABLE made (id int PRIMARY KEY);\nINSERT INTO made VALUES (1);", notified=notified)
    assert [one.kind for one in report.findings] == ([] if notified else ["not replicated"])
    assert {table.outcome for table in report.tables} == {"identical"}
    drops = (
        "EXECUTE coalesce((SELECT string_agg(format('DROP EVENT TRIGGER %I', evtname), ';') FROM pg_event_trigger), '')"
    )
    report = rehearse(f"DO $$ BEGIN {drops}; END $$;", notified=notified)
    assert [one.kind for one in report.findings] == (["event triggers"] if notified else [])
    report = rehearse(f"SELECT 1;\nDROP SCHEMA sluice CASCADE;\n{ends}SELECT 2;", notified=notified)
    assert ("stopped", "m.sql:2") in {(one.kind, one.place) for one in report.findings}


@pytest.mark.long
def test_the_command_reports_for_people_and_programs_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (schema := tmp_path / "schema.sql").write_text(SCHEMA + "ALTER TABLE public.orders OWNER TO shop;")
    (script := tmp_path / "m.sql").write_text("ALTER TABLE orders ADD a int;\nINSERT INTO missing VALUES (1);")
    html, data = tmp_path / "report.html", tmp_path / "report.json"
    given = ["rehearse", "--schema", str(schema), str(script), "--html", str(html), "--json", str(data), "--quiet"]
    assert cli.main(given) == 1
    assert 'relation "missing" does not exist' in capsys.readouterr().out
    assert "ALTER TABLE orders ADD a int" in html.read_text()
    assert [finding["kind"] for finding in json.loads(data.read_text())["findings"]] == ["fails"]
    script.write_text("ALTER TABLE orders ADD a int;")
    assert cli.main(given) == 0
    (tmp_path / "schema.sql").write_text("nonsense;")
    assert cli.main(given) == 2
    assert "nonsense" in capsys.readouterr().err
    assert list(Path(tempfile.gettempdir()).glob(f"{FOLDER}*")) == []


@pytest.mark.long
def test_commands_and_folders_take_the_place_of_scripts_and_writers_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (schema := tmp_path / "schema.sql").write_text(SCHEMA)
    (folder := tmp_path / "folder").mkdir()
    (folder / "a.sql").write_text("SELECT 1/0;\nBEGIN;\nLOCK TABLE orders;\nSELECT pg_sleep(0.5);\nCOMMIT;")
    data = tmp_path / "report.json"
    given = ["rehearse", "--schema", str(schema), "--folder", str(folder), "--json", str(data), "--quiet"]
    assert cli.main([*given, "--writers", "2", "--command", "test $PGDATABASE = other"]) == 1
    report = json.loads(data.read_text())
    assert [(one["kind"], one["place"]) for one in report["findings"]] == [("fails", "command:1")]
    assert all(report["waits"][side]["longest"] > 0.2 for side in ("plain", "captured"))
    assert sum(step["items"] for step in report["steps"]) > 0


@pytest.mark.long
def test_a_mariadb_slave_is_rehearsed_and_lacks_what_joins_by_reconcile_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (schema := tmp_path / "schema.sql").write_text(SCHEMA.replace("total numeric", "total numeric(10,2)"))
    (script := tmp_path / "m.sql").write_text(
        "ALTER TABLE orders ADD a int DEFAULT 5;\nUPDATE orders SET a = 6 WHERE id < 9;\nCREATE TABLE more (id int);"
    )
    data = tmp_path / "report.json"
    given = ["rehearse", "--slave", "mariadb", "--schema", str(schema), str(script), "--json", str(data), "--quiet"]
    assert cli.main(given) == 1
    report = json.loads(data.read_text())
    assert [(one["kind"], one["place"]) for one in report["findings"]] == [("not replicated", "public.more")]
    assert [table["outcome"] for table in report["tables"]] == ["identical"] * 2


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder that the servers' account can enter."""
    folder = new_folder("sluice-test-rehearse-")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.long
def test_a_killed_rehearsal_leaves_no_server_and_the_next_one_removes_its_folder(temporary: Path) -> None:
    (script := temporary / "m.sql").write_text("SELECT pg_sleep(600);")
    (schema := temporary / "schema.sql").write_text(SCHEMA)
    (after := temporary / "next.sql").write_text("SELECT 1;")
    command = [sys.executable, "-m", "devstack.cli", "rehearse", "--schema", str(schema)]
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)}
    begun = subprocess.Popen([*command, str(script)], env=environment)
    until(lambda: begun.poll() is not None or list(temporary.glob(f"{FOLDER}*/captured/data/postmaster.pid")))
    assert begun.poll() is None
    begun.send_signal(signal.SIGKILL)
    begun.wait()
    (left,) = temporary.glob(f"{FOLDER}*")
    servers = [PostgresServer(left / name) for name in ("plain", "captured", "slave")]
    until(lambda: not any(server.is_running() for server in servers))
    assert subprocess.call([*command, str(after), "--quiet"], env=environment) == 0
    assert list(temporary.glob(f"{FOLDER}*")) == []
