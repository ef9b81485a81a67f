"""The lease: the right to apply to a slave, held in Redis and renewed while it is used.

The lease prevents two applies of one slave. If two run nevertheless, the epoch lets only one of them write (see
`sluice.model.checkpoint`), so a lost Redis costs time and never data.
"""

import json
import logging
import os
import socket
import threading
import time
import uuid
from dataclasses import dataclass

import redis

from sluice.coordination.redis_store import StoreUnreachable
from sluice.errors import Transient
from sluice.model.names import Prefix

log = logging.getLogger("sluice.coordination")

_RENEW = """
local value = redis.call('GET', KEYS[1])
if value == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1 end
if not value then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1 end
return 0
"""
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class LeaseHeld(Transient):
    """Another process holds the lease; `holder` describes it."""

    def __init__(self, slave: str, holder: str):
        super().__init__(f"Slave {slave} is being applied to by {holder}. This process does nothing.")
        self.holder = holder


class LeaseLost(Transient):
    """The lease expired because Redis was down too long, or another process took it."""

    def __init__(self, slave: str, reason: str):
        super().__init__(f"The lease of slave {slave} is lost: {reason}. Applying stops until it is regained.")


@dataclass(frozen=True)
class Holder:
    """The process that holds a lease."""

    host: str
    pid: int
    token: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class Lease:
    """The lease of one slave. Call `acquire`, then `keep` before every write; a thread renews the lease meanwhile.

    `duration`: seconds that a dead holder blocks its successor.
    """

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str, duration: float):
        self.client = client
        self.slave = slave
        self.duration = duration
        self.key = key(prefix, slave)
        self._value = json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "token": uuid.uuid4().hex})
        self._renewed = float("-inf")
        self._taken_by: str | None = None
        self._failure = ""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self) -> None:
        """Takes the lease and starts renewing it. Raises `LeaseHeld`, `StoreUnreachable`."""
        now = time.monotonic()
        if not self._renew():
            raise LeaseHeld(self.slave, str(holder(self.client, self.key) or "another process"))
        self._renewed, self._taken_by = now, None
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._keep_renewing, name="lease", daemon=True)
            self._thread.start()

    def keep(self) -> None:
        """Returns while the lease is certainly held. Raises `LeaseLost` as soon as it may be lost."""
        if self._taken_by:
            raise LeaseLost(self.slave, f"{self._taken_by} holds it")
        if time.monotonic() >= self._renewed + self.duration:
            reason = f": {self._failure}" if self._failure else ""
            raise LeaseLost(self.slave, f"Redis did not renew it for {self.duration:g} s{reason}")

    def release(self) -> None:
        """Deletes the lease if it is still ours; an outage of Redis does not raise."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=self.duration)
        try:
            self.client.eval(RELEASE, 1, self.key, self._value)
        except StoreUnreachable:
            return

    def _renew(self) -> bool:
        return bool(self.client.eval(_RENEW, 1, self.key, self._value, int(self.duration * 1000)))

    def _keep_renewing(self) -> None:
        while not self._stop.wait(self.duration / 4):
            now = time.monotonic()
            try:
                if self._renew():
                    self._renewed, self._taken_by = now, None
                else:
                    self._taken_by = str(holder(self.client, self.key) or "another process")
            except Exception as error:  # this thread must survive any error; `keep` raises if it lasts
                self._failure = str(error)
                log.debug("the lease was not renewed: %s", error)


def key(prefix: Prefix, slave: str) -> str:
    return f"sluice:{prefix}:{slave}:lease"


def taken(client: "redis.Redis", prefix: Prefix, slave: str) -> bool:
    """Whether an apply of the slave is running. Raises `StoreUnreachable`."""
    return holder(client, key(prefix, slave)) is not None


def held(client: "redis.Redis") -> list[tuple[str, str]]:
    """Prefix and slave of all leases that are held. Raises `StoreUnreachable`."""
    keys = sorted(set(client.scan_iter(match="sluice:*:lease", count=1000)))
    return [(parts[1], parts[2]) for key in keys if len(parts := str(key).split(":")) == 4]


def holder(client: "redis.Redis", lease_key: str) -> Holder | None:
    """The current holder of the lease, or None."""
    return parsed(client.get(lease_key))


def parsed(value: object) -> Holder | None:
    """Parses the value in Redis."""
    if not value:
        return None
    values = json.loads(str(value))
    return Holder(values["host"], values["pid"], values["token"])
