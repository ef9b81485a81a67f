"""A task of a failover that is killed at one of its statements: nothing of its process runs afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self
from unittest import mock

from sluice.vendors.postgres import connection


class Killed(BaseException):
    """What no code of the product handles."""


@contextmanager
def killed_at(statement: int) -> Iterator[None]:
    """In the block the sessions of failovers are cut off before their statement of that number, for good; it ends with
    `Killed` then."""
    real = connection._PlacedCursor.execute
    done = 0

    def execute(self: Any, *args: Any, **options: Any) -> Self:
        nonlocal done
        if not self.connection.info.parameter_status("application_name").startswith("sluice failover"):
            return real(self, *args, **options)  # type: ignore[no-any-return]
        done += 1
        if done >= statement:
            # As the system does with the sockets of a process that is killed: the server rolls back.
            self.connection.close()
            raise Killed
        return real(self, *args, **options)  # type: ignore[no-any-return]

    with mock.patch.object(connection._PlacedCursor, "execute", execute):
        yield
