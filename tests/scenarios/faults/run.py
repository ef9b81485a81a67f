"""One seed from beginning to end."""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.vendors.postgres.source.queue import PostgresQueue
from tests.scenarios.faults import audit, verdict
from tests.scenarios.faults.applies import Applies, last_lines
from tests.scenarios.faults.audit import Point
from tests.scenarios.faults.hand import Hand
from tests.scenarios.faults.housekeeper import Housekeeper
from tests.scenarios.faults.joiner import Joiner, Steps
from tests.scenarios.faults.pair import Ends, pair
from tests.scenarios.faults.plan import Plan
from tests.scenarios.faults.reader import Reader
from tests.scenarios.faults.reload import Reload
from tests.scenarios.faults.servers import Servers
from tests.scenarios.faults.writer import MOVING_FALLBACK, HistoryWriter, cast, events

DRAIN_SECONDS = 420.0
SHOWN_LOGS = 3
"""A failure shows the ends of so many logs of applies."""
LOADED_CHANGES = 5_000
"""An initial update begins once so many changes were made on the master."""


class RunFailed(AssertionError):
    """A run found something. The message has the finding, the strikes, and how to repeat the run."""

    def __init__(self, plan: Plan, happened: list[str], findings: list[str], folder: Path):
        shown = "\n  ".join(findings)
        struck = "\n  ".join(happened)
        # The folder of a test is removed with its run.
        logs = sorted(folder.glob("apply-*.log"), key=lambda log: int(log.stem.partition("-")[2]))
        ends = "".join(f"\n{log.name} ends:\n{last_lines(log)}" for log in logs[-SHOWN_LOGS:])
        super().__init__(
            f"{plan}\nWhat happened:\n  {struck}\nFound:\n  {shown}\n"
            f"Logs of the applies: {folder}{ends}\nTo do it again: ./sluice soak --seed {plan.seed}"
            f"{' --slave mariadb' if plan.mariadb else ''}"
        )


@dataclass(frozen=True)
class Result:
    """The figures of a run without findings."""

    seed: int
    seconds: float
    transactions: int
    changes: int
    looks: int
    given_up: int
    """Looks that a lock, a TRUNCATE or a definition spoilt."""
    commits: int
    applies: int
    strikes: int
    purged: int
    again: int
    """Lines of the log that were written again: only where the checkpoint is kept in Redis."""
    happened: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.seconds:.1f} s, {self.strikes} strikes, {self.applies} applies;"
            f" {self.transactions} transactions, {self.changes} changes on the master; {self.commits} commits on the"
            f" slave, {self.looks} looks and {self.given_up} given up; {self.purged} purged"
            f"{f'; {self.again} transactions came again' if self.again else ''}"
        )


def run(plan: Plan, servers: Servers, folder: Path) -> Result:
    """Raises `RunFailed`; then `folder` keeps the applies' logs."""
    began = time.monotonic()
    with ExitStack() as stack:
        folder.mkdir(parents=True, exist_ok=True)
        if plan.mariadb:
            servers = servers.with_mariadb()
        ends, values = stack.enter_context(pair(plan, servers, folder))
        rig = ends.rig
        ends.begin_audit()
        checkpoint = rig.checkpoint
        assert checkpoint.position is not None
        start = Point(checkpoint.epoch, checkpoint.position, None, None)
        rig.close()
        applies = Applies(values, folder)
        stack.callback(applies.kill)
        writers = [
            HistoryWriter(rig.pair.master_info, number, profile, plan.seed, lazy=plan.lazy)
            for number, profile in enumerate(cast(plan), 1)
        ]
        reader = ends.reader()
        databases = {"master": rig.pair.master_info.database, "slave": rig.pair.slave_info.database}

        def calm() -> None:
            for writer in writers:
                if writer.profile in MOVING_FALLBACK:
                    writer.stop()

        def enough_rows() -> bool:
            return sum(writer.tally.changes for writer in writers) > LOADED_CHANGES

        reload = Reload(rig.pair, servers, folder, enough_rows) if plan.load else None
        loading = reload or Joiner(rig.pair, servers.redis.url)

        def lacking() -> list[str]:
            missing = sorted(events(plan).difference(*(writer.events for writer in writers)))
            return missing if loading.loaded else [*missing, f"{loading.what} ({loading.last})"]

        housekeeper = Housekeeper(rig.pair, rig.redis_url, plan.seed)
        threads: list[HistoryWriter | Reader | Housekeeper | Steps] = [*writers, reader, housekeeper, loading]

        def idle() -> None:
            applies.tend()
            for thread in threads:
                if thread.failure is not None:
                    raise thread.failure

        kill_load = reload.kill if reload else bool
        hand = Hand(plan, servers, applies, databases, lambda: reader.place, lacking, calm, kill_load, idle)
        stack.callback(hand.heal)
        for thread in threads:
            stack.callback(thread.stop)
            thread.start()
        findings: list[str] = []
        try:
            hand.play()
            for writer in writers:
                writer.stop()
            hand.heal()
            hand.say("all is well again")
            for writer in writers:
                writer.join(30.0)
            ends.reopen()
            rig = ends.rig
            stack.callback(rig.close)
            _drain(ends, applies, idle, lags=plan.kept == "redis")
            reader.stop()
            housekeeper.stop()
            applies.end()
            reader.join(10.0)
            housekeeper.join(10.0)
            idle()
            hand.say("everything is applied")
            lines = rig.master.execute("SELECT writer, n, xid FROM public.log ORDER BY 1, 2").fetchall()
            history = verdict.of_history(lines)
            kept = ends.commits()
            findings += _few(verdict.of_acknowledged({w.number: w.acknowledged for w in writers}, history))
            lags = plan.kept == "redis"
            findings += _few(verdict.of_looks(reader.looks, history, lags=lags))
            findings += _few(verdict.of_order(reader.looks, {w.number: w.spans for w in writers}))
            of_commits = verdict.of_repeats if lags else verdict.of_commits
            for began_at, commits in audit.around_load(kept, start) if plan.load else [(start, kept)]:
                findings += _few(of_commits(commits, began_at, history))
            findings += [
                f"{table} differs; only on the master: {here}, only on the slave: {there}"
                for table, (here, there) in ends.differences().items()
            ]
            findings += [f"set aside in REJECTS: {reason}" for reason in ends.rejected()]
        except Exception as failure:
            if not isinstance(failure, AssertionError):  # the runner itself
                failure.add_note(str(RunFailed(plan, hand.happened, [repr(failure)], folder)))
                raise
            findings.append(str(failure))
        if findings:
            raise RunFailed(plan, hand.happened, findings, folder)
        assert lines and kept, "a run in which nothing was applied proves nothing"
        changes = sum(writer.tally.changes for writer in writers)
        return Result(
            plan.seed, time.monotonic() - began, len(lines), changes, len(reader.looks), reader.given_up,
            len(kept), applies.started, len(plan.strikes), housekeeper.purged, verdict.repeats(kept),
            tuple(hand.happened),
        )  # fmt: skip


def _few(findings: list[str]) -> list[str]:
    """The first findings: one mistake is often found in everything that comes after it."""
    return [*findings[:4], *([f"… and {len(findings) - 4} more like these"] if len(findings) > 4 else [])]


def _drain(ends: Ends, applies: Applies, idle: Any, *, lags: bool) -> None:
    rig = ends.rig
    now = PostgresQueue(rig.master, rig.pair.prefix, "public").take()
    until = time.monotonic() + DRAIN_SECONDS

    def drained() -> bool:
        if lags:
            return not ends.differences()
        return bool((reached := rig.checkpoint.position) and reached.covers_all_of(now))

    while not drained():
        idle()
        if time.monotonic() > until:
            reached = rig.checkpoint
            words = applies.current.last_words() if applies.current else "(none runs)"
            raise AssertionError(f"not drained within {DRAIN_SECONDS:.0f} s; {reached}; the apply says:\n{words}")
        time.sleep(0.05)
