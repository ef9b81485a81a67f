"""Decides what follows the end of a job. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from sluice.airflow.job import Kind, Result
from sluice.exit_status import DONE, TERMINAL, TRANSIENT

HEALTHY_SECONDS = 600.0
"""A job that lived this long counts as healthy: the next one starts at once."""
YOUNG_DEATHS = 60
"""A load that gives up this often in a row, each time young, ends its update. Kills do not count. An apply is restarted
without limit."""
SLOT_SECONDS = 60.0
"""A query that has had no slot for so long is started again, or a process in its place."""
LEASE_SLACK = 2.0
KEEP_SECONDS = 60.0
"""How often a query is asked about, which keeps its session alive."""
QUIET_SECONDS = 3.0
"""The same while its task is silent, which writes twice a second."""


class Next(StrEnum):
    """What the task does next."""

    FINISH = "finish"
    FAIL = "fail"
    RESTART = "relaunch"
    COMPARE = "tell"
    """The job continues and asks for a comparison of definitions."""
    MOVE = "move"
    """The job continues and is to be replaced: Spark is back, or the configuration has changed."""
    LEAVE = "leave"
    """Another task watches the job now."""


@dataclass(frozen=True)
class Verdict:
    """What to do, why, and after how many seconds of delay."""

    next: Next
    why: str
    delay: float = 0.0
    attempt: int = 0
    """Number of jobs in a row that died young before the next one."""


def judge(kind: Kind, result: Result | None, lifetime: float, attempt: int) -> Verdict:
    """The verdict on a job that ended (`result`) or was lost (None) after `lifetime` seconds.

    An apply or a capture of redo logs runs as long as its Airflow run. If it ended well, a shutdown of the machine
    ended it, and it is started again. To end it for good, end the run.
    """
    if result is not None and result.rc == TERMINAL:
        return Verdict(Next.FAIL, result.message or "It needs a person; its log says what for.")
    if result is not None and result.rc == DONE and kind is Kind.LOAD:
        return Verdict(Next.FINISH, result.message)
    why = describe(result)
    attempt = 0 if lifetime >= HEALTHY_SECONDS else attempt + 1
    gave_up = result is not None and 0 < result.rc <= 128
    if gave_up and kind is Kind.LOAD and attempt >= YOUNG_DEATHS:
        return Verdict(Next.FAIL, f"{why} That was the {attempt}th in a row.")
    return Verdict(Next.RESTART, why, _delay(attempt, gave_up), attempt)


def describe(result: Result | None) -> str:
    """One sentence about how a job ended."""
    if result is None:
        return "It is gone without a word: killed, or its host went down."
    last_words = f" Its last words: {result.message}" if result.message else ""
    if result.rc == DONE:
        return f"It ended.{last_words}"
    if result.rc > 128:
        how = "was told to end" if result.asked else "was killed"
        return f"It {how} (signal {result.rc - 128}).{last_words}"
    if result.rc == TRANSIENT:
        return f"It ended because of an outage.{last_words}"
    return f"It crashed with exit status {result.rc}.{last_words}"


@dataclass(frozen=True)
class Watched:
    """What is known about a query of Spark that has not told its end. Seconds are those of the watcher's clock."""

    age: float
    """Since it was started or the watcher began to look; Redis was there all the time."""
    begun: bool
    """Whether its task has run."""
    unleased: float
    """Since the lease was last held; 0 while it is."""
    spark: str | None
    """Spark's last word: `active`, `ended`, `unknown`; None if it does not answer, or was not asked."""


def why_gone(seen: Watched, lease: float) -> str:
    """Why a query counts as lost; empty while it does not. `lease`: the seconds after which a lease expires.

    A frozen executor keeps its query active in Spark for minutes: without its lease it is replaced, and the epoch
    fences it when it wakes.
    """
    if seen.spark == "ended":
        return "Spark has ended the query."
    if seen.spark == "unknown":
        return "Spark does not know the query any more: its session ended, or its server was started again."
    if seen.begun and seen.unleased >= lease + LEASE_SLACK:
        return f"Its task has not held the lease for {seen.unleased:.0f} s: it is frozen, or its executor is gone."
    if not seen.begun and seen.age >= SLOT_SECONDS:
        return f"No executor of Spark has had a free slot for it for {SLOT_SECONDS:.0f} s."
    return ""


def asks_spark(since: float, quiet: float) -> bool:
    """Whether to ask Spark about a query now. `since`: seconds since the last question; `quiet`: since its task last
    wrote its status or held the lease."""
    return since >= KEEP_SECONDS or (quiet >= QUIET_SECONDS and since >= QUIET_SECONDS)


def _delay(attempt: int, gave_up: bool) -> float:
    """0, 1, 2, 4, … seconds. A kill from outside says little about the next job, which waits less."""
    longest = 60.0 if gave_up else 5.0
    return 0.0 if attempt <= 1 else min(longest, 2.0 ** min(attempt - 2, 10))
