"""Requests of other processes to the apply of one slave, and its answers.

All keys in Redis expire, so that nothing remains if a process dies: a request that no apply takes, an answer that
nobody reads. A restarted apply finds the requests that its predecessor did not answer.
"""

import uuid
from dataclasses import dataclass

import redis

from sluice.coordination import gate
from sluice.coordination.gate import Closure, Gate
from sluice.model.names import Prefix
from sluice.model.requests import Answer, Request, answer_text, request_text

LIST_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Pending:
    """A request that is neither answered nor expired. `text`: for `parse_request`."""

    id: str
    text: str


class Requests:
    """The requests of one slave, oldest first. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        self.client = client
        self._stem = f"sluice:{prefix}:{slave}"
        self.key = f"{self._stem}:requests"
        """The list of the pending requests."""

    def ask(self, request: Request, seconds: float) -> str:
        """Queues a request, which expires after `seconds`; returns its id."""
        name = uuid.uuid4().hex
        with self.client.pipeline() as pipe:
            pipe.set(self._request(name), request_text(request), px=int(seconds * 1000))
            pipe.rpush(self.key, name)
            pipe.expire(self.key, LIST_SECONDS)
            pipe.execute()
        return name

    def next(self) -> Pending | None:
        """The oldest pending request. It stays until it is answered or withdrawn."""
        while (name := self.client.lindex(self.key, 0)) is not None:
            text = self.client.get(self._request(str(name)))
            if text is not None:
                return Pending(str(name), str(text))
            self.client.lrem(self.key, 1, str(name))
        return None

    def answer(self, name: str, answer: Answer, seconds: float) -> None:
        """Answers a request; the answer expires after `seconds`."""
        with self.client.pipeline() as pipe:
            pipe.set(self._answer(name), answer_text(answer), px=int(seconds * 1000))
            pipe.lrem(self.key, 1, name)
            pipe.delete(self._request(name))
            pipe.execute()

    def answered(self, name: str) -> str | None:
        """The answer, for `parse_answer`; None if there is none yet, or if it has expired."""
        text = self.client.get(self._answer(name))
        return None if text is None else str(text)

    def withdraw(self, name: str) -> None:
        """Deletes a request that is done: the apply releases what it held for it."""
        with self.client.pipeline() as pipe:
            pipe.lrem(self.key, 1, name)
            pipe.delete(self._request(name), self._answer(name))
            pipe.execute()

    def _request(self, name: str) -> str:
        return f"{self._stem}:request:{name}"

    def _answer(self, name: str) -> str:
        return f"{self._stem}:answer:{name}"


# Signals of other processes to the apply of one slave, read in one round trip to Redis.


@dataclass(frozen=True)
class SignalsRead:
    """The state of Redis at one moment."""

    closures: list[Closure]
    """Why the gate is closed; empty if it is open."""
    requested: bool
    """Whether a request is in the list. It may have expired."""


class Signals:
    """The gate and the requests of one slave."""

    def __init__(self, gate: Gate, requests: Requests):
        self.gate = gate
        self.requests = requests

    def read(self) -> SignalsRead:
        """Raises `StoreUnreachable`."""
        with self.gate.client.pipeline(transaction=False) as pipe:
            pipe.hgetall(self.gate.key)
            pipe.exists(self.requests.key)
            closures, listed = pipe.execute()
        return SignalsRead(gate.parsed(closures), bool(listed))
