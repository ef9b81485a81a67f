"""Runs the program of one redo thread, receives its output, and copies its checkpoints."""

import json
import logging
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from sluice.configuration.redo import RedoOptions
from sluice.coordination.redo_state import RedoState, ThreadStatus
from sluice.database.recorder import Receiver
from sluice.database.redo_files import ArchivedLogs
from sluice.errors import SluiceError, Terminal
from sluice.redo import checkpoints, left_out, missing_logs, program_configuration
from sluice.redo.checkpoints import Values
from sluice.redo.missing_logs import LogWatch
from sluice.redo.program import Program
from sluice.redo.redo_thread import RedoThread


@dataclass(frozen=True)
class StreamContent:
    """The contents of a stream."""

    begins: int
    """The SCN at its beginning."""
    incarnations: Collection[int]
    """RESETLOGS_ID of each incarnation whose redo is in it."""


def missing_redo(content: StreamContent, resetlogs: int, incarnation_begins: int, since: int, begins: int) -> str:
    """Why the stream misses something of a thread that is read from the SCN `begins` on; empty if it does not.

    OpenLogReplicator leaves out transactions that began before the redo with which it begins. If it continues from its
    checkpoints, nothing is missing: they have the beginning of the oldest open transaction. Without them it begins with
    the schema checkpoint of the configuration. If the stream began with the same one, nothing is missing either.

    `incarnation_begins`: the first SCN of the thread's incarnation `resetlogs`. `since`: the first SCN of an instance
    that was added, 0 for others.
    """
    needed = max(since, content.begins if resetlogs in content.incarnations else incarnation_begins)
    if begins <= needed:
        return ""
    return (
        f"its OpenLogReplicator has no checkpoint, here or in Redis, and would begin with SCN {begins}, that of "
        f"redo.schema. The stream needs the redo from SCN {needed} on: what was committed in between, or began in "
        "between, would be lost. Put the checkpoints back (redo.work), or a schema checkpoint that is not above that "
        "SCN, with the logs behind it"
    )


log = logging.getLogger("sluice.redo")

GRACE_SECONDS = 12.0
"""How long a program may take after SIGINT, in which it writes a checkpoint."""
HEALTHY_SECONDS = 60.0
"""A program that ran for so many seconds is restarted at once."""
LONGEST_PAUSE_SECONDS = 60.0
SICK_LOOKS = 6
LOOK_SECONDS = 5.0
"""Seconds between two queries of its metrics, and the number of queries without an answer after which it is ended."""
IDLE_SECONDS = 5.0
"""After so many seconds of silence, a program has sent everything that it could read."""


def pause(deaths: int) -> float:
    """The pause in seconds before a program is restarted that ended early so many times in a row."""
    return 0.0 if deaths == 0 else min(LONGEST_PAUSE_SECONDS, 0.5 * 2.0 ** min(deaths - 1, 10))


@dataclass(frozen=True)
class MergedStream:
    """The stream into which the threads are merged."""

    receiver: Callable[[tuple[str, int], str, Path, int | None], Receiver]
    """Receives the output of a thread for the merge: see `RecordedSource.receiver`."""
    content: StreamContent | None = None
    """Its contents; None while there is no stream."""
    complete_from: Callable[[], int | None] = lambda: None
    """The first SCN at which rows were read; None: none were."""


class Keeper:
    """Runs the program of a thread, from `start` to `end`. `seed`: the schema checkpoint with which capture begins."""

    def __init__(
        self,
        thread: RedoThread,
        seed: Values,
        options: RedoOptions,
        state: RedoState,
        epoch: int,
        stream: MergedStream,
    ):
        self.stream = stream
        self.thread, self.seed, self.options = thread, seed, options
        self.state, self.epoch = state, epoch
        self.name: str = seed["database"]
        self.restarts = 0
        self.stage_error = ""
        """Why its logs cannot be fetched."""
        self.watch = LogWatch(thread.spool, 60 * options.lost_minutes)
        self.receiver: Receiver = stream.receiver(
            program_configuration.address(thread, options), self.name, thread.spool, int(seed["scn"])
        )
        self._left_out = left_out.read(thread.spool)
        self.begun = False
        """Whether its program knows where to begin."""
        self._program: Program | None = None
        self._error = ""
        self._started = 0.0
        self._deaths = 0
        self._next_start = 0.0
        self.tables: Values | None = None
        """The newest checkpoint with tables."""
        self.needed_sequence = 0
        """Logs with lower sequences are no longer needed in any case."""
        self._newest = 0
        """The sequence of the newest known archived log."""
        self._copied = time.monotonic()
        self._looked = 0.0
        self._sick = 0
        self._stop = threading.Event()
        self._receiving = threading.Thread(target=self._receive, name=f"receive {thread}", daemon=True)

    def start(self) -> None:
        """Takes over the thread. Raises `redo-configuration-refused`, `StoreUnreachable`."""
        for folder in (self.thread.state, self.thread.swap, self.thread.logs, self.thread.spool):
            folder.mkdir(parents=True, exist_ok=True)
        values = program_configuration.configuration(self.thread, self.seed, self.options)
        if wrong := list(program_configuration.mistakes(values)):
            raise Terminal(
                f"Thread {self.thread!s}: OpenLogReplicator {program_configuration.VERSION} would refuse its "
                f"configuration: {'; '.join(wrong)}. Correct the section redo of the replication.",
                code="redo-configuration-refused",
            )
        checkpoints.write(self.thread.work, self.thread.configuration.name, values)
        self._give_up_lost()
        self._publish_tables()
        self._receiving.start()
        self._begin()

    def tick(self) -> None:
        """Checks the program. Raises `StoreUnreachable`, `Superseded`, and errors of the receiver."""
        now = time.monotonic()
        self._note_left_out()
        if self._program is not None and self._program.status is not None:
            self._bury(now)
        if not self.begun:
            self._begin()
        elif self._program is None and now >= self._next_start:
            self.restarts += 1
            self._launch()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._newest = max([self._newest, *self.thread.staged_logs()])
            self._check_program()
        if now - self._copied >= self.options.checkpoint_seconds:
            self._copied = now
            self.copy_checkpoints()

    def restart(self, reason: str) -> None:
        """Ends the program with a checkpoint, and restarts it."""
        log.info("%s: OpenLogReplicator is started again: %s", self.thread, reason)
        self.halt()
        self._launch()
        self.restarts += 1

    def halt(self) -> None:
        """Ends the program with a checkpoint; the receiver continues."""
        if self._program is not None:
            self._program.end(signal.SIGINT, GRACE_SECONDS)
            self._note_error()
            self._program = None

    def take_tables(self, tables: Values) -> None:
        """Gives the program, which is halted, the tables of another thread's checkpoint, after DDL that this thread
        does not see."""
        files = checkpoints.read_folder(self.thread.state)
        kept = checkpoints.needed(files, self.name)
        readers = [values for file, values in kept.items() if file != checkpoints.position_file(self.name)]
        newest = max(readers, key=lambda values: int(values["scn"]), default=None)
        if newest is not None:
            changed = checkpoints.with_tables(newest, tables)
            checkpoints.write(self.thread.state, checkpoints.reader_file(self.name, int(changed["scn"])), changed)

    def end(self, *, at_once: bool = False) -> None:
        """Ends the program and the receiver; `at_once`: the right to run it is lost."""
        if self._program is not None and at_once:
            self._program.end(signal.SIGKILL, 1)
        else:
            self.halt()
        self._stop.set()
        if self._receiving.is_alive():
            self._receiving.join(10)

    def copy_checkpoints(self) -> None:
        """Copies the checkpoints to Redis, and the newest one with tables to the folder that the merge reads. Raises
        `StoreUnreachable`, `Superseded`."""
        kept = self._kept()
        if kept:
            self.state.store(self.epoch, str(self.thread), {name: json.dumps(values) for name, values in kept.items()})
            self.needed_sequence = checkpoints.oldest_sequence(kept)
            log.info("%s: checkpoints copied: %s", self.thread, ", ".join(sorted(kept)))
        self._publish_tables()

    def tables_after(self, scn: int) -> Values | None:
        """The checkpoint with the tables after DDL at `scn`, when it exists."""
        return checkpoints.tables_after(checkpoints.read_folder(self.thread.state), scn)

    def need(self) -> missing_logs.Need:
        """The logs that it still reads."""
        received, waits = self.receiver, self._awaited()
        first = received.sequence + 1 if received.sequence else self.needed_sequence
        scn = received.durable[0] if received.durable is not None else self._begins
        first = waits.first if waits is not None else first
        of, present = self.thread, self.thread.staged_logs()
        return missing_logs.Need(of.resetlogs, of.number, first, scn, present, self.options.archived)

    def check_logs(self, archived: ArchivedLogs) -> None:
        """Takes the master's list of archived logs."""
        now = time.monotonic()
        own = (self.thread.resetlogs, self.thread.number)
        sequences = [each.sequence for each in archived.copies if (each.resetlogs, each.thread) == own]
        self._newest = max([self._newest, *sequences])
        self.watch.check(archived, self.need(), idle=now - self.receiver.last_heard >= IDLE_SECONDS, now=now)

    def _awaited(self) -> missing_logs.Finding | None:
        """The logs for which the program waits, although later ones exist."""
        program = self._program  # Another thread may end it meanwhile.
        return missing_logs.explained(self.thread.number, program.missing_log) if program is not None else None

    def status(self) -> ThreadStatus:
        program, received = self._program, self.receiver
        if not self.begun:
            state = "waiting"
        elif program is None:
            state = "failed" if self._deaths else "stopped"
        elif program.missing_log:
            state = "waiting"
        else:
            state = "running" if received.last_heard else "starting"
        error = self._error or self.stage_error or (program.last_error if program is not None else "")
        logs, waits = self.watch.explained(), self._awaited()
        if not logs and waits is not None:
            logs = waits.text
        if not logs and not self.begun:
            logs = missing_logs.no_beginning(self.thread.number, self._begins, str(self.thread.logs))
        scn = received.durable[0] if received.durable is not None else 0
        behind = max(0, self._newest - received.sequence) if received.sequence else None
        return ThreadStatus(
            str(self.thread), state, received.sequence, scn, received.time, self.restarts, error, behind, logs,
            self._left_out_text(),
        )  # fmt: skip

    def _left_out_text(self) -> str:
        if self._left_out and not (self.thread.spool / left_out.FILE).exists():
            self._left_out = left_out.LeftOut()  # A person has dealt with it.
        if not self._left_out:
            return ""
        return left_out.explained(self._left_out, self.stream.complete_from(), self.thread.spool)

    @property
    def _begins(self) -> int:
        """The SCN after which its commits are needed."""
        return max(int(self.seed["scn"]), self.thread.since())

    def _begin(self) -> None:
        """Starts the program for the first time, as soon as it is known where it continues."""
        if not self._placed():
            return
        self.needed_sequence = checkpoints.oldest_sequence(self._kept())
        self.begun = True
        self._launch()

    def _placed(self) -> bool:
        """Whether there are checkpoints from which the program continues: its own, or those in Redis, or the seed.

        The seed has the log of one thread, and each thread counts its own logs, so the logs are searched for the first
        one. Without it, a program would begin with the first existing log, and leave out what comes before.
        """
        if checkpoints.needed(checkpoints.read_folder(self.thread.state), self.name):
            return True
        files = {name: json.loads(text) for name, text in self.state.stored(str(self.thread)).items()}
        if not files:
            if self._begins_late():
                return False
            alone = self.options.threads == ("1",)
            first = self.thread.first_log(self._begins) or (int(self.seed.get("seq", 0)) if alone else 0)
            if not first:
                return False
            self.thread.keep_first(first)
            begins = checkpoints.joining({**self.seed, "seq": first}, self.thread.since(), self._published())
            files = {checkpoints.reader_file(self.name, int(self.seed["scn"])): begins}
        for name, values in files.items():
            checkpoints.write(self.thread.state, name, values)
        log.info("%s: begins with %s", self.thread, ", ".join(sorted(files)))
        return True

    def _begins_late(self) -> bool:
        """Whether the stream would miss transactions that ran when the seed was made; the slaves are notified."""
        if self.stream.content is None:
            return False
        begins = {each["resetlogs"]: int(each["resetlogs-scn"]) for each in self.seed.get("incarnations", [])}
        incarnation, scn = self.thread.resetlogs, int(self.seed["scn"])
        if why := missing_redo(
            self.stream.content, incarnation, begins.get(incarnation, scn), self.thread.since(), scn
        ):
            self.watch.give_up(f"thread {self.thread}: {why}")
        return bool(why)

    def _kept(self) -> dict[str, Values]:
        """The checkpoints from which any machine can continue."""
        kept = checkpoints.needed(checkpoints.read_folder(self.thread.state), self.name)
        first = self.thread.kept_first()
        return {name: checkpoints.with_beginning(values, first) for name, values in kept.items()}

    def _lower(self) -> None:
        """See `checkpoints.lowered` and `checkpoints.with_beginning`."""
        files, first = checkpoints.read_folder(self.thread.state), self.thread.kept_first()
        for file, checkpoint in files.items():
            if (changed := checkpoints.with_beginning(checkpoint, first)) is not checkpoint:
                checkpoints.write(self.thread.state, file, changed)
        name = checkpoints.position_file(self.name)
        if name in files:
            durable = self.receiver.durable
            values = checkpoints.lowered(files[name], durable[0] if durable is not None else None, files)
            checkpoints.write(self.thread.state, name, values)
        else:
            # It was being written when the machine failed. The receiver knows where to begin.
            (self.thread.state / name).unlink(missing_ok=True)

    def _publish_tables(self) -> None:
        """The newest checkpoint with tables, from which the merge knows the keys."""
        newest = checkpoints.tables_after(checkpoints.read_folder(self.thread.state), 0) or self.seed
        file = checkpoints.reader_file(self.name, int(newest["scn"]))
        if self.tables is None or self.tables["scn"] != newest["scn"]:
            self.tables = newest
        if not (self.thread.spool / file).exists():
            checkpoints.write(self.thread.spool, file, newest)
            for old in self.thread.spool.glob(f"{self.name}-chkpt-*.json"):
                if old.name != file:
                    old.unlink(missing_ok=True)

    def _published(self) -> list[Values]:
        """The newest checkpoints with tables of all threads of this incarnation."""
        folders = self.thread.spool.parent.glob(f"{self.thread.resetlogs}_*")
        return [values for folder in folders for values in checkpoints.read_folder(folder).values()]

    def _launch(self) -> None:
        self._lower()
        command = [self.options.program, "-r", "-f", str(self.thread.configuration)]
        self._program = Program(command, self.thread.program_log, {})
        self._started, self._sick = time.monotonic(), 0
        log.info("%s: OpenLogReplicator runs as process %d", self.thread, self._program.pid)

    def _bury(self, now: float) -> None:
        assert self._program is not None
        self._program.end(signal.SIGKILL, 1)
        self._note_error()
        self._deaths = 0 if now - self._started >= HEALTHY_SECONDS else self._deaths + 1
        seconds = pause(self._deaths)
        log.warning(
            "%s: OpenLogReplicator ended with status %s. %s Next start in %.2g s.",
            self.thread, self._program.status, self._error, seconds,
        )  # fmt: skip
        self._program, self._next_start = None, now + seconds

    def _note_error(self) -> None:
        assert self._program is not None
        self._note_left_out()
        self._error = self._program.last_error

    def _note_left_out(self) -> None:
        """Handles what the program reports as left out; a loss ends the stream."""
        if self._program is None:
            return
        before = left_out_now = self._left_out
        while not self._program.left_out.empty():
            code, message = self._program.left_out.get()
            if code in left_out.PARTS:
                left_out_now = replace(left_out_now, parts=left_out_now.parts + 1, part=message)
            elif (transaction := left_out.transaction(message)) is not None:
                left_out_now = left_out_now.more([transaction])
        if left_out_now is before:
            return
        try:
            left_out.write(self.thread.spool, left_out_now)
        except OSError as error:
            log.error("%s: what OpenLogReplicator leaves out cannot be kept: %s", self.thread, error)
        self._left_out = left_out_now
        log.warning("%s: %s", self.thread, left_out_now)
        self._give_up_lost()

    def _give_up_lost(self) -> None:
        if why := left_out.lost(self._left_out, self.stream.complete_from()):
            self.watch.give_up(f"thread {self.thread}: {why}")

    def _check_program(self) -> None:
        """Ends a program that no longer answers; `tick` restarts it."""
        shown = program_configuration.metrics_address(self.thread, self.options)
        if shown is None or self._program is None:
            return
        address = f"http://{shown[0]}:{shown[1]}/metrics"
        try:
            with urllib.request.urlopen(address, timeout=2) as answer:
                answer.read(1)
            self._sick, self._error = 0, ""
        except (OSError, urllib.error.URLError):
            self._sick += 1
            if self._sick >= SICK_LOOKS:
                log.warning("%s: OpenLogReplicator does not answer at %s; it is ended", self.thread, address)
                self._program.end(signal.SIGINT, GRACE_SECONDS)

    def _receive(self) -> None:
        while not self._stop.is_set():
            try:
                self.receiver.run(self._stop)
            except SluiceError as error:
                self._error = str(error)
                log.error("%s: %s", self.thread, error)
                self._stop.wait(LOOK_SECONDS)
