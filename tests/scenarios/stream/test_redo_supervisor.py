"""The whole capture from redo logs: programs that end, supervisors that are killed, a standby, another machine."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from devstack import openlogreplicator
from sluice import config
from sluice.coordination import lease, redis_store
from sluice.coordination.redo_state import CAPTURE, RedoState, RedoStatus, ThreadStatus
from sluice.database.redo_files import ArchivedLogs, LogCopy
from sluice.model.names import Prefix
from sluice.redo import checkpoints
from sluice.redo.supervisor import WATCH_SECONDS, Supervisor
from sluice.vendors.stream.files import Files
from sluice.vendors.stream.lines import Change, Commit, parse
from sluice.vendors.stream.redo.merge import ThreadId
from tests.airflow_home import ROOT
from tests.scenarios.stream.test_redo_network import free_port
from tests.unit import redo_vectors
from tests.unit.redo_output import COLUMNS, ONE, TWO, checkpoint, ddl, insert, schema, schema_checkpoint, transaction
from tests.waiting import until

PREFIX = Prefix("ORA_")
CONFIG = """
prefix: ORA_
master: {capture: redo, location: LOCATION}
slaves: {dr1: {conn_id: ora_dr1}}
tables: {"app.*": {}}
redo:
  program: PROGRAM
  schema: SCHEMA
  threads: THREADS
  work: WORK
  first_port: PORT
  lease: 2
  checkpoint_seconds: 1
"""


ONE_TABLE = {("APP", "T"): ["ID"]}
WIDER = schema(columns=[*COLUMNS, {"name": "E", "type": "number", "precision": -1, "scale": -1, "nullable": True}])
"""As it is behind the DDL of these tests."""


class Capture:
    """A replication with its master's logs, and supervisors of it."""

    def __init__(
        self,
        root: Path,
        redis_url: str,
        threads: str = "1, 2",
        keys: Mapping[tuple[str, str], Sequence[str]] = ONE_TABLE,
    ):
        """`keys`: of the master's tables, as for `schema_checkpoint`."""
        self.root, self.redis_url = root, redis_url
        self.location = root / "shop"
        self.location.mkdir()
        owners = sorted({owner for owner, _ in keys})
        seed = {
            "database": "TEST", "scn": 60, "context": "FREE", "users": owners, "activation": 1, "schema-scn": 60,
            "supp-log-db-all": 1, **schema_checkpoint(keys),
        }  # fmt: skip
        (root / "TEST-chkpt-60.json").write_text(json.dumps(seed))
        self.program, self.port, self.threads = openlogreplicator.program(root), free_port() // 2 + 1024, threads
        self.state = RedoState(redis_store.connect(redis_url), PREFIX)
        self.running: list[subprocess.Popen[bytes]] = []
        for thread in (ONE, TWO):
            (self.location / "logs" / str(thread) / "2026_11_23").mkdir(parents=True)

    def configure(self, work: str = "work") -> Path:
        text = CONFIG
        values = {"LOCATION": self.location, "PROGRAM": self.program, "SCHEMA": self.root / "TEST-chkpt-60.json",
                  "THREADS": self.threads, "WORK": self.root / work, "PORT": self.port}  # fmt: skip
        for word, value in values.items():
            text = text.replace(word, str(value))
        folder = self.root / f"replications_{work}"
        folder.mkdir(exist_ok=True)
        (folder / "ORA.yaml").write_text(text)
        return folder

    def start(self, work: str = "work") -> "subprocess.Popen[bytes]":
        """Starts a supervisor; with another `work` it has the files of another machine."""
        environment = {
            **os.environ, "PYTHONPATH": str(ROOT / "plugins"), "SLUICE_REDIS_URL": self.redis_url,
            "SLUICE_REPLICATIONS": str(self.configure(work)),
        }  # fmt: skip
        with (self.root / f"supervisor_{work}.log").open("ab") as log:
            self.running.append(
                subprocess.Popen(
                    [sys.executable, "-m", "sluice.cli", "capture-redo", "ORA_"],
                    env=environment, stdout=log, stderr=log,
                )
            )  # fmt: skip
        return self.running[-1]

    def log(self, thread: int, sequence: int, lines: Sequence[str], first_scn: int | None = None) -> None:
        """Writes an archived log of the master; by default it begins with the SCN of its first line."""
        name = f"{thread}_{sequence}_{ONE.resetlogs}.arc"
        file = self.location / "logs" / f"{ONE.resetlogs}_{thread}" / "2026_11_23" / name
        openlogreplicator.write_log(
            file, [line.encode() for line in lines], thread=thread, sequence=sequence, resetlogs=ONE.resetlogs,
            first_scn=first_scn,
        )  # fmt: skip

    def status(self) -> RedoStatus | None:
        return self.state.read()

    def thread(self, number: int) -> ThreadStatus | None:
        status = self.status()
        return next((each for each in status.threads if each.thread.endswith(f"_{number}")), None) if status else None

    def keys(self) -> list[str]:
        """The keys of the rows of the stream, in its order."""
        folder = self.location / "stream"
        files = Files(folder)
        names = files.names() if any(folder.glob("*.jsonl")) else []
        found: list[str] = []
        for file in names:
            read = file.read_bytes()[: files.index(file, names).last.offset]
            found += [str(line.new["id"]) for raw in read.splitlines() if isinstance(line := parse(raw), Change)
                      and line.new]  # fmt: skip
        return found

    def programs(self) -> list[int]:
        """The processes that read this master's logs."""
        found = []
        for process in psutil.process_iter(["pid", "cmdline", "status"]):
            words = process.info["cmdline"] or []
            mine = any(word.startswith(str(self.root)) and word.endswith("program.json") for word in words)
            if mine and "devstack.openlogreplicator" in words and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process.info["pid"])
        return sorted(found)


@pytest.fixture
def capture(tmp_path: Path, redis_url: str) -> Iterator[Callable[..., Capture]]:
    made: list[Capture] = []

    def build(**options: Any) -> Capture:
        made.append(Capture(tmp_path, redis_url, **options))
        return made[-1]

    yield build
    for each in made:
        for process in each.running:
            process.terminate()
        for process in each.running:
            process.wait(60)


def two_threads(made: Capture, sequence: int, first: int, count: int) -> list[str]:
    """Writes a log of each thread, with alternating commits; returns the keys in the order of commits."""
    lines: dict[int, list[str]] = {1: [], 2: []}
    wanted = []
    for scn in range(first, first + count):
        thread = 1 + scn % 2
        lines[thread] += transaction(scn, f"{thread}.{scn}.1", [insert(0, scn)])
        wanted.append(str(scn))
    for thread, each in lines.items():
        made.log(thread, sequence, [*each, checkpoint(first + count)])
    return wanted


@pytest.mark.long
def test_programs_supervisors_and_machines_come_and_go_and_the_stream_has_everything_once(
    capture: Callable[..., Capture],
) -> None:
    made = capture()
    wanted = two_threads(made, 1, 100, 20)
    first = made.start()
    until(lambda: made.keys() == wanted)
    programs = made.programs()
    assert len(programs) == 2

    # A program is killed: it is started again, alone.
    os.kill(programs[0], signal.SIGKILL)
    until(lambda: len(made.programs()) == 2 and programs[0] not in made.programs())
    assert len({*programs} & {*made.programs()}) == 1
    wanted += two_threads(made, 2, 200, 20)
    until(lambda: made.keys() == wanted)
    until(lambda: sum(each.restarts for each in (made.status() or pytest.fail("no status")).threads) == 1)

    # A second supervisor, on another machine, stands by, and takes over when the first one is killed.
    second = made.start("other")
    until(lambda: b"stands by" in (made.root / "supervisor_other.log").read_bytes())
    epoch = (made.status() or pytest.fail("no status")).epoch
    until(lambda: bool(made.state.stored(str(ONE)) and made.state.stored(str(TWO))))
    former = made.programs()
    first.kill()
    first.wait()
    until(lambda: not {*former} & {*made.programs()})
    wanted += two_threads(made, 3, 300, 20)
    until(lambda: made.keys() == wanted)
    assert (made.status() or pytest.fail("no status")).epoch == epoch + 1
    assert len(made.programs()) == 2
    # It continued from the checkpoints in Redis, not from the beginning.
    assert checkpoints.position_file("TEST") in made.state.stored(str(ONE))

    # Told to end, it leaves no process, and its checkpoints in Redis.
    second.terminate()
    assert second.wait(60) == 0
    assert made.programs() == []
    wanted += two_threads(made, 4, 400, 20)
    made.start("third")
    until(lambda: made.keys() == wanted)


def test_the_real_program_is_kept_and_what_it_reads_becomes_a_stream(capture: Callable[..., Capture]) -> None:
    """Two real logs; times are those of a master at +08:00. `SLUICE_TEST_OLR` names OpenLogReplicator 1.9.0."""
    program = os.environ.get("SLUICE_TEST_OLR")
    if not program:
        pytest.skip("SLUICE_TEST_OLR names no OpenLogReplicator 1.9.0")
    there = redo_vectors.required() / "redo"
    made = capture(threads="1")
    made.program = Path(program)
    shutil.copy(there / "TEST-chkpt-2266634.json", made.root / "TEST-chkpt-60.json")
    logs = made.location / "logs" / "1224959854_1" / "day"
    logs.mkdir(parents=True)
    configured = made.configure
    made.configure = lambda work="work": _with(configured(work), 'host_timezone: "+08:00"')  # type: ignore[method-assign]
    first = made.start()
    shutil.copy(there / "arch1_15_1224959854.dbf", logs / "1_15_1224959854.arc")
    until(lambda: made.keys() == ["1"])
    # It continues from its checkpoint when both were killed, and what it sends again is known.
    first.kill()
    first.wait()
    made.start()
    shutil.copy(there / "arch1_16_1224959854.dbf", logs / "1_16_1224959854.arc")
    until(lambda: bool((status := made.thread(1)) and status.scn >= 2_267_720))
    assert made.keys() == ["1"]
    (file,) = [file for file in (made.location / "stream").glob("*.jsonl") if b"hello world" in file.read_bytes()]
    times = [line.time for raw in file.read_bytes().splitlines() if isinstance(line := parse(raw), Commit)]
    assert "2026-03-06T17:44:40.000000+00:00" in times


def _with(folder: Path, line: str) -> Path:
    """A configuration with an additional line."""
    with (folder / "ORA.yaml").open("a") as opened:
        opened.write(f"  {line}\n")
    return folder


class LeaseTime(threading.Event):
    """The time of a standby: its waits pass at once, as does the lease of a dead leader."""

    def __init__(self, client: "redis.Redis", key: str):
        super().__init__()
        self._client, self._key, self._dead = client, key, client.get(key)
        self.waited = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        left = self._client.pttl(self._key)
        if timeout is None or self._client.get(self._key) != self._dead:
            return super().wait(timeout)
        self.waited += timeout
        # Of a time that is none any more, or past, Redis deletes the key.
        self._client.pexpire(self._key, left - round(1000 * timeout))
        return self.is_set()


def test_a_standby_takes_over_within_two_lease_times(
    capture: Callable[..., Capture], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured by the standby's waits and the rest of the lease, not by a clock."""
    made = capture(threads="1")
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(made.configure()))
    loaded, client, key, seconds = config.load(str(PREFIX)), made.state.client, lease.key(PREFIX, CAPTURE), 60
    assert loaded.redo is not None
    replication = replace(loaded, redo=replace(loaded.redo, lease=float(seconds)))
    made.log(1, 1, [checkpoint(100)])
    # A leader that died at the worst moment: its lease was just renewed.
    epoch = made.state.next_epoch()
    client.set(key, '{"host": "gone", "pid": 1, "token": "a"}', px=1000 * seconds)
    stop = LeaseTime(client, key)
    standby = threading.Thread(target=Supervisor(replication, client).run, args=(stop,))
    standby.start()
    try:
        until(lambda: bool((status := made.status()) and status.epoch == epoch + 1 and made.programs()))
    finally:
        stop.set()
        standby.join(60)
    assert 0 < stop.waited <= 2 * seconds


@pytest.mark.long
def test_each_thread_begins_with_its_own_log_whichever_comes_first(capture: Callable[..., Capture]) -> None:
    """The schema checkpoint names the log of one instance; a later log may be archived before it."""
    made = capture()
    schema = made.root / "TEST-chkpt-60.json"
    schema.write_text(json.dumps({**json.loads(schema.read_text()), "seq": 500}))
    made.log(1, 500, [*transaction(100, "1.1.1", [insert(0, 100)]), checkpoint(250)], first_scn=40)
    made.log(2, 497, [*transaction(30, "2.1.1", [insert(0, 30)]), checkpoint(49)], first_scn=20)
    made.log(2, 499, [*transaction(199, "2.3.1", [insert(0, 199)]), checkpoint(250)], first_scn=151)
    made.start()
    until(lambda: bool((two := made.thread(2)) and "SCN 60 in it" in two.logs))
    until(lambda: bool((one := made.thread(1)) and one.scn == 250))
    assert made.keys() == []
    made.log(2, 498, [*transaction(98, "2.2.1", [insert(0, 98)]), checkpoint(150)], first_scn=50)
    until(lambda: made.keys() == ["98", "100", "199"])
    assert (made.thread(2) or pytest.fail("no status")).logs == ""


@pytest.mark.long
def test_redo_of_an_instance_that_was_added_is_waited_for_and_merged_once_it_is_read(
    capture: Callable[..., Capture], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = capture(threads="1")
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(made.configure()))
    said = ArchivedLogs(ONE.resetlogs, (LogCopy(ONE.resetlogs, 2, 7, 150, 250, "/u01/arch/2_7.arc"),))
    stop = threading.Event()
    supervisor = Supervisor(config.load(str(PREFIX)), made.state.client, lambda: said, watch_seconds=0.1)
    first = threading.Thread(target=supervisor.run, args=(stop,))
    first.start()
    try:
        until(lambda: bool((status := made.status()) and "threads that are not under redo.threads: 2" in status.unread))
        made.log(1, 1, [*transaction(100, "1.1.1", [insert(0, 100)]), checkpoint(150)])
        made.log(1, 2, [*transaction(200, "1.2.1", [insert(0, 200)]), checkpoint(300)])
        until(lambda: bool((one := made.thread(1)) and one.scn == 300))
        assert made.keys() in ([], ["100"]), "what thread 2 may have committed before is not there"
    finally:
        stop.set()
        first.join(60)
    made.threads = "1, 2"
    made.log(2, 7, [*transaction(160, "2.7.1", [insert(0, 160)]), checkpoint(250)], first_scn=150)
    made.log(2, 8, [*transaction(270, "2.8.1", [insert(0, 270)]), checkpoint(300)], first_scn=250)
    made.start()
    until(lambda: made.keys() == ["100", "160", "200", "270"])


@contextmanager
def supervised(made: Capture, watch_seconds: float = WATCH_SECONDS) -> Iterator[None]:
    """In the block a supervisor reads the master's redo, without a connection to the master."""
    stop = threading.Event()
    supervisor = Supervisor(config.load(str(PREFIX)), made.state.client, watch_seconds=watch_seconds)
    running = threading.Thread(target=supervisor.run, args=(stop,))
    running.start()
    try:
        yield
    finally:
        stop.set()
        running.join(60)


@contextmanager
def looking(made: Capture, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A supervisor that looks for other threads all the time."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(made.configure()))
    with supervised(made, watch_seconds=0.1):
        yield


def test_redo_of_two_threads_from_the_first_log_to_a_lost_one(
    capture: Callable[..., Capture], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal sequences of two threads, a gap, a killed program that sends again, another machine, a loss."""
    made = capture()
    wanted = two_threads(made, 1, 100, 4)

    def log(thread: int, sequence: int, scn: int, first_scn: int, end: int) -> None:
        rows = transaction(scn, f"{thread}.{scn}.1", [insert(0, scn)])
        made.log(thread, sequence, [*rows, checkpoint(end)], first_scn=first_scn)

    with looking(made, monkeypatch):
        until(lambda: made.keys() == wanted)
        log(1, 3, 300, 210, 310)
        log(2, 2, 201, 104, 310)
        until(lambda: "log 2 of thread 1" in (made.thread(1) or pytest.fail("no status")).logs)
        until(lambda: (made.thread(2) or pytest.fail("no status")).scn == 310)
        assert made.keys() == wanted, "what is behind a gap, and what other threads committed later, waits"
        former = made.programs()[0]
        os.kill(former, signal.SIGKILL)
        log(1, 2, 200, 104, 210)
        wanted += ["200", "201", "300"]
        until(lambda: made.keys() == wanted)
        until(lambda: len(made.programs()) == 2)
        assert former not in made.programs()
        until(lambda: all(checkpoints.position_file("TEST") in made.state.stored(str(one)) for one in (ONE, TWO)))
    assert made.programs() == []

    monkeypatch.setenv("SLUICE_REPLICATIONS", str(made.configure("other")))
    with supervised(made, watch_seconds=0.1):
        log(1, 4, 400, 310, 420)
        log(2, 3, 401, 310, 420)
        wanted += ["400", "401"]
        until(lambda: made.keys() == wanted)
        log(1, 5, 500, 420, 520)
        (made.location / "threads" / str(TWO) / "lost").write_text("log 4 has no backup")
        until(lambda: any(b"log 4 has no backup" in file.read_bytes() for file in made.location.glob("stream/*.jsonl")))
    assert made.keys() == wanted, "nothing follows a loss"


@pytest.mark.long
def test_logs_of_a_thread_that_is_not_configured_are_noticed_without_asking_the_master(
    capture: Callable[..., Capture], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = capture(threads="1")
    made.log(2, 1, [*transaction(100, "2.1.1", [insert(0, 1)]), checkpoint(300)], first_scn=50)
    with looking(made, monkeypatch):
        until(lambda: bool((status := made.status()) and "threads that are not under redo.threads: 2" in status.unread))
        made.log(1, 1, [*transaction(200, "1.1.1", [insert(0, 2)]), checkpoint(300)], first_scn=50)
        until(lambda: bool((one := made.thread(1)) and one.scn == 300))
        assert made.keys() == [], "what thread 2 committed before is not there"
    made.threads = "1, 2"
    with looking(made, monkeypatch):
        until(lambda: made.keys() == ["1", "2"])
        until(lambda: bool((status := made.status()) and status.unread == ""))


@pytest.mark.long
def test_with_all_threads_those_that_there_are_and_that_come_are_read(
    capture: Callable[..., Capture], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later thread begins with the tables that the others have by then."""
    made = capture(threads="all")
    with looking(made, monkeypatch):
        until(lambda: bool((status := made.status()) and "No log of a redo thread" in status.unread))
        wanted = two_threads(made, 1, 100, 10)
        until(lambda: made.keys() == wanted)
        state = made.root / "work" / str(ONE) / "state"
        after = {**json.loads((made.root / "TEST-chkpt-60.json").read_text()), "scn": 110, "schema-scn": 105}
        checkpoints.write(state, "TEST-chkpt-110.json", {**after, "sys-ts": [{"name": "behind the DDL"}]})
        until(lambda: (made.location / "threads" / str(ONE) / "TEST-chkpt-110.json").exists())
        three = ThreadId(ONE.resetlogs, 3)
        (made.location / "logs" / str(three) / "2026_11_23").mkdir(parents=True)
        made.log(3, 1, [*transaction(205, "3.1.1", [insert(0, 3)]), checkpoint(300)], first_scn=150)
        until(lambda: bool(made.thread(3)))
        begun = checkpoints.read_folder(made.root / "work" / str(three) / "state")
        assert any(values.get("sys-ts") == [{"name": "behind the DDL"}] for values in begun.values())
        wanted += two_threads(made, 2, 200, 10)
        until(lambda: len(made.keys()) == 21)
        assert made.keys() == [*wanted[:16], "3", *wanted[16:]]
    # The next one knows them.
    with looking(made, monkeypatch):
        until(lambda: bool((status := made.status()) and len(status.threads) == 3 and status.unread == ""))


@pytest.mark.long
def test_a_program_that_answers_no_more_is_ended_and_started(capture: Callable[..., Capture]) -> None:
    """A frozen program is noticed only by its metrics."""
    made = capture(threads="1")
    configured = made.configure
    made.configure = lambda work="work": _with(configured(work), f"metrics_port: {made.port + 100}")  # type: ignore[method-assign]
    made.log(1, 1, [*transaction(100, "1.1.1", [insert(0, 1)]), checkpoint(150)])
    made.start()
    until(lambda: made.keys() == ["1"])
    (frozen,) = made.programs()
    os.kill(frozen, signal.SIGSTOP)
    until(lambda: made.programs() not in ([], [frozen]))
    made.log(1, 2, [*transaction(200, "1.2.1", [insert(0, 2)]), checkpoint(250)])
    until(lambda: made.keys() == ["1", "2"])


@pytest.mark.long
def test_faults_of_a_program_are_reported(capture: Callable[..., Capture]) -> None:
    made = capture(threads="1")
    made.program = made.root / "none"
    made.log(1, 1, [checkpoint(100)])
    made.start()
    until(lambda: bool((status := made.thread(1)) and status.state == "failed"))
    log = (made.root / "work" / str(ONE) / "program.log").read_text()
    assert "No such file or directory" in log


@pytest.mark.long
def test_ddl_is_passed_on_by_the_next_supervisor_where_the_last_one_was_killed_before(
    capture: Callable[..., Capture],
) -> None:
    made = capture()
    made.log(1, 1, [*transaction(100, "1.1.1", [insert(0, 1)]), checkpoint(150)])
    made.log(2, 1, [*transaction(101, "2.1.1", [insert(0, 2)]), checkpoint(150)])
    first = made.start()
    until(lambda: made.keys() == ["1", "2"])
    made.log(1, 2, [*transaction(205, "1.2.1", [ddl("ALTER TABLE APP.T ADD (E NUMBER)")]), checkpoint(250)])
    made.log(2, 2, [checkpoint(250)])
    kept = made.location / "threads" / str(ONE) / "ddl"
    until(lambda: kept.exists() and bool((one := made.thread(1)) and one.scn == 250))
    first.kill()
    first.wait()
    until(lambda: made.programs() == [])
    after = {**json.loads((made.root / "TEST-chkpt-60.json").read_text()), "scn": 210, "schema-scn": 205}
    after["sys-ts"] = [{"name": "behind the DDL"}]
    checkpoints.write(made.root / "work" / str(ONE) / "state", "TEST-chkpt-210.json", after)
    made.start()
    until(lambda: not kept.exists())
    other = checkpoints.read_folder(made.root / "work" / str(TWO) / "state")
    assert any(values.get("sys-ts") == after["sys-ts"] for values in other.values())
    made.log(1, 3, [checkpoint(400)])
    made.log(2, 3, [*transaction(300, "2.3.1", [insert(0, 3, of=WIDER)]), checkpoint(400)])
    until(lambda: made.keys() == ["1", "2", "3"])


@pytest.mark.long
def test_after_ddl_the_other_threads_go_on_with_its_tables(capture: Callable[..., Capture]) -> None:
    made = capture()
    made.log(1, 1, [*transaction(100, "1.1.1", [insert(0, 1)]), checkpoint(150)])
    made.log(2, 1, [*transaction(101, "2.1.1", [insert(0, 2)]), checkpoint(150)])
    made.start()
    until(lambda: made.keys() == ["1", "2"])
    before = {number: made.thread(number) for number in (1, 2)}
    swapped = made.root / "work" / str(ONE) / "swap" / "1.1.1.swap"
    swapped.touch()
    # The program of the thread that ran it writes a checkpoint with the tables behind it.
    state = made.root / "work" / str(ONE) / "state"
    after = {**json.loads((made.root / "TEST-chkpt-60.json").read_text()), "scn": 210, "schema-scn": 205}
    after["sys-ts"] = [{"name": "behind the DDL"}]
    checkpoints.write(state, "TEST-chkpt-210.json", after)
    made.log(1, 2, [*transaction(205, "1.2.1", [ddl("ALTER TABLE APP.T ADD (E NUMBER)")]), checkpoint(250)])
    made.log(2, 2, [checkpoint(250)])
    until(lambda: bool((two := made.thread(2)) and before[2] and two.restarts == before[2].restarts + 1))
    other = checkpoints.read_folder(made.root / "work" / str(TWO) / "state")
    assert any(values.get("sys-ts") == after["sys-ts"] for values in other.values())
    one = made.thread(1)
    assert one is not None
    assert before[1] is not None
    assert one.restarts == before[1].restarts
    assert swapped.exists(), "the other program's start takes nothing of what this one has on the disk"
    made.log(1, 3, [checkpoint(400)])
    made.log(2, 3, [*transaction(300, "2.3.1", [insert(0, 3, of=WIDER)]), checkpoint(400)])
    until(lambda: made.keys() == ["1", "2", "3"])
