"""The configuration, and the state of each pair in Redis. During an outage: the last state before it.

The monitor reads in threads of its own, so that neither the event loop of Airflow's API server nor the threads of its
other pages wait for Redis.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from fastapi import HTTPException

from sluice import config
from sluice.config import ConfigError, Replication, Survey
from sluice.coordination import known_pairs, redis_store
from sluice.coordination.known_pairs import HOUR, Known, Past
from sluice.errors import SluiceError
from sluice.model.names import Prefix

Made = TypeVar("Made")

FRESH_SECONDS = 1.0
"""How long an answer is reused, so that many open pages cost no more than one."""
THREADS = ThreadPoolExecutor(8, thread_name_prefix="sluice-monitor")


@dataclass(frozen=True)
class Gathered:
    """The state at one moment."""

    survey: Survey
    known: Known
    at: datetime
    """When it was read."""
    trouble: str = ""
    """Why it could not be read again."""


def configured(gathered: Gathered, prefix: str, slave: str | None = None) -> Replication:
    """The replication `prefix`. Raises 404 if there is none, or if it has no such slave."""
    replications = {str(one.prefix): one for one in gathered.survey.replications}
    one = replications.get(prefix.upper())
    if one is None:
        known = f"These are configured: {', '.join(replications)}." if replications else "No replication is."
        raise HTTPException(
            404, f"{prefix} is not configured, or its file has mistakes, which the overview lists. {known}"
        )
    if slave is not None and slave not in one.slaves:
        raise HTTPException(404, f"{one.prefix} has no slave {slave}. Its slaves: {', '.join(one.slaves) or 'none'}.")
    return one


async def in_thread(work: Callable[[], Made]) -> Made:
    """Runs blocking work in a thread of the monitor."""
    return await asyncio.get_running_loop().run_in_executor(THREADS, work)


class Watch:
    """The state of all replications, read on demand."""

    def __init__(self) -> None:
        self._last: Gathered | None = None
        self._read_at = float("-inf")
        self._surveyed: tuple[object, Survey] | None = None
        self._pasts: dict[tuple[Prefix, str], Past] = {}
        self._lock = threading.Lock()

    async def state(self) -> Gathered:
        """The current state. If Redis or the configuration cannot be read: the former state, with the reason."""
        state = self._fresh()
        return await in_thread(self._once) if state is None else state

    def forget(self) -> None:
        """Makes the next call of `state` read again, because an action has changed something."""
        self._read_at = float("-inf")

    def _fresh(self) -> Gathered | None:
        return self._last if time.monotonic() - self._read_at < FRESH_SECONDS else None

    def _once(self) -> Gathered:
        """Of several concurrent calls only one reads."""
        with self._lock:
            if (state := self._fresh()) is not None:
                return state
            gathered = self._last = self._gather()
            self._read_at = time.monotonic()
            return gathered

    def past(self, prefix: Prefix, slave: str, minutes: int) -> Past:
        """The events and samples of one slave in the last `minutes`. Without Redis: the former ones. Blocks."""
        with suppress(SluiceError):
            self._pasts[prefix, slave] = _past(prefix, slave, minutes)
        return self._pasts.get((prefix, slave), Past())

    def _gather(self) -> Gathered:
        now = datetime.now(UTC)
        before = self._last
        try:
            survey = self._survey()
        except ConfigError as failure:
            nothing = Survey((), failure.mistakes, {}, ())
            return Gathered(nothing, Known(), now, str(failure))
        try:
            known = _read({one.prefix: list(one.slaves) for one in survey.replications}, HOUR)
        except SluiceError as failure:
            if before is None:
                return Gathered(survey, Known(), now, str(failure))
            return replace(before, survey=survey, trouble=str(failure))
        return Gathered(survey, known, now)

    def _survey(self) -> Survey:
        """The configuration, read again only if a file has changed, since checking many slaves takes a while."""
        parts = [part for one in (self._surveyed[1].replications if self._surveyed else ()) for part in one.points_at]
        marks = tuple(_marks(config.folders())), tuple(_mark(part) for part in parts)
        if self._surveyed is None or self._surveyed[0] != marks:
            survey = config.survey()
            parts = [part for one in survey.replications for part in one.points_at]
            self._surveyed = (marks[0], tuple(_mark(part) for part in parts)), survey
        return self._surveyed[1]


def _read(pairs: Mapping[Prefix, list[str]], minutes: int) -> Known:
    client = redis_store.connect()
    try:
        return known_pairs.read(client, pairs, minutes)
    finally:
        client.close()


def _past(prefix: Prefix, slave: str, minutes: int) -> Past:
    client = redis_store.connect()
    try:
        return known_pairs.past(client, prefix, slave, minutes)
    finally:
        client.close()


def _marks(folders: tuple[Path, ...]) -> list[object]:
    marks: list[object] = []
    for folder in folders:
        try:
            marks += [(str(file), _mark(file)) for file in sorted(folder.iterdir())]
        except OSError as error:
            marks.append((str(folder), str(error)))
    return marks


def _mark(file: Path) -> object:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
