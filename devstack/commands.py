"""The subcommands `setup`, `up`, `down` and `status` of `./sluice`."""

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote

from devstack import operate
from devstack.blueprint import REPLICATIONS
from devstack.connections import Connections
from devstack.runner import Report, State
from devstack.services import DATABASE, ROLE
from devstack.stack import Stack
from sluice import config
from sluice.cli import commands
from sluice.cli import status as replications
from sluice.config import Survey
from sluice.counted import duration
from sluice.errors import SluiceError

NOT_UP = 3
"""Exit status of `status` when not everything runs."""


def setup(args: argparse.Namespace) -> int:
    """Does nothing more: the packages and Java are installed before this runs."""
    print("sluice: the packages and Java are installed")
    return 0


def up(args: argparse.Namespace) -> int:
    """Starts all services that do not run, and prints their addresses."""
    named = {"airflow": args.airflow_port, "master": args.master_port, "redis": args.redis_port}
    ports = {**{name: port for name, port in named.items() if port}, **dict(args.port)}
    slaves = [f"dr{number}" for number in range(1, args.slaves + 1)] if args.slaves else None
    stack = Stack(
        slaves=slaves,
        airflow=args.airflow,
        ports=ports,
        replications=args.replications,
        postgres=args.postgres,
        mariadb=args.mariadb,
    )
    stack.up(_say(args.quiet))
    if not args.quiet:
        print(places(stack, secrets=sys.stdout.isatty()))
        print("\n".join([*configuration(stack), *mistakes(stack)]))
    return 0


def down(args: argparse.Namespace) -> int:
    """Stops everything."""
    ran = Stack().down(_say(args.quiet))
    if not args.quiet:
        print("all is down" if ran else "nothing was running")
    return 0


def status(args: argparse.Namespace) -> int:
    """Prints the state of the services and of the replications."""
    if args.prefix or args.watch:
        return operate.watch(args)
    if args.airflow is not None:
        return commands.run_status(args)
    stack = Stack()
    status = stack.status()
    if args.json:
        values = {
            "home": str(stack.home.root),
            "up": status.is_up,
            "leftovers": status.leftovers,
            "supervisor": status.supervisor.pid if status.supervisor else None,
            "services": [report.to_dict() for report in status.services],
            "replications": [str(place) for place in stack.replications],
            "pairs": pairs(stack) if status.supervisor else [],
            "airflow": {"url": stack.airflow.url, "user": stack.airflow.user} if status.supervisor else None,
            "verified": _verified(stack) if status.supervisor else [],
        }
        if args.secrets and status.supervisor:
            values["airflow"] = {**(values["airflow"] or {}), "password": stack.airflow.password}  # type: ignore[dict-item]
            values["redis"] = stack.redis_url
        print(json.dumps(values, indent=1))
    elif status.supervisor is None:
        print(f"nothing runs in {stack.home.root}: start it with ./sluice up, or name another Airflow with --airflow")
        print("\n".join([*configuration(stack), *mistakes(stack)]))
        if status.leftovers:
            print("Processes are left of a supervisor that was killed: ./sluice up or ./sluice down ends them.")
    else:
        print(table(status.services, time.time()))
        print("\n".join(["", *configuration(stack), "", *pairs(stack)]))
        print(places(stack, secrets=args.secrets or sys.stdout.isatty(), urls=args.secrets))
    return 0 if status.is_up else NOT_UP


def configuration(stack: Stack) -> list[str]:
    """Returns lines about the folders of replications that are in force, and the files that are not."""
    return [
        *replications.folders(stack.replications, _survey(stack)),
        *replications.unused(stack.replications, REPLICATIONS),
    ]


def mistakes(stack: Stack) -> list[str]:
    """Returns the mistakes in the replication files."""
    try:
        return [str(mistake) for mistake in config.survey(*stack.replications).mistakes]
    except SluiceError as error:
        return [str(error)]


def pairs(stack: Stack) -> list[str]:
    """Returns some lines for every configured replication. Mistakes and outages are among the lines, never raised."""
    try:
        survey = config.survey(*stack.replications)
    except SluiceError as error:
        return [str(error)]
    monitored = any(report.name == "airflow-api-server" for report in stack.status().services)
    monitor = partial(stack.airflow.api().page, "overview.json") if monitored else None
    return replications.replications(survey, Connections(stack), stack.redis_url, monitor)


def _survey(stack: Stack) -> Survey | None:
    try:
        return config.survey(*stack.replications)
    except SluiceError:
        return None


def _verified(stack: Stack) -> list[dict[str, Any]]:
    survey = _survey(stack)
    return replications.of_pairs(survey, stack.redis_url) if survey else []


def table(reports: list[Report], now: float) -> str:
    """Returns one line for each service. Below one that does not run follows the reason."""
    rows = [("service", "state", "pid", "port", "since", "restarts")]
    for report in reports:
        pid, port = str(report.process.pid if report.process else ""), str(report.port or "")
        rows.append((report.name, str(report.state), pid, port, duration(now - report.since), str(report.restarts)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for line, report in reversed(list(enumerate(reports, start=1))):
        if report.message and report.state is not State.RUNNING:
            lines[line + 1 : line + 1] = [f"    {text}" for text in report.message.splitlines()[-8:]]
    return "\n".join(lines)


def places(stack: Stack, *, secrets: bool, urls: bool = False) -> str:
    """Returns the addresses of the parts. `urls` adds URLs of databases and Redis with their passwords."""
    lines = []
    if stack.blueprint.airflow:
        login = stack.airflow.password if secrets else "(./sluice status --secrets)"
        lines.append(f"Airflow    {stack.airflow.url}  user {stack.airflow.user}  password {login}")
        lines.append(f"Sluice     {stack.airflow.url}/plugin/sluice  all slaves on one page: Sluice in Airflow's menu")
    for place in stack.services.places:
        info = stack.connection(place)
        port = info.port
        lines.append(f"{place:<10} 127.0.0.1:{port}  database {DATABASE}  user {ROLE}  Airflow connection demo_{place}")
        if urls:
            scheme = {"postgres": "postgresql"}.get(info.vendor, info.vendor)
            login = f"{info.user}:{quote(info.password, safe='')}"
            lines.append(f"{'':<10} {scheme}://{login}@127.0.0.1:{port}/{DATABASE}")
    if urls:
        lines.append(f"Redis      {stack.redis_url}")
    if stack.blueprint.airflow:
        lines.append(f"Spark      {stack.services.spark.ui_url}  log {stack.home.log('spark')}")
    lines.append(f"logs       {stack.home.logs}")
    return "\n" + "\n".join(lines)


def _say(quiet: bool) -> Callable[[str], None]:
    def say(line: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # the start continues when the reader has ended
            print(line, flush=True)

    return (lambda line: None) if quiet else say
