"""The gate of a slave: a set of named closures, open only when it is empty."""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import redis

from sluice.coordination.records import Events
from sluice.coordination.redis_store import StoreUnreachable, classified
from sluice.errors import RESTART_APPLY, continued
from sluice.model.event import Event, EventKind
from sluice.model.names import Prefix

INITIAL_UPDATE = "initial update"
ADMIN = "admin"
ERROR = "error"
APPROVAL = "approval"
"""`by` of the closure while files wait for a person's answer."""
CARRIED = "transfer by files"
"""`by` of the closure until the files have arrived at the slave."""


@dataclass(frozen=True)
class Closure:
    """One reason why the gate is closed."""

    name: str
    by: str
    reason: str
    at: str
    """ISO 8601, UTC."""

    def text(self) -> str:
        """The closure as Redis and CHECKPOINT store it."""
        return json.dumps(asdict(self))

    @property
    def with_remedy(self) -> str:
        """The reason of a stopped apply, and how to start it again."""
        if RESTART_APPLY in self.reason:
            return self.reason
        return continued(self.reason, f"Fix that, then {RESTART_APPLY}.")

    def __str__(self) -> str:
        return f"{self.name} ({self.by}, {self.at[11:16]} UTC): {self.reason}"


class Gate:
    """The gate of one slave. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        self.client = client
        self.key = f"sluice:{prefix}:{slave}:gate"
        self._events = Events(client, prefix, slave)
        self._subscription: Any = None
        """Receives a message when the gate is opened or closed."""

    def close(self, name: str, by: str, reason: str) -> Closure:
        """Adds a closure, or replaces the one of that name. `ADMIN`: see `sluice.apply.admin_closure`."""
        closure = Closure(name, by, reason, datetime.now(UTC).isoformat(timespec="seconds"))
        with self.client.pipeline() as pipe:
            pipe.hset(self.key, name, closure.text())
            pipe.publish(self.key, name)
            pipe.execute()
        self._happened(f"The gate was closed: {name} ({by}): {reason}")
        return closure

    def restore(self, text: str) -> bool:
        """Restores a closure that Redis has lost; False if there is one of that name."""
        closure = Closure(**json.loads(text))
        return bool(self.client.hsetnx(self.key, closure.name, text))

    def open(self, name: str) -> bool:
        """Removes one closure; False if there was none. Other closures keep the gate closed."""
        with self.client.pipeline() as pipe:
            pipe.hdel(self.key, name)
            pipe.publish(self.key, name)
            opened = bool(pipe.execute()[0])
        if opened:
            self._happened(f"The gate's closure '{name}' was lifted")
        return opened

    def closures(self) -> list[Closure]:
        """All closures, by name; empty if the gate is open."""
        return parsed(self.client.hgetall(self.key))

    def await_change(self, seconds: float) -> None:
        """Returns when the gate is opened or closed, or after `seconds`. Misses changes before the first call."""
        try:
            with classified():
                if self._subscription is None:
                    self._subscription = self.client.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
                    self._subscription.subscribe(self.key)
                    self._subscription.get_message()
                self._subscription.get_message(timeout=seconds)
        except StoreUnreachable:
            self.forget()
            raise

    def _happened(self, text: str) -> None:
        """Adds an event for pages. The gate does not depend on it."""
        with suppress(StoreUnreachable):
            self._events.add([Event(time.time(), EventKind.GATE, text)])

    def forget(self) -> None:
        """Ends the subscription of `await_change`; never raises."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with suppress(redis.RedisError):
                subscription.close()


def parsed(values: Mapping[bytes | str, bytes | str]) -> list[Closure]:
    """Parses the value in Redis, sorted by name."""
    return sorted((Closure(**json.loads(value)) for value in values.values()), key=lambda closure: closure.name)
