"""The command line: the subcommands that need only the library and its configuration.

It uses the standard library only, so that `--help` works before anything is installed. A subcommand imports what it
needs when it runs.
"""

import argparse
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from sluice import __version__
from sluice.cli import arguments as options
from sluice.errors import SluiceError, labeled
from sluice.log_texts import plain
from sluice.paths import INSTALLED, PROGRAM

DESCRIPTION = """\
Sluice replicates tables from one master database to many slaves.

The servers to try it out with (demo, up, down) are not installed here: these subcommands work without them.
"""

YES = "answer every question with yes"
OF_YES = "--yes, before or after the subcommand: answers every question with yes."
ASKING = ("add", "remove")
"""Subcommands that ask something of a person."""

Subcommands = argparse._SubParsersAction  # noqa: SLF001
"""The type that `add_subparsers` returns."""

_COMMANDS = {
    "add": ("add a replication of your own databases, or a slave to one", options.arguments_of_add, "commands"),
    "remove": ("remove a replication, or one of its slaves", options.arguments_of_remove, "commands"),
    "status": ("show the replications and their slaves", options.arguments_of_status, "commands"),
    "gate": ("pause and resume a slave's apply", options.arguments_of_gate, "operate"),
    "rejects": ("list, apply or drop changes that were set aside", options.arguments_of_rejects, "operate"),
    "verify": ("compare a slave with its master, or repair its rows", options.arguments_of_verify, "operate"),
    "act": ("run an action of the monitor", options.arguments_of_act, "operate"),
    "logs": ("show the log of a slave's apply", options.arguments_of_logs, "operate"),
    "import": ("load initial data from carried files", options.arguments_of_import, "import_files"),
    "record": ("write the changes of a master into files", options.arguments_of_record, "streams"),
    "redo": ("merge the output of OpenLogReplicator into files", options.arguments_of_redo, "streams"),
    "redo-proxy": ("serve redo logs to another machine", options.arguments_of_redo_proxy, "streams"),
    "pack": ("pack the Python packages that Spark's executors need", options.arguments_of_pack, "pack"),
    "capture-redo": ("read a master's own log", options.arguments_of_capture_redo, "streams"),
}
"""For each subcommand what it does, its options, and the module of its function `run_<name>`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a subcommand; returns its exit status."""
    return guarded(parser().parse_args(with_words(sys.argv[1:] if arguments is None else arguments)))


def parser() -> argparse.ArgumentParser:
    """The parser of all subcommands."""
    top = argparse.ArgumentParser(
        prog=PROGRAM,
        description=DESCRIPTION,
        epilog=OF_YES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    common_options(top)
    commands = top.add_subparsers(title="subcommands", metavar="SUBCOMMAND", required=True)
    if not INSTALLED:
        setup = commands.add_parser("setup", help="install the packages only")
        setup.set_defaults(run=lambda args: 0)  # done by sluice.cli.bootstrap
    add_subcommands(commands)
    accept_yes(commands)
    return top


def common_options(top: argparse.ArgumentParser) -> None:
    """Adds `--version` and `--yes` to the parser of all subcommands."""
    top.add_argument("--version", action="version", version=f"sluice {__version__}", help="show the version")
    top.add_argument("--yes", action="store_true", help=YES)


def accept_yes(commands: "Subcommands[argparse.ArgumentParser]") -> None:
    """Lets `--yes` stand after each subcommand, too. The help of those that ask something lists it."""
    for name, parser in commands.choices.items():
        shown = YES if name in ASKING else argparse.SUPPRESS
        parser.add_argument("--yes", action="store_true", default=argparse.SUPPRESS, help=shown)


def with_words(given: Sequence[str]) -> list[str]:
    """The arguments with `help`, `help SUBCOMMAND` and `version` as options; without any, the help is meant."""
    words = [argument for argument in given if argument != "--yes"]
    if words[:1] == ["help"]:
        return [*words[1:2], "--help"]
    if words[:1] == ["version"]:
        return ["--version"]
    return list(given) if words else ["--help"]


def add_subcommands(
    commands: "Subcommands[argparse.ArgumentParser]", instead: Mapping[str, tuple[str, str]] | None = None
) -> None:
    """Adds the subcommands to the parser. `instead`: (module, function) of subcommands that the caller extends."""
    for name, (summary, add_arguments, module) in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter)
        add_arguments(command)
        own = (f"sluice.cli.{module}", "run_" + name.replace("-", "_"))
        command.set_defaults(run=later(*(instead or {}).get(name, own)))


def later(module: str, function: str) -> "partial[int]":
    """A function that imports the module when the subcommand runs."""
    return partial(_run, module, function)


def _run(module: str, function: str, args: argparse.Namespace) -> int:
    status: int | None = getattr(importlib.import_module(module), function)(args)
    return status or 0


def guarded(args: argparse.Namespace, prepare: Callable[[argparse.Namespace], None] | None = None) -> int:
    """Runs a subcommand; returns the exit status: 0 done, 1 failed with a message, 2 misused, 130 interrupted."""
    try:
        if prepare:
            prepare(args)
        status: int = args.run(args)
        sys.stdout.flush()
    except SluiceError as error:
        print(plain(f"sluice: {labeled(error)}"), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("sluice: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the pipe has ended
        return 141
    return status
