"""The command line of `./sluice` in a checkout: the library's subcommands, and servers, demo, tests, benchmarks.

The parser uses the standard library only, so that `--help` works before anything is installed. A subcommand imports
what it needs when it runs.
"""

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence

from devstack import machine
from devstack.postgres_releases import NEWEST, RELEASES
from sluice.cli.arguments import STATUS as OF_REPLICATIONS
from sluice.cli.command import OF_YES, accept_yes, add_subcommands, common_options, guarded, later, with_words

DESCRIPTION = """\
Sluice replicates tables from one master database to many slaves.

  ./sluice demo      replicates a master under traffic to a slave, and compares both at the end
  ./sluice up        starts the servers alone, to look around and for your own databases:
  ./sluice add SHOP --master postgresql://… --slave dr1=postgresql://… --start
"""

SETUP = """\
Installs the packages of requirements.lock into .venv, and Java for root on Debian and Ubuntu. Every other subcommand
does so if that was not done.
"""
EPILOG = f"""\
{OF_YES}
All state is in one folder: the one that the environment variable SLUICE_HOME names, else .sluice/ of this checkout
(for root, if others may not enter the checkout: /var/lib/sluice).
Each subcommand has its own --help.
"""

UP = """\
Starts PostgreSQL (a master, slaves, Airflow's database), Redis, Spark and Airflow on this machine, and returns when
all run. They listen on 127.0.0.1 only. A supervisor keeps them running until './sluice down'.

Options that are not given keep their last value. The first start chooses free ports, later ones keep them. A second
'up' starts only the services that do not run. To start afresh, remove the state folder after 'down'.
"""

DOWN = """\
Stops Airflow, the Spark jobs that it started, then Redis and the databases, and returns when no process is left. It
also ends processes that a killed supervisor left. All data stay for the next 'up'.
"""

STATUS = f"""\
Shows each service of ./sluice up: state, pid, port, since when, the number of restarts, and why it does not run.
Exit status: 0 when all services run, 3 if not. With --airflow: the replications alone.

{OF_REPLICATIONS}"""

_BESIDE_THE_SERVERS = {
    "add": ("devstack.replications", "add"),
    "remove": ("devstack.replications", "remove"),
    "status": ("devstack.commands", "status"),
    **{name: ("devstack.operate", name) for name in ("gate", "rejects", "verify", "act", "logs")},
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a subcommand; returns the exit status: 0 done, 1 failed with a message, 2 misused, 130 interrupted."""
    given = with_words(sys.argv[1:] if arguments is None else arguments)
    to_test = [argument for argument in given if argument != "--yes"]
    if to_test[:1] == ["test"] and to_test[1:2] not in (["-h"], ["--help"]):
        # The other arguments are pytest's; argparse would refuse its options.
        args = argparse.Namespace(command="test", run=later("devstack.testing", "run"), arguments=to_test[1:])
    else:
        args = parsed(given)
    return guarded(args, prepare)


def parsed(given: Sequence[str]) -> argparse.Namespace:
    """The arguments of a subcommand. Scripts of a rehearsal may stand on both sides of an option, where argparse takes
    only the first ones."""
    top = parser()
    args, rest = top.parse_known_args(given)
    if args.command == "rehearse" and not any(argument.startswith("-") for argument in rest):
        args.given += rest
    elif rest:
        top.error(f"unrecognized arguments: {' '.join(rest)}")
    return args


def prepare(args: argparse.Namespace) -> None:
    """Installs what the subcommand needs of the machine. Raises the errors of `machine.prepare`."""
    machine.prepare(args.command)


def parser() -> argparse.ArgumentParser:
    """Returns the parser of all subcommands."""
    top = argparse.ArgumentParser(
        prog="./sluice", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    common_options(top)
    commands = top.add_subparsers(title="subcommands", metavar="SUBCOMMAND", dest="command", required=True)

    _command(commands, "setup", "install the packages and Java only", SETUP, "setup")
    _delegated(commands, "demo", "devstack.demo", "replicate a master under traffic, and compare")
    _delegated(commands, "rehearse", "devstack.rehearse", "try migrations on a captured copy")
    _delegated(commands, "test", "devstack.testing", "run the tests")
    _delegated(commands, "soak", "devstack.soak", "test with random faults for as long as you like")
    _delegated(commands, "bench", "benchmarks", "run the benchmarks")
    add_subcommands(commands, _BESIDE_THE_SERVERS)

    _add_up(commands)
    down = _command(commands, "down", "stop the servers", DOWN, "down")
    down.add_argument("--quiet", action="store_true", help="print errors only")

    status = commands.choices["status"]
    status.description = STATUS
    status.add_argument(
        "--secrets",
        action="store_true",
        help="show passwords even if the output is no terminal, and the URLs of databases and Redis",
    )
    accept_yes(commands)
    return top


def _add_up(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    up = _command(commands, "up", "start the servers", UP, "up")
    up.add_argument(
        "--slaves", type=_count, metavar="N", help="run the slaves dr1 to drN (default 1); more may be added later"
    )
    up.add_argument("--airflow-port", type=_port, metavar="PORT", help="port of Airflow's pages and API")
    up.add_argument("--master-port", type=_port, metavar="PORT", help="port of the master database")
    up.add_argument("--redis-port", type=_port, metavar="PORT", help="port of Redis")
    up.add_argument(
        "--port",
        type=_service_port,
        action="append",
        default=[],
        metavar="SERVICE=PORT",
        help="port of any service, e.g. slave-dr1=5433; may be repeated",
    )
    up.add_argument(
        "--postgres",
        type=int,
        choices=RELEASES,
        metavar="RELEASE",
        help=f"PostgreSQL's release of master and slaves, {RELEASES[0]} to {RELEASES[-1]} (default {NEWEST})",
    )
    up.add_argument(
        "--replications",
        metavar="DIR",
        help="folder of the replications' configuration; its files may change at any time"
        " (default: SLUICE_REPLICATIONS, else include/replications)",
    )
    up.add_argument(
        "--no-airflow", dest="airflow", action="store_false", default=None, help="databases and Redis alone"
    )
    up.add_argument("--airflow", dest="airflow", action="store_true", help="with Airflow again, after --no-airflow")
    up.add_argument(
        "--mariadb",
        action="store_true",
        default=None,
        help="a MariaDB server as well: connection demo_mariadb",
    )
    up.add_argument("--quiet", action="store_true", help="print errors only")


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, summary: str, text: str, function: str
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.set_defaults(run=later("devstack.commands", function))
    return command


def _delegated(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, module: str, summary: str
) -> None:
    """Adds a subcommand that another module defines by `run(args)` and `add_arguments(parser)`.

    A package may define `add_arguments` in its module `arguments`. Without the package there is no subcommand.
    """
    if importlib.util.find_spec(module) is None:
        return
    command = commands.add_parser(name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.set_defaults(run=later(module, "run"))
    holder = f"{module}.arguments"
    is_package = (importlib.util.find_spec(module) or argparse.Namespace()).submodule_search_locations is not None
    source = importlib.import_module(holder if is_package and importlib.util.find_spec(holder) else module)
    add_arguments: Callable[[argparse.ArgumentParser], None] | None = getattr(source, "add_arguments", None)
    if add_arguments is not None:
        add_arguments(command)


def _port(text: str) -> int:
    if not text.isdigit() or not 1024 <= int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: a number from 1024 to 65535")
    return int(text)


def _service_port(text: str) -> tuple[str, int]:
    service, equals, port = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not SERVICE=PORT, e.g. slave-dr1=5433")
    return service, _port(port)


def _count(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) <= 20:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of slaves: 1 to 20")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
