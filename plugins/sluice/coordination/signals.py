"""Signals of other processes to the apply of one slave, read in one round trip to Redis."""

from dataclasses import dataclass

from sluice.coordination import gate
from sluice.coordination.gate import Closure, Gate
from sluice.coordination.requests import Requests


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
