"""Watches the apply that is a query of Spark, from the triggerer.

Each second it reads Redis: the lease, the status, how the query ended. Spark is asked once a minute, which keeps the
session alive, and at once when the query's task is silent. All decisions are in `restart_policy`.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from sluice.airflow import applies, connections
from sluice.airflow.applies import QueryJob
from sluice.airflow.deferral_guard import wait_until
from sluice.airflow.job import Kind, Owner
from sluice.airflow.job_trigger import POLL_SECONDS, JobTrigger, Output
from sluice.airflow.restart_policy import LEASE_SLACK, Verdict, Watched, asks_spark, judge, why_gone
from sluice.configuration.model import Replication
from sluice.configuration.watched import WatchedFile, used_by_apply
from sluice.coordination.apply_query import WATCH_SECONDS, ApplyQuery, QueryRecord, QueryState
from sluice.coordination.redis_store import StoreUnreachable
from sluice.errors import SluiceError, Terminal

FILE_SECONDS = 1.0
"""How often the configuration's files are looked at."""
END_SECONDS = 10.0
"""How long a query may take to end when it is asked to; then Spark ends it."""


class QueryTrigger(JobTrigger):
    """As `JobTrigger`. `record`: of the query, without secrets."""

    def __init__(self, record: dict[str, Any], prefix: str, slave: str, earliest: float = 0.0):
        self.record = QueryRecord.of(record)
        super().__init__(self.record.id, str(Kind.APPLY), self.record.launched, self.record.attempt, earliest)
        self.prefix, self.slave = prefix, slave
        self._watch: QueryWatch | None = None
        self._file: ConfigWatch | None = None

    @classmethod
    def of_query(cls, job: QueryJob, earliest: float = 0.0) -> "QueryTrigger":
        return cls(asdict(job.record), job.prefix, job.slave, earliest)

    def serialize(self) -> tuple[str, dict[str, object]]:
        values = {
            "record": asdict(self.record), "prefix": self.prefix, "slave": self.slave, "earliest": self.earliest,
        }  # fmt: skip
        return "sluice.airflow.query_trigger.QueryTrigger", values

    def _output(self) -> Output:
        return QueryOutput(applies.of_pair(self.prefix, self.slave))

    def _stop(self, reason: str) -> None:
        job = QueryJob(self.prefix, self.slave, self.record)
        job.stop("Airflow", reason)
        job.await_end(END_SECONDS)

    def _taken_over(self) -> str:
        taker = self._watch.taker if self._watch is not None else None
        return f"{taker} watches the apply now." if taker is not None else ""

    def _moves(self) -> str:
        if self._file is None:
            self._file = ConfigWatch(self.prefix, self.slave, self.record.config)
        return self._file.changed(self.log.warning)

    def _runs(self) -> bool:
        if self._watch is None:
            self._watch = QueryWatch(self.prefix, self.slave, self.record)
        return self._watch.runs(self.log.warning)

    def _verdict(self) -> tuple[Verdict, float]:
        job = QueryJob(self.prefix, self.slave, self.record)
        gone = job.gone_since()
        return judge(self.kind, job.result(), gone - self.launched, self.attempt), gone


class StandbyTrigger(BaseTrigger):
    """Fires once no other Airflow watches the apply of a pair and none applies it. While Redis is away it waits."""

    def __init__(self, prefix: str, slave: str, earliest: float = 0.0):
        super().__init__()  # type: ignore[no-untyped-call]
        self.prefix, self.slave, self.earliest = prefix, slave, earliest

    def serialize(self) -> tuple[str, dict[str, object]]:
        values = {"prefix": self.prefix, "slave": self.slave, "earliest": self.earliest}
        return "sluice.airflow.query_trigger.StandbyTrigger", values

    async def run(self) -> AsyncIterator[TriggerEvent]:
        noted = await asyncio.to_thread(applies.of_pair, self.prefix, self.slave)
        while await asyncio.to_thread(self._waits, noted):
            await asyncio.sleep(POLL_SECONDS)
        self.log.info("%s → %s: no other Airflow watches the apply any more.", self.prefix, self.slave)
        await wait_until(self.earliest)
        yield TriggerEvent({})  # type: ignore[no-untyped-call]

    @staticmethod
    def _waits(noted: ApplyQuery) -> bool:
        try:
            noted.stand_by()
            state = noted.state()
        except StoreUnreachable:
            return True
        # A query that still runs is watched from here on; a process of another machine cannot be.
        return bool(state.watched_by) or (state.holder is not None and not state.runs)


class QueryOutput:
    """The log of a query, which its task writes to Redis."""

    path = "in the log of Spark's executor"

    def __init__(self, redis: ApplyQuery):
        self._redis = redis

    def read(self, *, rest: bool = False) -> list[str]:
        """New lines; none while Redis is away."""
        try:
            return self._redis.log_lines()
        except StoreUnreachable:
            return []

    def keep(self) -> None:
        """Redis has the position."""


class QueryWatch:
    """Decides from what Redis and Spark say whether the query runs. Nothing is decided while Redis is away: the apply
    waits for it as well."""

    def __init__(self, prefix: str, slave: str, record: QueryRecord):
        self.job = QueryJob(prefix, slave, record)
        self._lease = 0.0
        self._asked = time.monotonic()
        self._renewed = 0.0
        self._status = ""
        self._spark: str | None = None
        self.taker: Owner | None = None
        """The task that watches the query in place of this one, which another Airflow has taken for dead."""
        self._judge_from_now()

    def runs(self, say: Any) -> bool:
        """Whether it runs; notes in Redis that it is lost, and calls `say` with the reason."""
        noted, began = self.job.noted, time.monotonic()
        try:
            state = noted.state()
            if state.record is None:
                noted.write(self.job.record)  # Redis was emptied
                self._judge_from_now()
                return True
            if time.monotonic() > began + LEASE_SLACK:
                self._judge_from_now()  # Redis was frozen
            taker = Owner(**state.record.owner)
            if not taker.same_task(self.job.owner):
                self.taker = taker
                return True
            self._renew_watch()
            if state.record.id != self.job.id or not state.runs:
                return False
            reason = self._look(state)
            if not reason:
                return True
            # It may have told its end meanwhile.
            if noted.state().end is None:
                say("%s", reason)
                self._lost(state, reason)
            return False
        except StoreUnreachable:
            self._judge_from_now()
            return True

    def _renew_watch(self) -> None:
        """Tells other Airflows, in time, that this one watches the query."""
        if time.monotonic() >= self._renewed + WATCH_SECONDS / 3:
            self.job.noted.watch()
            self._renewed = time.monotonic()

    def _judge_from_now(self) -> None:
        """While Redis is away the lease expires; its task needs a moment to take it, and to note that it runs."""
        self._leased = self._written = self._slotless = time.monotonic()

    def _look(self, state: QueryState) -> str:
        now = time.monotonic()
        written = str(state.status.get("at", ""))
        if written != self._status:
            self._status, self._written = written, now
        if state.holder is not None:
            self._leased = now
        self._spark = None
        words = ""
        if asks_spark(now - self._asked, now - min(self._written, self._leased)):
            words = self._ask()
            self._asked = time.monotonic()
        seen = Watched(now - self._slotless, state.begun is not None, now - self._leased, self._spark)
        reason = why_gone(seen, self._lease_seconds())
        return f"{reason} {words}".strip() if reason else ""

    def _ask(self) -> str:
        from spark_jobs import apply_query

        try:
            answer, words = apply_query.look(connections.endpoint(), self.job.record)
        except SluiceError:
            return ""  # Redis says whether its task lives
        self._spark = str(answer)
        return words

    def _lease_seconds(self) -> float:
        if not self._lease:
            from sluice import config

            with suppress(Terminal):
                self._lease = config.load(self.job.prefix).apply.lease
        return self._lease or 10.0

    def _lost(self, state: QueryState, reason: str) -> None:
        noted = self.job.noted
        noted.is_lost(self.job.id, time.time())
        if self._spark in ("ended", "unknown") and state.begun is not None:
            noted.free(state.begun)
        # A frozen server takes its time to answer.
        threading.Thread(target=self._kill, name="spark-kill", daemon=True).start()

    def _kill(self) -> None:
        with suppress(SluiceError):
            self.job.kill()


class ConfigWatch:
    """Looks whether the configuration that the apply uses has changed since `digest` was taken of its files."""

    def __init__(self, prefix: str, slave: str, digest: str):
        self._prefix, self._slave, self._digest = prefix, slave, digest
        self._read: Replication | None = None
        self._file: WatchedFile | None = None
        self._looked = float("-inf")

    def changed(self, say: Any) -> str:
        """Why the apply restarts; empty if it does not. Mistakes change nothing, and are told once."""
        if time.monotonic() < self._looked + FILE_SECONDS:
            return ""
        self._looked = time.monotonic()
        try:
            return self._compared()
        except Terminal as mistake:
            say("The apply keeps its configuration: %s", mistake)
            return ""

    def _compared(self) -> str:
        from sluice import config

        if self._read is None or self._file is None:
            self._read = config.load(self._prefix)
            self._file = WatchedFile(self._read)
            if applies.config_digest(self._read) == self._digest:
                return ""
            return f"{self._read.source} has changed: the apply restarts."
        now = self._file.again()
        if now is None:
            return ""
        before, self._read = self._read, now
        if used_by_apply(now, self._slave) == used_by_apply(before, self._slave):
            return ""
        return f"{now.source} has changed: the apply restarts."
