"""Finds the configured replications that log in to a server with an account."""

from contextlib import suppress
from dataclasses import dataclass

from sluice import config
from sluice.cli.where import Where
from sluice.errors import SluiceError
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix


@dataclass(frozen=True)
class Use:
    """One side of a replication that uses the account."""

    prefix: Prefix
    slave: str | None
    """None: the master."""
    info: ConnectionInfo
    """With the password if it can be read."""

    def __str__(self) -> str:
        return f"{self.prefix} → {self.slave}" if self.slave else f"the master of {self.prefix}"


def uses(where: Where, server: tuple[str, int, str]) -> list[Use]:
    """The uses of the account on `server` (`Side.server`), in connections that can be read."""
    account_uses = []
    for one in config.survey(where.folder).replications:
        ends = [(None, one.master.conn_id, one.master.vendor)]
        for slave, conn_id, vendor in [*ends, *((name, s.conn_id, s.vendor) for name, s in one.slaves.items())]:
            with suppress(SluiceError):
                info = where.connections(conn_id, vendor)
                if (info.host, info.port, info.user) == server:
                    account_uses.append(Use(one.prefix, slave, info))
    return account_uses
