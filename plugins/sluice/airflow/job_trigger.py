"""Watches a job from the triggerer: copies its log into the task log, and fires when the job has ended.

A job is a process (`JobTrigger`) or a query of Spark (`sluice.airflow.query_trigger`).
"""

import asyncio
import contextlib
import logging
import os
import re
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from airflow.triggers.base import BaseTrigger, TriggerEvent

from sluice.airflow.deferral_guard import wait_until
from sluice.airflow.job import Job, JobState, Kind, file_of, log_of, read_values, write_values
from sluice.airflow.restart_policy import Next, Verdict, judge
from sluice.counted import counted
from sluice.model.comparison_trigger import COMPARE_AND_TELL

# Reads a job's log while it grows, across rotations and restarts of the reader.
#
# The reader's position is kept beside the job's record, so that a line is copied to the task log once, by any
# triggerer.

CHUNK_BYTES = 256_000
"""Bytes that one call of `read` takes at most."""


@dataclass(frozen=True)
class Cursor:
    """A position in a rotated log: inode of the file, and offset in it."""

    inode: int = 0
    offset: int = 0


class JobOutput:
    """The log of a job, from the position of the last reader."""

    def __init__(self, job_id: str):
        self.path = log_of(job_id)
        self._file = file_of(job_id, "cursor")
        values = read_values(self._file)
        self.cursor = Cursor(**values) if values else Cursor()

    def read(self, *, rest: bool = False) -> list[str]:
        """New whole lines, oldest first. `rest` adds an unfinished last line. Call `keep` afterwards."""
        path, inode = self._path_and_inode()
        if path is None:
            return []
        offset = self.cursor.offset if inode == self.cursor.inode else 0
        try:
            with open(path, "rb") as file:
                file.seek(offset)
                chunk = file.read(CHUNK_BYTES)
        except OSError:
            return []
        end = chunk.rfind(b"\n") + 1
        full, old = len(chunk) == CHUNK_BYTES, path != self.path
        if (rest and not full) or (end == 0 and (full or old)):
            end = len(chunk)
        if end == 0 and path != self.path:
            # The rotated file is read to its end: continue with the next one.
            self.cursor = Cursor(self._next_inode(path), 0)
            return self.read(rest=rest)
        self.cursor = Cursor(inode, offset + end)
        return [line.rstrip("\r") for line in chunk[:end].decode(errors="replace").split("\n") if line.strip()]

    def keep(self) -> None:
        """Stores the position."""
        with contextlib.suppress(OSError):
            write_values(self._file, asdict(self.cursor))

    def _files(self) -> list[Path]:
        """The log and its rotated files, newest first."""
        return [self.path, *(self.path.with_name(f"{self.path.name}.{number}") for number in range(1, 10))]

    def _path_and_inode(self) -> tuple[Path | None, int]:
        """File to read and its inode: the file of the cursor, else the newest."""
        inodes = [(file, inode) for file in self._files() if (inode := _inode(file))]
        for file, inode in inodes:
            if inode == self.cursor.inode:
                return file, inode
        return inodes[0] if inodes else (None, 0)

    def _next_inode(self, path: Path) -> int:
        files = self._files()
        return _inode(files[files.index(path) - 1])


def _inode(path: Path) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


POLL_SECONDS = 1.0
BACK_SECONDS = 30.0
"""How often an apply that runs as a process looks whether Spark is back."""
ANSWER_SECONDS = 15.0
"""How long Airflow may take to answer what state a task is in. `on_kill` has 30 s in all, and the first such question
of a triggerer takes some of them on a busy machine."""
LINES_A_LOOK = 500
"""Lines copied into the task log at a time: writing them blocks the event loop."""


class Output(Protocol):
    """The log of a job, from the last reader's position."""

    @property
    def path(self) -> object:
        """Where it is, for people."""
        ...

    def read(self, *, rest: bool = False) -> list[str]:
        """See `JobOutput`."""
        ...

    def keep(self) -> None:
        """See `JobOutput`."""
        ...


_LOG_LINE = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-][\d:]+)? (?P<level>[A-Z]+) (?P<text>.*)")


class JobTrigger(BaseTrigger):
    """Fires an event `{"job_id", "next", "why", "attempt"}` when the job has ended and its back-off has passed, or when
    the job asks for a comparison of definitions.

    Airflow stores the arguments in its database: a later release must still understand them. They suffice to continue
    if the job's record is lost.
    """

    def __init__(
        self,
        job_id: str,
        kind: str,
        launched: float,
        attempt: int = 0,
        earliest: float = 0.0,
        awaits_spark: bool = False,
    ):
        """`awaits_spark`: the job is the apply while Spark is away; the event `move` says that Spark is back."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.job_id = job_id
        self.kind = Kind(kind)
        self.launched = launched
        self.attempt = attempt
        self.earliest = earliest
        self.awaits_spark = awaits_spark
        self._compares = False
        self._watched = time.monotonic()

    @classmethod
    def of(cls, job: Job, earliest: float = 0.0, *, awaits_spark: bool = False) -> "JobTrigger":
        return cls(job.id, str(job.kind), job.launched, job.attempt, earliest, awaits_spark)

    def serialize(self) -> tuple[str, dict[str, object]]:
        values = {
            "job_id": self.job_id,
            "kind": str(self.kind),
            "launched": self.launched,
            "attempt": self.attempt,
            "earliest": self.earliest,
            "awaits_spark": self.awaits_spark,
        }
        return "sluice.airflow.job_trigger.JobTrigger", values

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Accesses files in threads only: all triggers share the event loop."""
        output = await asyncio.to_thread(self._output)
        while await asyncio.to_thread(self._runs):
            await self._copy(output)
            if self._compares:
                await wait_until(self.earliest)
                yield self._event(Next.COMPARE, COMPARE_AND_TELL, self.attempt)
                return
            for following, reason in ((Next.LEAVE, self._taken_over), (Next.MOVE, self._moves)):
                if why := await asyncio.to_thread(reason):
                    self.log.info("%s", why)
                    await wait_until(self.earliest)
                    yield self._event(following, why, self.attempt)
                    return
            await asyncio.sleep(POLL_SECONDS)
        await self._copy(output, rest=True)
        verdict, gone = await asyncio.to_thread(self._verdict)
        wait = max(0.0, gone + verdict.delay - time.time())
        match verdict.next:
            case Next.FINISH:
                self.log.info("The job %s ended.", self.job_id)
            case Next.FAIL:
                self.log.info("The job %s ended for good.", self.job_id)  # the task says why
            case _:
                self.log.warning("The job %s is gone. %s It starts again in %.0f s.", self.job_id, verdict.why, wait)
        await asyncio.sleep(wait)
        await wait_until(self.earliest)
        yield self._event(verdict.next, verdict.why, verdict.attempt)

    async def on_kill(self) -> None:
        """A person cleared or marked the task: requests the job's end and returns at once."""
        if await self._handed_over():
            self.log.info("Another triggerer watches the job %s from here on.", self.job_id)
            return
        self.log.info("The job %s is told to end: its task was cleared or marked.", self.job_id)
        await asyncio.to_thread(self._stop, "its task was cleared or marked")

    def _event(self, following: Next, why: str, attempt: int) -> TriggerEvent:
        values = {"job_id": self.job_id, "next": str(following), "why": why, "attempt": attempt}
        return TriggerEvent(values)  # type: ignore[no-untyped-call]

    # -- what a process has; a query has it elsewhere

    def _output(self) -> Output:
        return JobOutput(self.job_id)

    def _stop(self, reason: str) -> None:
        job = Job.read(self.job_id)
        if job is not None:
            job.stop("Airflow", reason)

    def _taken_over(self) -> str:
        """Why this trigger no longer watches the job; empty if it does."""
        return ""

    def _moves(self) -> str:
        """Why the job is to be replaced though it runs; empty if it is not."""
        if not self.awaits_spark or not _PROBE.runs_tasks(self._watched + BACK_SECONDS):
            return ""
        return "Spark is back: the apply moves to its executors."

    def _runs(self) -> bool:
        job = Job.read(self.job_id)
        return job is not None and job.state() is JobState.RUNNING

    def _verdict(self) -> tuple[Verdict, float]:
        """What follows, and when the job ended (seconds since the epoch)."""
        job = Job.read(self.job_id)
        gone = job.gone_since() if job else time.time()
        return judge(self.kind, job.result() if job else None, gone - self.launched, self.attempt), gone

    # -- its log

    async def _copy(self, output: Output, *, rest: bool = False) -> bool:
        """Copies new lines, at most `LINES_A_LOOK` of them; whether there were any."""
        copied = left_out = 0
        while lines := await asyncio.to_thread(output.read, rest=rest):
            shown = lines[: max(0, LINES_A_LOOK - copied)]
            for line in shown:
                level, text = parse_line(line)
                self.log.log(level, "%s", text)
            self._compares |= any(COMPARE_AND_TELL in line for line in lines)
            copied += len(shown)
            left_out += len(lines) - len(shown)
            await asyncio.to_thread(output.keep)
        if left_out:
            self.log.warning("Not copied: %s. The whole log is %s", counted(left_out, "line"), output.path)
        return copied + left_out > 0

    async def _handed_over(self) -> bool:
        """Whether another triggerer takes the trigger: Airflow calls `on_kill` then, too, but the task stays
        deferred."""
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        task = self.task_instance
        if task is None:
            return False
        try:
            answer = asyncio.to_thread(
                RuntimeTaskInstance.get_ti_count,
                dag_id=task.dag_id,
                task_ids=[task.task_id],
                run_ids=[task.run_id],
                map_index=task.map_index,
                states=["deferred"],
            )
            deferred = await asyncio.wait_for(answer, ANSWER_SECONDS)
        except Exception as error:  # in doubt end the job: it is started again if that was wrong
            self.log.warning("Airflow does not give the state of the task: %s", str(error) or "it does not answer")
            return False
        return bool(deferred)


class SparkProbe:
    """Asks the endpoint whether it runs tasks, once for all pairs of this process, and in its own thread: an
    answer takes up to two minutes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = self._answered = float("-inf")
        self._asks = self._runs = False

    def runs_tasks(self, since: float) -> bool:
        """Whether the endpoint ran a task when it was last asked, after `since` (of `time.monotonic`). Returns at
        once; it is asked again `BACK_SECONDS` after each answer."""
        with self._lock:
            if self._asks:
                return False
            if self._runs and self._asked >= since:
                return True
            now = time.monotonic()
            if now >= max(since, self._answered + BACK_SECONDS):
                self._asked, self._asks = now, True
                threading.Thread(target=self._ask, name="spark-back", daemon=True).start()
        return False

    def _ask(self) -> None:
        from sluice.airflow import applies

        runs = False
        try:
            runs = not applies.why_no_spark()
        finally:
            with self._lock:
                self._runs, self._asks, self._answered = runs, False, time.monotonic()


_PROBE = SparkProbe()


def parse_line(line: str) -> tuple[int, str]:
    """Level and text of a line of a job's log. Its time is dropped: the task log adds one."""
    matched = _LOG_LINE.match(line)
    if matched is None:
        return logging.INFO, line
    return logging.getLevelNamesMapping().get(matched["level"], logging.INFO), matched["text"]
