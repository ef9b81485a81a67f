"""Which Airflow, Redis and folder `add` and `remove` work with; initial updates that `add --start` starts."""

import argparse
import os
import time
from contextlib import suppress
from pathlib import Path

from devstack.airflow_api import AirflowApi, ApiUnreachable
from devstack.connections import Connections
from devstack.demo.lifecycle import InitialUpdate
from devstack.stack import Stack, StackNotUp
from sluice import config
from sluice.airflow import jobs
from sluice.airflow.job import Kind
from sluice.cli import airflow, status
from sluice.cli.add import Where
from sluice.cli.console import Console
from sluice.coordination import redis_store
from sluice.errors import SluiceError, Terminal
from sluice.model.names import Prefix
from sluice.model.slave_state import SlaveState

LOOK_SECONDS = 3.0
STOP_SECONDS = 90.0
TOKEN = "SLUICE_AIRFLOW_TOKEN"


def where(args: argparse.Namespace, console: Console) -> Where:
    """The devstack, or what `--airflow` names. Raises `StackNotUp`."""
    if args.airflow is None:
        stack = Stack()
        if stack.status().supervisor is None:
            raise Terminal(f"{StackNotUp(stack.home.root)}, or name another Airflow with --airflow (see --help).")
        chosen = Path(args.replications).expanduser().resolve() if args.replications else None
        if chosen and chosen not in stack.replications:
            raise Terminal(f"{chosen} is not in force: ./sluice up --replications {chosen} makes it so.")
        folder = chosen or stack.replications[-1]
        login = f"user {stack.airflow.user}, password: ./sluice status --secrets"
        os.environ["SLUICE_HOME"] = str(stack.home.root)
        return Where(folder, stack.airflow.api(), Connections(stack), stack.redis_url, login, _stop_jobs)
    folder = Path(args.replications).expanduser().resolve() if args.replications else config.folders()[-1]
    store = redis_store.url() if os.environ.get("SLUICE_REDIS_URL") else None
    if args.airflow == "none":
        return Where(folder, None, None, store, "")
    return Where(folder, _api(args.airflow, console), None, store, "")


def start(prefix: Prefix, slaves: list[str], place: Where, console: Console) -> int:
    """Loads one slave after the other, saying how far each is; 0 when all are NORMAL. Raises `RunFailed`."""
    if not isinstance(place.api, AirflowApi):
        raise Terminal("--start needs an Airflow that can be reached: --airflow URL.")
    configured = config.survey(place.folder).replications
    found = next(one for one in configured if one.prefix == prefix)
    for slave in slaves:
        if place.connections and status.headline(found, slave, place.connections) == SlaveState.NORMAL:
            console.say(f"{prefix} → {slave} is NORMAL already")
            continue
        update = InitialUpdate(place.api, slave, str(prefix))
        update.run_id = airflow.start_update(place.api, prefix, slave)
        console.say(f"initial update of {slave}: {place.api.url}/dags/initial_update/runs/{update.run_id}")
        update.start()
        try:
            _follow(update, found, slave, place, console)
        finally:
            update.stop()
    return 0


def _stop_jobs(prefix: Prefix, slave: str) -> None:
    """A run that is marked as failed before its trigger watches the job leaves that running."""
    for kind in Kind:
        if job := jobs.live(kind, str(prefix), slave):
            jobs.stop(job, "./sluice remove", "the replication is removed")
            jobs.await_end(job, STOP_SECONDS)


def _follow(update: InitialUpdate, found: config.Replication, slave: str, place: Where, console: Console) -> None:
    said = ""
    began = time.monotonic()
    while True:
        if failure := update.failure():
            raise failure
        line = f"task {update.sight.task}" if update.sight.task else "between two tasks"
        if place.connections is not None:
            with suppress(SluiceError):
                line = f"{line}; {status.headline(found, slave, place.connections)}"
        if line != said:
            said = line
            console.say(f"[{time.monotonic() - began:6.1f} s] {line}")
        if update.sight.state == "success":
            console.say(f"{found.prefix} → {slave} is NORMAL, and cdc_apply keeps it so. ./sluice status tells more.")
            return
        time.sleep(LOOK_SECONDS)


def _api(url: str, console: Console) -> AirflowApi:
    """Logged in by a token, or by a name and a password that are asked for."""
    if token := os.environ.get(TOKEN):
        api = AirflowApi(url, token=token)
    else:
        user = console.ask(f"User of Airflow at {url}", TOKEN, "admin")
        api = AirflowApi(url, user, console.secret(f"Password of {user}", TOKEN))
    try:
        api.get("version")
    except ApiUnreachable as error:
        raise Terminal(f"No Airflow answers at {url}: {error.reason}") from error
    return api
