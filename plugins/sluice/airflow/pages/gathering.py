"""The configuration, and what Redis, Airflow and the slaves' databases say of each pair. During an outage: the last
state before it.

Redis tells most of it at once. What a slave *is* its CHECKPOINT says: where Redis has no status of an apply that runs,
its database is asked, and while that does not answer, its last answer counts.
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from fastapi import HTTPException

from sluice import config
from sluice.airflow.pages.databases import ASKING, NO_ANSWER, Answers, Databases, in_thread
from sluice.airflow.pages.run_messages import Beside, switches
from sluice.airflow.pages.slave_row import LATE_SECONDS, silent_for
from sluice.config import Survey
from sluice.configuration.mistakes import ConfigError
from sluice.configuration.model import Replication
from sluice.configuration.watched import mark
from sluice.coordination import live_state, redis_check, redis_store
from sluice.coordination.live_state import HOUR, LiveSlave, LiveState, Past
from sluice.errors import SluiceError
from sluice.model.failover import refused_since
from sluice.model.names import Prefix
from sluice.operate.open_runs import NOT_ASKED, Airflow, Run

FRESH_SECONDS = 1.0
"""How long an answer is reused, so that many open pages cost no more than one."""
RUNS, SILENT, PROBE = 2, 5, 10
"""So many times as long what Airflow said is reused, Redis is not asked again after it did not answer, and what Redis
lets us do is not tried again."""
MANY = 100
"""More slaves than these are many: their pages are refreshed less often."""
PAST_SECONDS = 10.0
"""How long curves and comparisons of many slaves are reused."""
ANSWER_SECONDS = 2
"""Time-out of a connection to Redis, and of each answer."""


@dataclass(frozen=True)
class Gathered:
    """The state at one moment."""

    survey: Survey
    live: LiveState
    at: datetime
    """When it was read."""
    trouble: str = ""
    """Why it could not be read again."""
    airflow: Airflow = NOT_ASKED
    answers: Answers = field(default_factory=dict)
    """Of the databases of slaves of which Redis does not say enough."""
    store: str = ""
    """What Redis refuses although it answers."""
    warnings: tuple[str, ...] = ()
    """What may go wrong with Redis later."""

    def beside(self, prefix: Prefix, slave: str) -> Beside:
        """What is known of a slave beside Redis's content."""
        answer = self.answers.get((prefix, slave), NO_ANSWER)
        return Beside(
            self.airflow.about(str(prefix), slave),
            self.airflow,
            answer.seen.checkpoint if answer.seen else None,
            answer.at,
            answer.trouble,
            self.trouble or self.store,
        )

    def moment(self, now: datetime) -> datetime:
        """The time that ages count to: what Redis said before its outage does not grow old on the page."""
        return self.at if self.trouble else now


def configured(gathered: Gathered, prefix: str, slave: str | None = None) -> Replication:
    """The replication `prefix`. Raises 404 if there is none, or if it has no such slave."""
    replications = {str(one.prefix): one for one in gathered.survey.replications}
    one = replications.get(prefix.upper())
    if one is None:
        listed = f"These are configured: {', '.join(replications)}." if replications else "No replication is."
        raise HTTPException(
            404, f"{prefix} is not configured, or its file has mistakes, which the overview lists. {listed}"
        )
    if slave is not None and slave not in one.slaves:
        raise HTTPException(404, f"{one.prefix} has no slave {slave}. Its slaves: {', '.join(one.slaves) or 'none'}.")
    return one


class Watch:
    """The state of all replications, read on demand."""

    def __init__(self, databases: Databases, airflow: Callable[[], Airflow]) -> None:
        self._databases, self._airflow = databases, airflow
        self._last: Gathered | None = None
        self._runs, self._runs_at = NOT_ASKED, float("-inf")
        self._probed: tuple[str, tuple[str, ...]] | None = None
        self._probed_at = float("-inf")
        self._read_at = float("-inf")
        self._surveyed: tuple[object, Survey] | None = None
        self._past_read: LiveState | None = None
        self._past_at = float("-inf")
        self._pasts: dict[tuple[Prefix, str], Past] = {}
        self._lock = threading.Lock()

    async def state(self) -> Gathered:
        """The current state. If Redis or the configuration cannot be read: the former state, with the reason."""
        state = self._fresh()
        return await in_thread(self._once) if state is None else state

    def forget(self) -> None:
        """Makes the next call of `state` read again, because an action has changed something."""
        self._read_at = self._runs_at = float("-inf")

    def _fresh(self) -> Gathered | None:
        kept = FRESH_SECONDS * (SILENT if self._last and self._last.trouble else 1)
        return self._last if time.monotonic() - self._read_at < kept else None

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
            return Gathered(nothing, LiveState(), now, str(failure))
        airflow = self._airflow_now()
        pairs = {one.prefix: list(one.slaves) for one in survey.replications}
        store, warnings, trouble, at = "", tuple[str, ...](), "", now
        try:
            live = self._live(pairs)
            store, warnings = self._probe()
        except SluiceError as failure:
            live, at = (before.live, before.at) if before else (LiveState(), now)
            trouble = str(failure)
        switching = {(run.prefix, slave) for run in airflow.runs if switches(run) for slave in run.slaves}
        asked = [
            (one, slave)
            for one in survey.replications
            for slave in one.slaves
            if trouble or _unclear(live.slave(one.prefix, slave), now) or (str(one.prefix), slave) in switching
        ]
        answers = self._databases.answers(asked, switching)
        airflow = replace(airflow, runs=tuple(_refused(run, answers) for run in airflow.runs)) if switching else airflow
        return Gathered(survey, live, at, trouble, airflow, answers, store, warnings)

    def _live(self, pairs: Mapping[Prefix, list[str]]) -> LiveState:
        """What Redis says. Of many slaves, curves and comparisons are those of some seconds ago: they are most of it,
        and are read beside the page. Raises `SluiceError`."""
        if self._past_read is None or sum(map(len, pairs.values())) <= MANY:
            self._past_read, self._past_at = _read(pairs, HOUR, former=self._past_read), time.monotonic()
            return self._past_read
        if time.monotonic() - self._past_at >= PAST_SECONDS:
            self._past_at = time.monotonic()  # once for all who ask meanwhile
            ASKING.submit(self._read_past, pairs)
        return _read(pairs, HOUR, self._past_read)

    def _read_past(self, pairs: Mapping[Prefix, list[str]]) -> None:
        with suppress(SluiceError):
            self._past_read = _read(pairs, HOUR, former=self._past_read)

    def _airflow_now(self) -> Airflow:
        """What Airflow says; if it cannot be asked: what it said before, with the reason."""
        if time.monotonic() - self._runs_at >= FRESH_SECONDS * RUNS:
            runs = self._airflow()
            self._runs = replace(self._runs, trouble=runs.trouble, asked=True) if runs.trouble else runs
            self._runs_at = time.monotonic()
        return self._runs

    def _probe(self) -> tuple[str, tuple[str, ...]]:
        """What Redis refuses although it answers, and what it warns of. It is tried beside the page, but for the first
        time: that takes thirty round trips. Raises `SluiceError`."""
        if self._probed is None:
            self._try_redis()
        elif time.monotonic() - self._probed_at >= FRESH_SECONDS * PROBE:
            self._probed_at = time.monotonic()  # once for all who ask meanwhile
            ASKING.submit(self._try_redis)
        assert self._probed is not None
        return self._probed

    def _try_redis(self) -> None:
        with closing(redis_store.connect(seconds=ANSWER_SECONDS)) as client:
            self._probed = redis_check.refusal(client), tuple(redis_check.warnings(client))
        self._probed_at = time.monotonic()

    def _survey(self) -> Survey:
        """The configuration, read again only if a file has changed, since checking many slaves takes a while."""
        parts = [part for one in (self._surveyed[1].replications if self._surveyed else ()) for part in one.points_at]
        marks = tuple(_marks(config.folders())), tuple(mark(part) for part in parts)
        if self._surveyed is None or self._surveyed[0] != marks:
            survey = config.survey()
            parts = [part for one in survey.replications for part in one.points_at]
            self._surveyed = (marks[0], tuple(mark(part) for part in parts)), survey
        return self._surveyed[1]


def _unclear(slave: LiveSlave, now: datetime) -> bool:
    """Whether its database is asked: Redis does not say what the slave is, or why its apply says nothing."""
    return slave.says_too_little or silent_for(slave, now) > LATE_SECONDS


def _refused(run: Run, answers: Answers) -> Run:
    """The run; that of a failover that switches with what its slave says of the master's writes."""
    if not switches(run):
        return run
    seen = answers.get((Prefix(run.prefix), run.slaves[0]), NO_ANSWER).seen
    message = seen.checkpoint.message if seen and seen.checkpoint else None
    return replace(run, refused=None if message is None else refused_since(message, run.id))


def _read(
    pairs: Mapping[Prefix, list[str]], minutes: int, before: LiveState | None = None, former: LiveState | None = None
) -> LiveState:
    with closing(redis_store.connect(seconds=ANSWER_SECONDS)) as client:
        return live_state.read(client, pairs, minutes, before, former)


def _past(prefix: Prefix, slave: str, minutes: int) -> Past:
    with closing(redis_store.connect(seconds=ANSWER_SECONDS)) as client:
        return live_state.past(client, prefix, slave, minutes)


def _marks(folders: tuple[Path, ...]) -> list[object]:
    marks: list[object] = []
    for folder in folders:
        try:
            marks += [(str(file), mark(file)) for file in sorted(folder.iterdir())]
        except OSError as error:
            marks.append((str(folder), str(error)))
    return marks
