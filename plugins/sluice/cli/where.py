"""The Airflow, Redis and folder of a command, from `--airflow` and `--replications`; who uses an account there."""

import argparse
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sluice import config
from sluice.cli.airflow_api import AirflowApi, ApiUnreachable
from sluice.cli.connections import Connections
from sluice.cli.console import Console
from sluice.cli.status import Reaches
from sluice.errors import SluiceError, Terminal
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix

TOKEN_VARIABLE = "SLUICE_AIRFLOW_TOKEN"  # noqa: S105
NONE = "none"


@dataclass(frozen=True)
class Where:
    """The environment of a command."""

    folder: Path
    """The folder of the replications' files."""
    api: AirflowApi | None
    """None: the command prints what to do in Airflow."""
    connections: Reaches
    """Looks up Airflow's connections, with passwords if they can be read."""
    store_url: str | None
    """The address of Redis, if it is known."""
    log_in: str
    """How to log in to Airflow's pages."""
    stop_jobs: Callable[[Prefix, str], None] = lambda prefix, slave: None
    """Ends unwatched jobs of a pair on this machine."""


def where(args: argparse.Namespace, console: Console) -> Where:
    """The environment with the Airflow of `--airflow`. Raises `Terminal` if that is missing or does not answer."""
    if args.airflow is None:
        raise Terminal(
            f"Which Airflow? Name it: --airflow URL, with a token in {TOKEN_VARIABLE} or a log-in that is asked for; "
            f"or --airflow {NONE}, then what is to be done there is printed.",
            code="airflow-needed",
        )
    store_url = os.environ.get("SLUICE_REDIS_URL") or None
    api = airflow_of(args.airflow, console)
    return Where(folder_of(args), api, Connections(api), store_url, "")


def folder_of(args: argparse.Namespace) -> Path:
    """The folder of the replication's file, which may not exist yet."""
    return Path(args.replications).expanduser().resolve() if args.replications else config.folders()[-1]


def airflow_of(url: str, console: Console) -> AirflowApi | None:
    """Logs in with a token, or with a user and password that it asks for. Raises `Terminal`."""
    if url == NONE:
        return None
    if not url.startswith(("http://", "https://")):
        raise Terminal(
            f"--airflow {url}: write http://host:port or https://host, or {NONE}.", code="bad-airflow-address"
        )
    if token := os.environ.get(TOKEN_VARIABLE):
        api = AirflowApi(url, token=token)
    else:
        user = console.ask(f"User of Airflow at {url}", TOKEN_VARIABLE, "admin")
        api = AirflowApi(url, user, console.secret(f"Password of {user}", TOKEN_VARIABLE))
    try:
        api.get("version")
    except ApiUnreachable as error:
        raise Terminal(f"No Airflow answers at {url}: {error.reason}", code="airflow-does-not-answer") from error
    return api


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
