"""Which of OpenLogReplicator's checkpoints are complete, needed and safe to start from, and its configuration."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from sluice import config
from sluice.configuration.mistakes import ConfigError
from sluice.configuration.model import Replication
from sluice.configuration.redo import RedoOptions
from sluice.redo import checkpoints, program, program_configuration
from sluice.redo.checkpoints import Values
from sluice.redo.keeper import pause
from sluice.redo.redo_thread import RedoThread
from sluice.vendors.stream.redo.spool import Spool, free, last_durable
from tests.errors import raises_code
from tests.waiting import until

POSITION = {"database": "T", "scn": 300, "idx": 7, "resetlogs": 1, "activation": 1}


def reader(scn: int, refers: int | None = None) -> tuple[str, Values]:
    values: Values = {"scn": scn, "seq": scn // 10, "offset": 512, "users": ["A"]}
    values |= {"schema-ref-scn": refers} if refers is not None else {"schema-scn": scn, "sys-obj": [{"obj": scn}]}
    return f"T-chkpt-{scn}.json", values


def test_another_machine_needs_the_newest_place_that_is_not_past_and_its_tables() -> None:
    files = dict([reader(100), reader(200), reader(290, 200), reader(300, 200), reader(400)])
    kept = checkpoints.needed({**files, "T-chkpt.json": POSITION}, "T")
    assert sorted(kept) == ["T-chkpt-200.json", "T-chkpt-290.json", "T-chkpt.json"]
    assert sorted(checkpoints.needed(files, "T")) == ["T-chkpt-400.json"]


def test_a_checkpoint_without_tables_is_not_used() -> None:
    files = dict([reader(100), reader(290, 200)])
    assert sorted(checkpoints.needed({**files, "T-chkpt.json": POSITION}, "T")) == ["T-chkpt-100.json", "T-chkpt.json"]
    assert checkpoints.needed(dict([reader(290, 200)]), "T") == {}


@pytest.mark.parametrize(("durable", "wanted"), [(None, 299), (300, 299), (250, 249), (999, 299), (50, 100)])
def test_a_start_repeats_the_group_of_which_a_part_may_be_confirmed(durable: int | None, wanted: int) -> None:
    found = checkpoints.lowered(POSITION, durable, dict([reader(100), reader(200)]))
    assert (found["scn"], found["idx"], found["resetlogs"]) == (wanted, 0, 1)


def test_unfinished_checkpoints_are_skipped(tmp_path: Path) -> None:
    checkpoints.write(tmp_path, *reader(100))
    whole = json.dumps(reader(200)[1])
    for length in (0, 1, len(whole) - 1):
        (tmp_path / "T-chkpt-200.json").write_text(whole[:length])
        assert sorted(checkpoints.read_folder(tmp_path)) == ["T-chkpt-100.json"]


def test_tables_of_another_thread_come_to_the_place_of_this_one() -> None:
    made = checkpoints.with_tables(reader(290, 200)[1], reader(400)[1])
    assert (made["scn"], made["seq"]) == (290, 29)
    assert made["sys-obj"] == [{"obj": 400}]
    assert made["schema-scn"] == 400
    assert "schema-ref-scn" not in made


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"database": "T", "scn": "1"}'])
def test_a_seed_that_is_none_is_refused_with_the_remedy(text: str, tmp_path: Path) -> None:
    file = tmp_path / "T-chkpt-1.json"
    file.write_text(text)
    with raises_code("no-schema-checkpoint", match=r"gencfg\.sql"):
        checkpoints.read_seed(file)
    with raises_code("no-schema-checkpoint", match="No such file"):
        checkpoints.read_seed(tmp_path / "none")


def configured(number: int = 1) -> dict[str, Any]:
    options = RedoOptions(host_timezone="+08:00", memory_mb=64, first_port=2000, metrics_port=3000)
    thread = RedoThread.of(options, Path("/shop"), 7, number)
    return program_configuration.configuration(thread, {"database": "T", "context": "C", "users": ["A"]}, options)


def test_the_generated_configuration_is_what_the_program_accepts() -> None:
    made = configured()
    assert list(program_configuration.mistakes(made)) == []
    assert made["source"][0]["reader"]["host-timezone"] == "+08:00"
    made["source"][0]["reader"]["redis"] = 1
    made["target"][0]["writer"]["brokers"] = "b"
    made["memory"] = {}
    del made["source"][0]["name"]
    found = list(program_configuration.mistakes({**made, "version": "2.0"}))
    assert [part in " ".join(found) for part in ("2.0", "redis", "brokers", "memory", "no name")] == [True] * 5


def test_a_thread_that_joins_begins_with_the_tables_of_the_others() -> None:
    """It saw none of the DDL that they ran. A thread that begins again reads from the start of capture, and sees it
    again."""
    seed = {"scn": 60, "seq": 7, "users": ["APP"], "schema-scn": 60, "sys-ts": ["before"]}
    newest = {"scn": 210, "seq": 900, "users": ["APP"], "schema-scn": 205, "sys-ts": ["behind"]}
    older = {"scn": 110, "seq": 800, "users": ["APP"], "schema-scn": 60, "sys-ts": ["before"]}
    begins = checkpoints.joining(seed, 300, [older, newest])
    assert begins == {"scn": 60, "seq": 7, "users": ["APP"], "schema-scn": 205, "sys-ts": ["behind"]}
    assert checkpoints.joining(seed, 0, [older, newest]) is seed
    assert checkpoints.joining(seed, 300, []) is seed


def test_programs_share_no_place_and_no_port() -> None:
    """At its start each program deletes all transactions in its folder, which could be another one's."""
    one, two = configured(1), configured(2)
    for part in (
        lambda made: made["source"][0]["memory"]["swap-path"],
        lambda made: made["source"][0]["state"]["path"],
        lambda made: made["source"][0]["reader"]["path-mapping"][1],
        lambda made: made["source"][0]["metrics"]["bind"],
        lambda made: made["target"][0]["writer"]["uri"],
    ):
        assert part(one) != part(two)


def test_a_program_that_dies_young_waits_longer_each_time() -> None:
    assert [pause(deaths) for deaths in (0, 1, 2, 3)] == [0, 0.5, 1, 2]
    assert pause(50) == 60


def test_output_of_a_program_is_rotated_in_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "LOG_BYTES", 1_000)
    running = program.Program(["/bin/sh", "-c", "date +%Z; seq 400"], tmp_path / "program.log", {})
    until(lambda: running.status is not None)
    running.end(signal.SIGKILL, 1)
    now, before = (tmp_path / "program.log").read_text(), (tmp_path / "program.log.1").read_text()
    assert (before + now).split() == ["UTC", *map(str, range(1, 401))]
    assert max(len(now), len(before)) <= 1_000


def test_a_spool_continues_after_whole_lines_in_a_new_file(tmp_path: Path) -> None:
    line = b'{"scn":1,"c_scn":%d,"c_idx":%d,"payload":[]}'
    first = Spool(tmp_path)
    first.add(line % (7, 1))
    assert first.sync() == (7, 1)
    assert first.sync() is None
    first.close()
    with (tmp_path / "1.jsonl").open("ab") as opened:
        opened.write(line[:20])
    second = Spool(tmp_path, file_bytes=10)
    assert second.durable == (7, 1) == last_durable(tmp_path)
    second.add(line % (8, 1))
    second.sync()
    second.add(line % (9, 2))
    assert second.sync() == (9, 2)
    second.close()
    assert last_durable(tmp_path) == (9, 2)
    assert free(tmp_path, "3.jsonl") == 2
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["3.jsonl", "4.jsonl"]


CONFIG = """
prefix: ORA_
master: {capture: redo, location: /srv/redo}
slaves: {dr1: {conn_id: x}}
tables: {"app.*": {}}
"""


def load(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Replication:
    (folder / "ORA.yaml").write_text(text)
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(folder))
    return config.load("ORA_")


def test_a_master_captured_from_redo_is_a_stream_to_its_slaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = "redo: {program: /olr, schema: /srv/T-chkpt-1.json, threads: '1, 3', host_timezone: '+08:00', ends_at: 4711}"
    found = load(tmp_path, CONFIG + more, monkeypatch)
    assert found.master.stream is not None
    assert found.master.stream.database == "/srv/redo/stream"
    assert found.redo is not None
    assert (found.redo.threads, found.redo.host_timezone, found.redo.ends_at) == (("1", "3"), "+08:00", ("4711",))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", "redo"),
        ("redo: {program: /opt/olr}", "schema"),
        ("redo: {program: olr, schema: /s}", "'olr' is not absolute"),
        ("redo: {program: /olr, schema: /s, threads: 'one'}", "is no redo thread; write V"),
        ("redo: {program: /olr, schema: /s, threads: '0'}", "is no redo thread; write V"),
        ("redo: {program: /olr, schema: /s, threads: 'all, 2'}", "names all threads, and some of them"),
        ("redo: {program: /olr, schema: /s, host_timezone: UTC}", "no zone"),
        ("redo: {program: /olr, schema: /s, ends_at: '4711, now'}", "'now' is no SCN"),
        ("redo: {program: /olr, schema: /s, redis: x}", "redis"),
    ],
)
def test_mistakes_about_redo_are_reported(
    more: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=said):
        load(tmp_path, CONFIG + more, monkeypatch)


def test_redo_means_nothing_to_another_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = CONFIG.replace("capture: redo", "capture: stream") + "redo: {program: /olr, schema: /s}"
    with pytest.raises(ConfigError, match="means nothing without capture: redo"):
        load(tmp_path, text, monkeypatch)
