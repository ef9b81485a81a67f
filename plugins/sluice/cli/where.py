"""Which Airflow, Redis and folder the commands work with, as `--airflow` and `--replications` say."""

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sluice import config
from sluice.cli.airflow_api import AirflowApi, ApiUnreachable
from sluice.cli.connections import Connections
from sluice.cli.console import Console
from sluice.cli.status import Reaches
from sluice.errors import Terminal
from sluice.model.names import Prefix

TOKEN_VARIABLE = "SLUICE_AIRFLOW_TOKEN"  # noqa: S105
NONE = "none"


@dataclass(frozen=True)
class Where:
    """What the commands work with."""

    folder: Path
    """Of the replications' files."""
    api: AirflowApi | None
    """None: what is to be done in Airflow is printed."""
    connections: Reaches
    """Databases behind Airflow's connections, as far as they are known here; passwords where those can be read."""
    store_url: str | None
    """Where Redis is; None where that is not known."""
    log_in: str
    """How to get into Airflow's pages."""
    stop_jobs: Callable[[Prefix, str], None] = lambda prefix, slave: None
    """Ends jobs of a pair whose run is gone and that nobody watches, where they run on this machine."""


def where(args: argparse.Namespace, console: Console) -> Where:
    """What `--airflow` names. Raises `Terminal` where it names nothing, or no Airflow answers there."""
    if args.airflow is None:
        raise Terminal(
            f"Which Airflow? Name it: --airflow URL, with a token in {TOKEN_VARIABLE} or a log-in that is asked for; "
            f"or --airflow {NONE}, then what is to be done there is printed."
        )
    store_url = os.environ.get("SLUICE_REDIS_URL") or None
    api = airflow_of(args.airflow, console)
    return Where(folder_of(args), api, Connections(api), store_url, "")


def folder_of(args: argparse.Namespace) -> Path:
    """Where the replication's file is, or will be."""
    return Path(args.replications).expanduser().resolve() if args.replications else config.folders()[-1]


def airflow_of(url: str, console: Console) -> AirflowApi | None:
    """Logged in by a token, or by a name and a password that are asked for. Raises `Terminal`."""
    if url == NONE:
        return None
    if not url.startswith(("http://", "https://")):
        raise Terminal(f"--airflow {url}: write http://host:port or https://host, or {NONE}.")
    if token := os.environ.get(TOKEN_VARIABLE):
        api = AirflowApi(url, token=token)
    else:
        user = console.ask(f"User of Airflow at {url}", TOKEN_VARIABLE, "admin")
        api = AirflowApi(url, user, console.secret(f"Password of {user}", TOKEN_VARIABLE))
    try:
        api.get("version")
    except ApiUnreachable as error:
        raise Terminal(f"No Airflow answers at {url}: {error.reason}") from error
    return api
