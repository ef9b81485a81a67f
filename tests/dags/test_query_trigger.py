"""What Airflow and the task of a query tell each other, with a real Redis and without Spark."""

import json
import logging
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from sluice.airflow import query_trigger
from sluice.airflow.job import Owner
from sluice.airflow.query_trigger import QueryWatch, StandbyTrigger
from sluice.coordination import apply_query, lease, redis_store
from sluice.coordination.apply_query import ApplyQuery, Begun, QueryRecord
from sluice.exit_status import DONE, TERMINAL
from sluice.model.apply_status import StopRequest
from sluice.model.names import Prefix
from spark_jobs import apply_task
from spark_jobs.apply_task import ApplyTask
from spark_jobs.endpoint import Endpoint
from tests.errors import raises_code
from tests.waiting import until

HOUR = 3600.0
OWNER = Owner("cdc_apply", "run1", "apply")


@pytest.fixture
def noted(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> ApplyQuery:
    """Of a query that has run for an hour."""
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    monkeypatch.setattr(QueryWatch, "_ask", lambda _: "")
    # Its thread would note after seconds, in another test, that the query is lost.
    monkeypatch.setattr(QueryWatch, "_kill", lambda _: None)
    made = ApplyQuery(redis_store.connect(redis_url), "DEMO_", "dr1")
    made.write(QueryRecord("query1", asdict(OWNER), time.time() - HOUR, "session", "spark"))
    made.began("query1", Begun("host", 1))
    return made


@pytest.fixture
def said() -> list[str]:
    return []


def watched(noted: ApplyQuery, said: list[str]) -> Iterator[bool]:
    """What a watch says, look by look. Leases expire after a second."""
    record = noted.state().record
    assert record is not None
    watch = QueryWatch("DEMO_", "dr1", record)
    watch._lease = 1.0
    while True:
        yield watch.runs(lambda text, *values: said.append(text % values))


def task_of(redis_url: str) -> ApplyTask:
    info = SimpleNamespace(password="pass/word")
    pair: Any = SimpleNamespace(
        master_info=info, slave_info=info, rows_info=None, prefix=Prefix("DEMO_"), slave=SimpleNamespace(name="dr1")
    )
    return ApplyTask("query1", pair, redis_url, Endpoint("local[1]"))


def test_an_outage_of_redis_that_is_longer_than_the_lease_does_not_end_the_query(
    noted: ApplyQuery, said: list[str], redis_server: Any
) -> None:
    key = lease.key(Prefix("DEMO_"), "dr1")
    noted.client.set(key, json.dumps({"host": "host", "pid": 1, "token": "t"}), px=1000)
    looks, pid = watched(noted, said), int(Path(redis_server.pid_file).read_text())
    assert next(looks)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert next(looks)
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: redis_server.is_ready())
    assert not noted.client.exists(key), "the lease has expired meanwhile"
    assert next(looks), said
    until(lambda: not next(looks))
    assert "frozen" in said[0], "a task that does not take the lease again is frozen"


def test_a_query_that_another_airflow_watches_now_is_left_to_it(noted: ApplyQuery, said: list[str]) -> None:
    record = noted.state().record
    assert record is not None
    watch = QueryWatch("DEMO_", "dr1", record)
    assert watch.runs(said.append) and watch.taker is None
    assert noted.state().watched_by == socket.gethostname()
    noted.client.delete(f"{noted.key}:watched")
    noted.owned_by(record, asdict(replace(OWNER, try_number=2)))
    assert watch.runs(said.append) and watch.taker is None, "another try of the same task"
    noted.write(replace(record, id="query2", owner=asdict(replace(OWNER, run_id="theirs"))))
    noted.client.delete(f"{noted.key}:watched")
    assert watch.runs(said.append) and watch.taker == replace(OWNER, run_id="theirs")
    assert not noted.state().watched_by and not said


def test_a_standby_waits_for_whoever_watches_or_applies(noted: ApplyQuery) -> None:
    def waits() -> bool:
        return StandbyTrigger._waits(noted)

    noted.watch()
    assert waits() and noted.state().standby == socket.gethostname()
    noted.client.delete(f"{noted.key}:watched")
    assert not waits(), "a query that runs is watched from here on"
    noted.client.set(lease.key(Prefix("DEMO_"), "dr1"), json.dumps({"host": "host", "pid": 1, "token": "t"}))
    assert not waits()
    noted.is_lost("query1", time.time())
    assert waits(), "a process of another machine, or a frozen executor"
    noted.client.delete(lease.key(Prefix("DEMO_"), "dr1"))
    assert not waits()


def test_an_emptied_redis_does_not_end_the_query_and_its_task_notes_again_that_it_runs(
    noted: ApplyQuery, said: list[str], redis_url: str
) -> None:
    looks, stop = watched(noted, said), threading.Event()
    assert next(looks)
    noted.client.flushall()
    assert next(looks)
    assert noted.state().record is not None
    assert next(looks), said
    with apply_task._reporting(task_of(redis_url), noted, stop):
        until(lambda: noted.state().begun is not None)
    assert noted.state().begun == apply_task._here() and not stop.is_set()


def test_passwords_are_in_no_line_of_either_log_and_not_in_the_last_words(
    noted: ApplyQuery, redis_url: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> tuple[int, str]:
        logging.getLogger("sluice.job").error("refused: %s", "pass/word")
        return TERMINAL, "refused: pass%2Fword, pass/word"

    monkeypatch.setattr(apply_task, "_apply", fails)
    monkeypatch.setattr(apply_task, "_superseded", lambda *_: False)
    apply_task.run(pickle.dumps(task_of(redis_url)), "")
    end, kept = noted.state().end, noted.last_lines(10)
    assert end is not None and end.message == "refused: ***, ***"
    worker = [line for line in capfd.readouterr().err.splitlines() if line in kept]
    assert worker == kept and kept[-1].endswith("ERROR refused: ***")


def test_a_query_that_is_told_to_end_before_it_has_a_slot_tells_its_end(noted: ApplyQuery, redis_url: str) -> None:
    noted.request_stop("query1", StopRequest("Airflow", "another one replaces it", time.time()))
    apply_task.run(pickle.dumps(task_of(redis_url)), "")
    end = noted.state().end
    assert end is not None and end.rc == DONE


def test_what_a_later_release_adds_is_ignored(noted: ApplyQuery) -> None:
    values = json.loads(str(noted.client.hget(noted.key, "record")))
    noted.client.hset(noted.key, "record", json.dumps({**values, "later": 1}))
    noted.client.hset(noted.key, "begun", json.dumps({"id": "query1", "host": "host", "pid": 2, "later": 1}))
    noted.client.hset(noted.key, "end", json.dumps({"id": "query1", "rc": 0, "message": "", "at": 1.0, "later": 1}))
    noted.client.hset(noted.key, "stop", json.dumps({"id": "query1", "by": "", "reason": "", "at": 1.0, "later": 1}))
    state = noted.state()
    assert state.record and state.record.id == "query1" and state.begun == Begun("host", 2) and state.end and state.stop
    trigger = query_trigger.QueryTrigger({**values, "later": 1}, "DEMO_", "dr1")
    assert trigger.record == state.record


def test_a_start_that_another_one_holds_up_is_no_outage_of_redis(
    noted: ApplyQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    with noted.exclusive():
        monkeypatch.setattr(apply_query, "START_SECONDS", 0.1)
        with raises_code("apply-start-held", match="Another task"), noted.exclusive():
            pass


def test_every_pair_is_found_and_nothing_else(noted: ApplyQuery, redis_url: str) -> None:
    client: redis.Redis = noted.client
    ApplyQuery(client, "OTHER_", "query").note_process("no Spark")
    noted.log(["a line"])
    with noted.exclusive():
        assert apply_query.pairs(client) == [("DEMO_", "dr1"), ("OTHER_", "query")]
