"""The capture of redo logs in Redis: its leader, the programs' checkpoints, and the status of each thread."""

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import redis

from sluice.coordination.lease import Lease
from sluice.errors import Transient
from sluice.model.names import Prefix
from sluice.model.vendors import REDO

CAPTURE = "@redo"
"""Replaces the slave's name in keys; no slave can have this name."""
EXPIRES_SECONDS = 24 * 3600
SILENT_SECONDS = 30.0
"""A supervisor without a new status for this time has ended, or hangs."""

_STORE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
return 1
"""


class Superseded(Transient):
    """Another supervisor has a later epoch."""

    def __init__(self, prefix: Prefix):
        super().__init__(f"{prefix}: another supervisor reads the redo logs now. This one stops its programs.")


@dataclass(frozen=True)
class ThreadStatus:
    """The status of one redo thread, for pages."""

    thread: str
    """`<resetlogs>_<thread>`, or the file of a binary log."""
    state: str
    """`running`, `starting`, `waiting` (for a log), `stopped`, `failed`."""
    sequence: int = 0
    """The sequence of the log that is being read; 0 if unknown."""
    scn: int = 0
    """Everything up to this SCN, or offset of the binary log, is received."""
    time: float = 0.0
    """Time of that SCN on the master, in seconds since the epoch; 0 if unknown."""
    restarts: int = 0
    """The restarts of its program since the supervisor began."""
    last_error: str = ""
    logs_behind: int | None = None
    """Known archived logs that are not received yet; None before the first one is known."""
    logs: str = ""
    """What a person must do about archived logs that are missing, or will be."""
    left_out: str = ""
    """What people should know of changes that its program leaves out."""


@dataclass(frozen=True)
class RedoStatus:
    """The status of a replication's capture."""

    holder: str
    epoch: int
    written: float
    """Seconds since the epoch."""
    threads: tuple[ThreadStatus, ...]
    error: str = ""
    """An error that needs a person."""
    watch_error: str = ""
    """Why missing archived logs cannot be detected."""
    unread: str = ""
    """Threads of the master that are not read, and what a person must do."""
    capture: str = REDO
    """The way of capture; with `binlog` the one "thread" is the file of the log, and its SCN the place in it."""
    kept_seconds: float | None = None
    """After so long the master deletes a file of its log, read or not; None: never, or it is not known."""

    def silent(self, now: float) -> bool:
        return now - self.written > SILENT_SECONDS

    @staticmethod
    def lag_seconds(thread: ThreadStatus, now: float) -> float | None:
        return max(0.0, now - thread.time) if thread.time else None


class RedoState:
    """The capture of one replication. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix):
        self.client = client
        self.prefix = prefix
        self._key = f"sluice:{prefix}:{CAPTURE}"
        self.status_key = f"{self._key}:status"

    def lease(self, seconds: float) -> Lease:
        return Lease(self.client, self.prefix, CAPTURE, seconds)

    def next_epoch(self) -> int:
        """Increments the epoch: from now on Redis refuses checkpoints of earlier supervisors."""
        return int(self.client.incr(f"{self._key}:epoch"))

    def store(self, epoch: int, thread: str, files: Mapping[str, str]) -> None:
        """Stores the checkpoint files of a thread's program, name → text. Raises `Superseded`."""
        packed = {name: base64.b64encode(zlib.compress(text.encode(), 1)).decode() for name, text in files.items()}
        done = self.client.eval(
            _STORE, 2, f"{self._key}:epoch", f"{self._key}:checkpoint:{thread}", str(epoch), json.dumps(packed)
        )
        if not done:
            raise Superseded(self.prefix)

    def stored(self, thread: str) -> dict[str, str]:
        """The stored checkpoint files, name → text; maybe empty."""
        text = self.client.get(f"{self._key}:checkpoint:{thread}")
        packed = json.loads(str(text)) if text else {}
        return {name: zlib.decompress(base64.b64decode(value)).decode() for name, value in packed.items()}

    def write(self, status: RedoStatus) -> None:
        self.client.set(self.status_key, json.dumps(asdict(status)), ex=EXPIRES_SECONDS)

    def read(self) -> RedoStatus | None:
        """None if no supervisor has written a status for a day."""
        return parsed(self.client.get(self.status_key))


def parsed(text: object) -> RedoStatus | None:
    """Parses the value in Redis."""
    if not text:
        return None
    values = json.loads(str(text))
    return RedoStatus(**{**values, "threads": tuple(ThreadStatus(**each) for each in values["threads"])})
