"""Spark as an `Executor`, with a real server of Spark Connect."""

import contextlib
import html
import json
import os
import re
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from devstack.process import ProcessId, await_true
from devstack.spark import SparkServer
from sluice.executor import ExecutorsFailed, ExecutorStuck, run_with_heartbeat
from spark_jobs.endpoint import Endpoint
from spark_jobs.session import SparkExecutor
from tests.rig.applying import Applying
from tests.rig.rig import Rig
from tests.waiting import until


@pytest.fixture
def executor(spark: SparkServer) -> Iterator[SparkExecutor]:
    executor = SparkExecutor("sluice test", Endpoint(spark.server.url))
    yield executor
    executor.stop()


def attend() -> None:
    """Does nothing."""


def test_a_window_is_applied_by_executors(
    executor: SparkExecutor, rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = rig("CREATE TABLE public.orders (id int PRIMARY KEY, v text)", stage=500)
    assert executor.map(lambda number: number, 1) == [0], "it is there: otherwise the driver applies the window itself"
    staged: list[str] = []
    run = executor.map
    monkeypatch.setattr(executor, "map", lambda task, parts, what="": [staged.append(what), run(task, parts, what)][1])
    with pair.master.transaction():
        pair.master.execute("INSERT INTO public.orders SELECT g, E'a\n\t ' || g FROM generate_series(1, 3000) g")
        pair.master.execute("UPDATE public.orders SET v = NULL WHERE id % 3 = 0")
        pair.master.execute("DELETE FROM public.orders WHERE id % 5 = 0")
    with Applying(pair, executor):
        pair.await_current()
    assert staged, "no executor worked"
    assert pair.differences() == {}
    assert pair.slave.execute("SELECT count(*) FROM public.orders").fetchone() == (2400,)


@pytest.mark.long
def test_results_come_in_the_order_of_the_numbers(executor: SparkExecutor) -> None:
    assert executor.map(lambda number: number * 2, 5, "double") == [0, 2, 4, 6, 8]
    assert executor.map(lambda _: None, 1) == [None]


def test_a_python_worker_that_is_killed_costs_its_share_and_not_the_window(
    executor: SparkExecutor, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"

    def task(number: int) -> int:
        if number == 1:
            try:
                begun.touch(exist_ok=False)
            except FileExistsError:
                return number
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    assert executor.map(task, 4) == [0, 1, 2, 3]
    assert begun.exists()


@pytest.mark.long
def test_a_frozen_python_worker_is_ended_and_its_share_runs_again(executor: SparkExecutor, tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    def task(number: int) -> int:
        if number == 1 and not pid.exists():
            pid.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
        return number

    assert executor.map(lambda number: number, 2) == [0, 1]

    def stuck_when_frozen() -> bool:
        """On a busy machine the share may not even have begun after two seconds."""
        with pytest.raises(ExecutorStuck, match="within 2 s"):
            run_with_heartbeat(lambda: executor.map(task, 2), attend, 2.0)
        executor.cancel()
        assert not executor.ready
        return pid.exists() and bool(pid.read_text())

    until(stuck_when_frozen)
    frozen = ProcessId.of(int(pid.read_text()))
    assert run_with_heartbeat(lambda: executor.map(task, 2), attend, 120.0) == [0, 1]
    assert frozen is None or await_true(lambda: not frozen.alive(), 120.0), "a frozen worker is left"


@pytest.mark.long
def test_a_cancel_interrupts_its_job_and_no_other(executor: SparkExecutor, spark: SparkServer, tmp_path: Path) -> None:
    other = SparkExecutor("sluice other", Endpoint(spark.server.url))

    def waits_in(folder: Path) -> Callable[[int], int]:
        def task(number: int) -> int:
            (folder / f"{number}").write_text(str(os.getpid()))
            while not (folder / "go").exists():
                time.sleep(0.05)
            return number

        return task

    folders = [tmp_path / "canceled", tmp_path / "other"]
    with ThreadPoolExecutor(2) as pool, ExitStack() as whatever_fails:
        work = []
        for each, folder in zip((executor, other), folders, strict=True):
            folder.mkdir()
            whatever_fails.callback((folder / "go").touch)
            work.append(pool.submit(each.map, waits_in(folder), 1, "wait"))
            until(lambda begun=folder / "0": begun.exists() and begun.read_text())
        until(lambda: executor.progress == other.progress == "0 of 1 task")
        interrupted = ProcessId.of(int((folders[0] / "0").read_text()))
        executor.cancel()
        with pytest.raises(ExecutorsFailed):
            work[0].result(120)
        assert interrupted is None or await_true(lambda: not interrupted.alive(), 120.0), "its worker continues"
        until(lambda: executor.progress == "")
        (folders[1] / "go").touch()
        assert work[1].result(120) == [0]
    other.stop()


def test_a_task_that_fails_says_why_and_the_next_one_runs(executor: SparkExecutor) -> None:
    def fails(number: int) -> int:
        raise ValueError("of the test")

    with pytest.raises(ExecutorsFailed, match="ValueError: of the test"):
        executor.map(fails, 1)
    assert executor.map(lambda number: number, 1) == [0]


def test_a_session_that_the_server_has_forgotten_is_followed_by_another_one(executor: SparkExecutor) -> None:
    """As after a restart of the server, or half an hour without work."""
    assert executor.map(lambda number: number, 1) == [0]
    session = executor._session
    assert session is not None
    session.client.release_session()
    with pytest.raises(ExecutorsFailed, match="Spark at sc://localhost:"):
        executor.map(lambda number: number, 1)
    assert executor.map(lambda number: number, 1) == [0]
    assert executor._session is not session


def test_passwords_in_a_task_are_in_no_page_log_argument_or_environment(
    executor: SparkExecutor, spark: SparkServer
) -> None:
    """Passwords travel inside tasks, pickled; the token is in a file of the server's owner."""
    password = "p4ss of the test"
    assert executor.map(carrying(password), 2, "check secrets") == [16, 16]
    read = dict(pages(spark.ui_url))
    for page in ("/jobs/", "/connect/"):
        assert "sluice test: check secrets" in read[page], f"the page {page} shows whose job it is, and what it does"
    for file in [*spark.directory.rglob("events_*"), spark.directory / "log"]:
        read[str(file)] = file.read_text(errors="replace")
    assert any("SparkListenerJobStart" in text for text in read.values()), "the event log is one of what was read"
    for process in spark.family():
        for name in ("cmdline", "environ"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # an idle worker that has ended
                read[f"{name} of {process.pid}"] = Path(f"/proc/{process.pid}/{name}").read_text(errors="replace")
    assert any(place.startswith("environ of ") for place in read)
    for place, text in read.items():
        assert password not in text and spark.token not in text, place


def carrying(password: str) -> Callable[[int], int]:
    """A task with a password."""
    return lambda number: len(password)


def pages(address: str) -> Iterator[tuple[str, str]]:
    """Spark's pages and its API, everything that is linked from the first page."""
    left, seen = ["/jobs/", "/connect/", "/api/v1/applications"], set[str]()
    while left:
        path = left.pop()
        if path in seen or len(seen) > 150:
            continue
        seen.add(path)
        with urllib.request.urlopen(address + path, timeout=60) as answer:
            text = answer.read().decode(errors="replace")
        yield path, text
        left += [html.unescape(link) for link in re.findall(r'href="(/[^"#]+)"', text) if "/static/" not in link]
        if path == "/api/v1/applications":
            own = f"{path}/{json.loads(text)[0]['id']}"
            left += [f"{own}/{name}" for name in ("jobs", "stages", "environment", "sql?details=true&length=200")]
