"""A task of a failover that is killed at one of its statements: its process does nothing afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from sluice.vendors.postgres.connection import PostgresSession


class Killed(BaseException):
    """An error that no code of the product handles."""


@contextmanager
def killed_at(statement: int) -> Iterator[None]:
    """In the block the sessions of failovers are cut off before their statement of that number, for good; the task ends
    with `Killed` then."""
    real = PostgresSession.execute
    done = 0

    def execute(self: Any, *args: Any, **options: Any) -> Any:
        nonlocal done
        if not self.info.parameter_status("application_name").startswith("sluice failover"):
            return real(self, *args, **options)
        done += 1
        if done >= statement:
            # As the system does with the sockets of a process that is killed: the server rolls back.
            self.close()
            raise Killed
        return real(self, *args, **options)

    with mock.patch.object(PostgresSession, "execute", execute):
        yield
