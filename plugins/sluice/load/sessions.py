"""Sessions on the two databases of an initial update."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from sluice.database.session import Session
from sluice.load.update import LoadTarget, Update


@contextmanager
def on_slave(target: LoadTarget) -> Iterator[Session]:
    """A session on the slave, in autocommit."""
    with closing(target.connect_slave()) as session:
        yield session


@contextmanager
def on_master(update: Update) -> Iterator[Session]:
    """A session on the master, in autocommit."""
    with closing(update.connect_master()) as session:
        yield session
