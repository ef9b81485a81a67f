"""The gate of a slave: a set of named closures, open only when it is empty."""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import redis

from sluice.coordination.events import Events
from sluice.coordination.redis_store import StoreUnreachable, classified
from sluice.errors import RESTART_APPLY
from sluice.model.event import Event, EventKind
from sluice.model.names import Prefix

INITIAL_UPDATE = "initial update"
ADMIN = "admin"
ERROR = "error"
APPROVAL = "approval"
"""By this the gate is closed while files wait for a person's answer."""


@dataclass(frozen=True)
class Closure:
    """One reason why the gate is closed."""

    name: str
    by: str
    reason: str
    at: str
    """ISO 8601, UTC."""

    def text(self) -> str:
        """As it is stored."""
        return json.dumps(asdict(self))

    @property
    def with_remedy(self) -> str:
        """Of an apply that stopped: the reason, and how it is started again."""
        if RESTART_APPLY in self.reason:
            return self.reason
        return f"{self.reason.rstrip('.')}. Mend that, then {RESTART_APPLY}."

    def __str__(self) -> str:
        return f"{self.name} ({self.by}, {self.at[11:16]} UTC): {self.reason}"


class Gate:
    """Closes and opens the way to one slave. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        self.client = client
        self.key = f"sluice:{prefix}:{slave}:gate"
        self._events = Events(client, prefix, slave)
        self._subscription: Any = None
        """What hears that somebody opened or closed it."""

    def close(self, name: str, by: str, reason: str) -> Closure:
        """Adds a closure, or replaces the one of that name. `ADMIN`: see `sluice.apply.admin_closure`."""
        closure = Closure(name, by, reason, datetime.now(UTC).isoformat(timespec="seconds"))
        with classified(), self.client.pipeline() as pipe:
            pipe.hset(self.key, name, closure.text())
            pipe.publish(self.key, name)
            pipe.execute()
        self._happened(f"The gate was closed: {name} ({by}): {reason}")
        return closure

    def restore(self, text: str) -> bool:
        """Puts a closure back that Redis has lost; False where there is one of that name."""
        closure = Closure(**json.loads(text))
        with classified():
            return bool(self.client.hsetnx(self.key, closure.name, text))

    def open(self, name: str) -> bool:
        """Removes one closure; False when it was not there. Other closures keep the gate closed."""
        with classified(), self.client.pipeline() as pipe:
            pipe.hdel(self.key, name)
            pipe.publish(self.key, name)
            opened = bool(pipe.execute()[0])
        if opened:
            self._happened(f"The gate's closure '{name}' was taken back")
        return opened

    def closures(self) -> list[Closure]:
        """All reasons why the gate is closed, by name; empty when it is open."""
        with classified():
            return parsed(self.client.hgetall(self.key))

    def await_change(self, seconds: float) -> None:
        """Returns when somebody has opened or closed it, or after `seconds`: what was said before the first call is
        not heard."""
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
        """Kept for pages; the gate does not depend on it."""
        with suppress(StoreUnreachable):
            self._events.add([Event(time.time(), EventKind.GATE, text)])

    def forget(self) -> None:
        """Ends what `await_change` began; never raises."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with suppress(redis.RedisError):
                subscription.close()


def parsed(values: Mapping[bytes | str, bytes | str]) -> list[Closure]:
    """From what Redis has, by name."""
    return sorted((Closure(**json.loads(value)) for value in values.values()), key=lambda closure: closure.name)
