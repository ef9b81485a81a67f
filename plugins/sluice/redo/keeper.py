"""Keeps the program of one redo thread running, receives what it sends, and copies its checkpoints."""

import json
import logging
import signal
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.configuration.redo import RedoOptions
from sluice.coordination.redo_state import RedoState, ThreadStatus
from sluice.database.archived_logs import ArchivedLogs
from sluice.database.recorder import Receiver, ReceiverClass
from sluice.errors import SluiceError, Terminal
from sluice.redo import checkpoints, missing_logs, program_configuration
from sluice.redo.checkpoints import Values
from sluice.redo.log_watch import LogWatch
from sluice.redo.program import Program

log = logging.getLogger("sluice.redo")

HOST = "127.0.0.1"
GRACE_SECONDS = 12.0
"""How long a program has after SIGINT: it writes a checkpoint."""
HEALTHY_SECONDS = 60.0
"""A program that lived so long is started again at once."""
LONGEST_PAUSE_SECONDS = 60.0
SICK_LOOKS = 6
LOOK_SECONDS = 5.0
"""Its metrics are looked at so often; it is ended after so many looks without an answer."""
IDLE_SECONDS = 5.0
"""A program that sent nothing for so long has sent what it could read."""


class ConfigurationRefused(Terminal):
    """OpenLogReplicator would not take what was made for it."""

    def __init__(self, thread: str, mistakes: list[str]):
        super().__init__(
            f"Thread {thread}: OpenLogReplicator {program_configuration.VERSION} would refuse its configuration: "
            f"{'; '.join(mistakes)}. Correct the section redo of the replication."
        )


@dataclass(frozen=True)
class Places:
    """Where a thread's files are."""

    spool: Path
    """What was received, and the newest schema checkpoint: where the merge reads."""
    work: Path
    logs: Path

    @property
    def state(self) -> Path:
        return self.work / "state"

    @property
    def configuration(self) -> Path:
        return self.work / "program.json"


def pause(deaths: int) -> float:
    """Seconds before a program is started that died young so many times in a row."""
    return 0.0 if deaths == 0 else min(LONGEST_PAUSE_SECONDS, 0.5 * 2.0 ** min(deaths - 1, 10))


class Keeper:
    """Of one thread, from `start` to `end`. `seed`: the schema checkpoint with which capture begins."""

    def __init__(
        self,
        thread: str,
        number: int,
        places: Places,
        seed: Values,
        options: RedoOptions,
        state: RedoState,
        epoch: int,
        receiver: ReceiverClass,
    ):
        self.thread, self.number, self.places = thread, number, places
        self.seed, self.options, self.state, self.epoch = seed, options, state, epoch
        self.name: str = seed["database"]
        self.restarts = 0
        self.stage_error = ""
        """Why its logs do not come."""
        self.watch = LogWatch(places.spool, 60 * options.lost_minutes)
        self.receiver: Receiver = receiver(self.address, self.name, places.spool, int(seed["scn"]))
        self._program: Program | None = None
        self._error = ""
        self._started = 0.0
        self._deaths = 0
        self._next_start = 0.0
        self.needed_sequence = 0
        """Logs below it are not needed any more, whatever happens."""
        self._copied = time.monotonic()
        self._looked = self._copied
        self._sick = 0
        self._stop = threading.Event()
        self._receiving = threading.Thread(target=self._receive, name=f"receive {thread}", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        return HOST, self.options.first_port + self.number

    def start(self) -> None:
        """Takes over the thread. Raises `ConfigurationRefused`, `StoreUnreachable`."""
        for folder in (self.places.state, self.places.logs, self.places.spool):
            folder.mkdir(parents=True, exist_ok=True)
        self._restore()
        values = self._configuration()
        if wrong := list(program_configuration.mistakes(values)):
            raise ConfigurationRefused(self.thread, wrong)
        checkpoints.write(self.places.work, self.places.configuration.name, values)
        self._publish_tables()
        kept = checkpoints.needed(checkpoints.read_folder(self.places.state), self.name)
        self.needed_sequence = checkpoints.oldest_sequence(kept)
        self._receiving.start()
        self._launch()

    def tick(self) -> None:
        """A look at the program. Raises `StoreUnreachable`, `Superseded`, and what the receiver raised."""
        now = time.monotonic()
        if self._program is not None and self._program.status is not None:
            self._bury(now)
        if self._program is None and now >= self._next_start:
            self.restarts += 1
            self._launch()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._look()
        if now - self._copied >= self.options.checkpoint_seconds:
            self._copied = now
            self.copy_checkpoints()

    def restart(self, reason: str) -> None:
        """Ends the program with a checkpoint, and starts it again."""
        log.info("%s: OpenLogReplicator is started again: %s", self.thread, reason)
        self.halt()
        self._launch()
        self.restarts += 1

    def halt(self) -> None:
        """Ends the program with a checkpoint; the receiver goes on."""
        if self._program is not None:
            self._program.end(signal.SIGINT, GRACE_SECONDS)
            self._note_error()
            self._program = None

    def take_tables(self, tables: Values) -> None:
        """The tables of another thread's checkpoint, behind DDL that this one does not see. The program is halted."""
        files = checkpoints.read_folder(self.places.state)
        kept = checkpoints.needed(files, self.name)
        readers = [values for file, values in kept.items() if file != checkpoints.position_file(self.name)]
        newest = max(readers, key=lambda values: int(values["scn"]), default=None)
        if newest is not None:
            changed = checkpoints.with_tables(newest, tables)
            checkpoints.write(self.places.state, checkpoints.reader_file(self.name, int(changed["scn"])), changed)

    def end(self, *, at_once: bool = False) -> None:
        """Ends the program and the receiver; `at_once`: the right to run it is gone."""
        if self._program is not None and at_once:
            self._program.end(signal.SIGKILL, 1)
        else:
            self.halt()
        self._stop.set()
        if self._receiving.is_alive():
            self._receiving.join(10)

    def copy_checkpoints(self) -> None:
        """Into Redis, and the newest with tables to where the merge reads. Raises `StoreUnreachable`, `Superseded`."""
        kept = checkpoints.needed(checkpoints.read_folder(self.places.state), self.name)
        if kept:
            self.state.store(self.epoch, self.thread, {name: json.dumps(values) for name, values in kept.items()})
            self.needed_sequence = checkpoints.oldest_sequence(kept)
            log.info("%s: checkpoints copied: %s", self.thread, ", ".join(sorted(kept)))
        self._publish_tables()

    def tables_after(self, scn: int) -> Values | None:
        """The checkpoint with the tables behind DDL at `scn`, once it is there."""
        return checkpoints.tables_after(checkpoints.read_folder(self.places.state), scn)

    def need(self) -> missing_logs.Need:
        """Which logs it still reads."""
        received, waits = self.receiver, self._awaited()
        first = received.sequence + 1 if received.sequence else self.needed_sequence
        scn = received.durable[0] if received.durable is not None else int(self.seed["scn"])
        resetlogs = int(self.seed["resetlogs"])
        names = (file.stem.split("_") for file in self.places.logs.glob(f"*/{self.number}_*_{resetlogs}.*"))
        here = {int(parts[1]) for parts in names if len(parts) == 3 and parts[1].isdigit()}
        first = waits.first if waits is not None else first
        return missing_logs.Need(resetlogs, self.number, first, scn, here, self.options.archived)

    def look_at_logs(self, said: ArchivedLogs) -> None:
        """What the master says of its archived logs."""
        now = time.monotonic()
        self.watch.look(said, self.need(), idle=now - self.receiver.last_heard >= IDLE_SECONDS, now=now)

    def _awaited(self) -> missing_logs.Finding | None:
        """The logs that the program waits for, although later ones are there."""
        program = self._program  # Another thread may end it meanwhile.
        return missing_logs.explained(self.number, program.missing_log) if program is not None else None

    def status(self) -> ThreadStatus:
        program, received = self._program, self.receiver
        if program is None:
            state = "failed" if self._deaths else "stopped"
        elif program.missing_log:
            state = "waiting"
        else:
            state = "running" if received.last_heard else "starting"
        error = self._error or self.stage_error or (program.last_error if program is not None else "")
        logs, waits = self.watch.explained(), self._awaited()
        if not logs and waits is not None:
            logs = waits.text
        scn = received.durable[0] if received.durable is not None else 0
        return ThreadStatus(self.thread, state, received.sequence, scn, received.time, self.restarts, error, logs)

    def _configuration(self) -> dict[str, Any]:
        port = self.options.metrics_port
        return program_configuration.configuration(
            name=self.name,
            context=self.seed["context"],
            logs=self.places.logs,
            state=self.places.state,
            address=self.address,
            metrics=(HOST, port + self.number) if port is not None else None,
            owners=self.seed["users"],
            host_zone=self.options.host_timezone,
            memory_mb=self.options.memory_mb,
            checkpoint_seconds=self.options.checkpoint_seconds,
        )

    def _restore(self) -> None:
        """Where the program goes on: from its own files, else from Redis, else from the seed."""
        files = checkpoints.read_folder(self.places.state)
        if not checkpoints.needed(files, self.name):
            stored = {name: json.loads(text) for name, text in self.state.stored(self.thread).items()}
            files = stored or {checkpoints.reader_file(self.name, int(self.seed["scn"])): self.seed}
            for name, values in files.items():
                checkpoints.write(self.places.state, name, values)
            log.info("%s: begins with %s", self.thread, ", ".join(sorted(files)))

    def _lower(self) -> None:
        """See `checkpoints.lowered`."""
        files = checkpoints.read_folder(self.places.state)
        name = checkpoints.position_file(self.name)
        if name in files:
            durable = self.receiver.durable
            values = checkpoints.lowered(files[name], durable[0] if durable is not None else None, files)
            checkpoints.write(self.places.state, name, values)
        else:
            # One that was being written when the machine failed. Where to begin, the receiver says.
            (self.places.state / name).unlink(missing_ok=True)

    def _publish_tables(self) -> None:
        """The newest checkpoint with tables, for the merge: it says the keys."""
        newest = checkpoints.tables_after(checkpoints.read_folder(self.places.state), 0)
        if newest is None:
            return
        file = checkpoints.reader_file(self.name, int(newest["scn"]))
        if not (self.places.spool / file).exists():
            checkpoints.write(self.places.spool, file, newest)
            for old in self.places.spool.glob(f"{self.name}-chkpt-*.json"):
                if old.name != file:
                    old.unlink(missing_ok=True)

    def _launch(self) -> None:
        self._lower()
        command = [self.options.program, "-r", "-f", str(self.places.configuration)]
        self._program = Program(command, self.places.work / "program.log", {})
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
        self._error = self._program.last_error

    def _look(self) -> None:
        """Ends a program that does not answer any more; `tick` starts it again."""
        if self.options.metrics_port is None or self._program is None:
            return
        address = f"http://{HOST}:{self.options.metrics_port + self.number}/metrics"
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
