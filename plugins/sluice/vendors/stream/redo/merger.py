"""Merges the output of redo threads into a recorded stream, which any number of slaves replay.

Several transactions of the master may become one of the stream: they are in the order of their commits, and each end is
a state that the master had. Each commit of the stream has the place up to which each thread was merged; a merge that
was killed continues from there, without duplicates.
"""

import logging
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from pathlib import Path

from sluice.backoff import Backoff
from sluice.counted import counted
from sluice.database.recorder import DEFAULTS, MergeOptions
from sluice.errors import Transient
from sluice.model.names import Naming, Prefix
from sluice.model.vendors import DESCRIPTION_FILE
from sluice.vendors.stream.errors import StreamUnreachable
from sluice.vendors.stream.files import Files
from sluice.vendors.stream.lines import Change, Commit, RowChange
from sluice.vendors.stream.recorder import recorded_elsewhere
from sluice.vendors.stream.redo.definitions import DdlSeen, Definitions
from sluice.vendors.stream.redo.errors import Unfit, begins_later, no_keys, output_damaged, thread_silent
from sluice.vendors.stream.redo.merge import Merge, Released, ThreadId, Transaction
from sluice.vendors.stream.redo.merge_state import State
from sluice.vendors.stream.redo.spool import free
from sluice.vendors.stream.redo.threads import Checkpoint, SchemaCheckpoint, ThreadOutput, folders
from sluice.vendors.stream.redo.types import UNITS
from sluice.vendors.stream.writer import FILE_BYTES, Writer

log = logging.getLogger("sluice.redo")

POLL_SECONDS = 0.2
IDLE_SECONDS = 10.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Limits:
    """Limits of one step."""

    group: int = 10_000
    """The number of messages after which a transaction of the stream ends, at the next end of a transaction of the
    master."""
    read: int = 20_000
    """The number of transactions and checkpoints that are read from a thread before the next one is read."""
    waiting: int = 200_000
    """The number of waiting transactions above which only the thread is read for which they wait."""
    file_bytes: int = FILE_BYTES
    """A file of the stream that is larger is followed by another one."""


class Merger:
    """Merges the threads in `root` into the stream in `folder`."""

    def __init__(
        self,
        root: Path,
        folder: Path,
        prefix: Prefix,
        options: MergeOptions = DEFAULTS,
        limits: Limits = Limits(),
    ):
        self.root, self.folder, self.prefix = root, folder, prefix
        self.options, self.limits = options, limits
        self.merged = 0
        """The number of the master's transactions since this merge began."""

    def run(self, stop: threading.Event) -> None:
        """Merges until `stop` is set; waits for the end of outages. Raises `Terminal`."""
        backoff = Backoff()
        while not stop.is_set():
            try:
                for moved in self._turns():
                    backoff.reset()
                    if stop.wait(0 if moved else POLL_SECONDS):
                        return
            except Transient as outage:
                pause = backoff.next()
                log.warning("%s: %s Next try in %.2g s.", self.prefix, outage, pause)
                stop.wait(pause)

    def merge_once(self) -> int:
        """Merges everything that is possible now. Returns how many transactions wait for other threads. Raises
        `Terminal`, `Transient`."""
        with self._begin() as merging:
            while merging.turn():
                pass
            return merging.merge.waiting

    def _turns(self) -> Iterator[bool]:
        with self._begin() as merging:
            while True:
                moved = merging.turn()
                merging.expect_news(self.options.silent_seconds)
                yield moved

    def _begin(self) -> "_Merging":
        self.folder.mkdir(parents=True, exist_ok=True)
        end, stream, tables = Commit(0, ""), f"{self.prefix}{secrets.token_hex(4)}", {}
        files = Files(self.folder)
        with suppress(StreamUnreachable):
            names = files.names()
            last = files.index(names[-1], names)
            end, stream, tables = last.end, last.header.stream, last.tables(last.end.position)
        state = State.parse(end.source) if end.source is not None else None
        if state is None and (end.position or end.source is not None):
            raise recorded_elsewhere(self.folder)
        outputs = {thread: ThreadOutput(path, thread) for thread, path in folders(self.root).items()}
        checkpoints = [checkpoint for output in outputs.values() if (checkpoint := output.checkpoint()) is not None]
        if not checkpoints:
            raise no_keys(self.root)
        state = state or State(Released(), {}, DdlSeen(), max(each.scn for each in checkpoints))
        if early := [scn for scn in self.options.ends_at if scn < state.begins]:
            raise begins_later(self.folder, min(early), state.begins)
        merge = Merge(state.released, _incarnations(checkpoints, outputs))
        keys: dict[tuple[str, str], tuple[str, ...]] = {}
        for checkpoint in sorted(checkpoints, key=lambda each: each.scn):
            keys |= checkpoint.keys
        definitions = Definitions(tables, keys, Naming(self.options.exact_names), state.ddl)
        writer = Writer(self.folder, stream, end, tables, file_bytes=self.limits.file_bytes)
        merging = _Merging(self, merge, definitions, writer, state)
        try:
            for thread, output in outputs.items():
                merging.join(thread, output, state.threads.get(thread))
        except BaseException:
            writer.close()
            raise
        return merging


class _Merging:
    """A running merge."""

    def __init__(self, merger: Merger, merge: Merge, definitions: Definitions, writer: Writer, state: State):
        self.merger = merger
        self.begins = state.begins
        self.merge = merge
        self.definitions = definitions
        self.writer = writer
        self.outputs: dict[ThreadId, ThreadOutput] = {}
        self._times: dict[ThreadId, str] = {}
        """The time of each live thread's last checkpoint message."""
        self._saved = ""
        self._shown = state.shown if state.threads else state.begins - 1
        """The SCN up to which, by the last commit, everything is in the stream."""
        self._freed: dict[ThreadId, str] = {}
        self._reported_at = time.monotonic()
        self._waits_for: tuple[tuple[ThreadId, int] | None, float] = (None, self._reported_at)
        self._lost: dict[ThreadId, str] = {}
        """Why threads cannot be read any further; everything read before is merged."""

    def __enter__(self) -> "_Merging":
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()

    def join(self, thread: ThreadId, output: ThreadOutput, kept: tuple[str, int, int] | None) -> None:
        if kept is not None:
            output = ThreadOutput(output.folder, thread, (kept[0], kept[1]) if kept[0] else None)
        self.merge.join(thread, since=output.description.since, watermark=kept[2] if kept is not None else None)
        self.outputs[thread] = output

    def turn(self) -> bool:
        """Reads new output, and writes what is released. Returns whether there was anything. Raises `Terminal`,
        `Transient`."""
        for thread, path in folders(self.merger.root).items():
            if thread not in self.outputs:
                joining = ThreadOutput(path, thread)
                if (checkpoint := joining.checkpoint()) is not None:
                    self.merge.incarnate(_incarnations([checkpoint], {**self.outputs, thread: joining}))
                    self.definitions.keys |= checkpoint.keys
                log.info("%s: thread %s joins", self.merger.prefix, thread)
                self.join(thread, joining, None)
        news = False
        for thread, output in self.outputs.items():
            holding = self.merge.holding()
            if self.merge.waiting >= self.merger.limits.waiting and holding is not None and holding[0] != thread:
                continue
            closed, lost, count = output.described().closed, output.lost(), 0
            for each in islice(output.poll(), self.merger.limits.read):
                count += 1
                if isinstance(each, Checkpoint):
                    self.merge.checkpoint(thread, each.scn)
                    self._times[thread] = self._moment(thread, each.time)
                else:
                    self.merge.offer(each)
            news = news or count > 0
            if lost is not None and not count:
                self._lost[thread] = lost
            else:
                self._lost.pop(thread, None)
            if closed and count < self.merger.limits.read:
                self.merge.close(thread)
                self._times.pop(thread, None)
        return self._write() or news

    def expect_news(self, seconds: float) -> None:
        """Raises `thread-silent` if transactions have waited too long for one thread."""
        holding, now = self.merge.holding(), time.monotonic()
        if holding != self._waits_for[0]:
            self._waits_for = (holding, now)
        elif holding is not None and holding[0] not in self._lost and now - self._waits_for[1] > seconds:
            raise thread_silent(str(holding[0]), holding[1], now - self._waits_for[1])

    def _write(self) -> bool:
        written = False
        while (following := self.merge.next_scn) is not None:
            if self._ends(self._shown + 1, following):
                self._commit(None)
            first = self.merge.ready()
            assert first is not None
            self._write_group(first)
            written = True
        if written:
            return True
        lost = "; ".join(self._lost.values()) or None
        due = time.monotonic() - self._reported_at > IDLE_SECONDS and self._state().text() != self._saved
        if due or lost != self.writer.end.lost:
            self._commit(None, lost)
        return False

    def _write_group(self, first: Transaction) -> None:
        group, rows = [first], first.rows
        # After DDL, other tables may be new.
        while rows < self.merger.limits.group and not group[-1].ddl and (next_scn := self.merge.next_scn) is not None:
            if self._ends(group[-1].scn, next_scn):
                break
            following = self.merge.ready()
            assert following is not None
            group.append(following)
            rows += following.rows
        self._describe(group)
        self.writer.add_made(chain.from_iterable(map(self._changes, group)))
        self._commit(group[-1])
        self.merger.merged += len(group)
        log.info("%s: %s merged, up to SCN %d", self.merger.prefix, counted(len(group), "transaction"), group[-1].scn)

    def _ends(self, first: int, following: int) -> bool:
        """Whether a transaction of the stream has to end at one of the SCNs from `first` on, before `following`."""
        return any(first <= scn < following for scn in self.merger.options.ends_at)

    def _describe(self, group: list[Transaction]) -> None:
        """Describes tables that are new in the stream at the head of a file, before their changes."""
        schemas: dict[bytes, str] = {}
        for transaction in group:
            unit = self.outputs[transaction.thread].description.timestamp
            schemas |= dict.fromkeys(sorted(transaction.schemas - schemas.keys()), unit)
        tables = [table for text, unit in schemas.items() for table in self.definitions.new_tables([text], unit)]
        for definition in tables:
            self.definitions.describe(definition)
        if tables:
            self.writer.describe(tables)

    def _changes(self, transaction: Transaction) -> Iterator[Change | RowChange]:
        output = self.outputs[transaction.thread]
        try:
            messages, unit = output.messages(transaction), output.description.timestamp
            yield from self.definitions.changes(messages, unit, str(transaction.thread))
        except Unfit as reason:
            segment = transaction.segments[0]
            raise output_damaged(
                output.folder / segment.file, segment.begin, f"transaction {transaction.xid}: {reason}"
            ) from None

    def _commit(self, last: Transaction | None, lost: str | None = None) -> None:
        """Ends a transaction of the stream. `last`: its last transaction of the master; None if nothing changed up to
        the position of all threads. `lost`: why nothing can follow."""
        merge_state = self._state()
        state = merge_state.text()
        if last is not None:
            moment = self._moment(last.thread, last.time)
        else:
            moment = "" if self.merge.waiting else min(self._times.values(), default="")
        self.writer.commit(max(moment, self.writer.end.time), state, lost)
        self._saved, self._reported_at, self._shown = state, time.monotonic(), merge_state.shown
        if self.merger.options.frees:
            self._free(merge_state)

    def _free(self, state: State) -> None:
        """Deletes the files that no merge needs any more: the commit that says so is on disk."""
        for thread, (file, _, _) in state.threads.items():
            if file and self._freed.get(thread) != file:
                self._freed[thread] = file
                free(self.outputs[thread].folder, file)

    def _moment(self, thread: ThreadId, value: int | None) -> str:
        """The time in ISO 8601, UTC; empty if unknown. Raises `output-damaged`."""
        if value is None:
            return ""
        output = self.outputs[thread]
        unit = output.description.timestamp
        try:
            moment = _EPOCH + timedelta(microseconds=value * 1_000_000 // UNITS[unit])
        except OverflowError:
            wrong = f"says that times are in {unit}, and the output has {value}"
            raise output_damaged(
                output.folder / DESCRIPTION_FILE, 0, wrong, "Write the unit of format.timestamp"
            ) from None
        return moment.isoformat(timespec="microseconds")

    def _state(self) -> State:
        resume, threads = self.merge.resume(), {}
        for thread, output in self.outputs.items():
            waiting, mark = resume[thread]
            file, offset = output.place if waiting is None else (waiting.file, waiting.begin)
            threads[thread] = (file, offset, mark)
        return State(self.merge.released, threads, self.definitions.ddl, self.begins, self.merge.through)


def _incarnations(
    checkpoints: Iterable[SchemaCheckpoint], outputs: Mapping[ThreadId, ThreadOutput]
) -> set[tuple[int, int]]:
    """The incarnations of the master that have a thread."""
    present = {thread.resetlogs for thread in outputs}
    return {each for checkpoint in checkpoints for each in checkpoint.incarnations if each[0] in present}
