"""`./sluice test`: runs the tests that arguments of pytest select, without the long ones unless --all is given."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

QUICK = ("-m", "not long", "--hypothesis-profile", "quick")
"""Without --all: no long tests, and a third of the examples of each property, the same ones each time."""

SIDE_BY_SIDE = ("-n", "5", "--dist", "loadfile", "--no-loadscope-reorder", "--max-worker-restart", "2")
"""Files run side by side, each with its own servers. Tests wait much of the time, so two cores can run five workers.
`tests/conftest.py` sets the order. A test that hangs ends its worker with a stack trace (`faulthandler_timeout`); the
third one ends the run."""

SLOWEST = ("--durations=25", "--durations-min=2")
NO_TESTS = 5
"""Exit code of pytest when it ran no test."""

_ALONE = ("-s", "--capture=no", "--pdb", "--trace", "--collect-only", "--co")
"""Options that need a single process, besides `-p no:xdist`."""
SERVERS = "SLUICE_TEST_"
"""Prefix of variables that name servers for the tests."""
_SETTINGS = ("AIRFLOW", "SLUICE_", "PYTEST_", "PG", "SPARK_", "AWS_", "REDIS", "PYTHONDONTWRITEBYTECODE")
"""Prefixes of variables that the tests must not see: they name real servers, or make every process compile modules."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the help only. `run` removes --all and passes the other arguments to pytest."""
    parser.description = __doc__
    parser.epilog = (
        "Examples: ./sluice test    ./sluice test --all    ./sluice test tests/unit -x    ./sluice test -k compose\n\n"
        "Files run side by side, unless only one is named or -n 0, -s, --pdb or -p no:xdist is given."
    )
    parser.add_argument("--all", action="store_true", help="also the tests that take long (marked `long`)")
    parser.add_argument("--postgres", metavar="RELEASE", help="run them on that release of PostgreSQL, such as 14")
    parser.add_argument("--oracle", action="store_true", help="only what runs on the server of SLUICE_TEST_ORACLE")
    parser.add_argument("--run-number", type=int, metavar="N", help="repeats what a run with this number chose")
    parser.add_argument("--junitxml", metavar="FILE", help="write results and durations there, as JUnit does")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="arguments of pytest (default: every test)")


def run(args: argparse.Namespace) -> int:
    """Returns the exit code of pytest, or 2 when a named file or folder does not exist.

    State goes to its own folder, so that tests never touch a running stack.
    """
    given: list[str] = args.arguments
    if unknown := missing(given):
        print(f"sluice: there is no {', no '.join(unknown)}.", file=sys.stderr)
        return 2
    folder = temporary_folder()
    with tempfile.TemporaryDirectory(prefix="sluice-", dir=folder, ignore_cleanup_errors=True) as home:
        os.chmod(home, 0o711)  # the servers' account enters it
        command = [sys.executable, "-m", "pytest", *options(given)]
        status = subprocess.call(command, cwd=ROOT, env=environment(os.environ, Path(home)))
    if status == NO_TESTS and "--all" not in given:
        print("No test was selected. Those marked `long` run with: ./sluice test --all …")
    return status


def missing(given: Sequence[str]) -> list[str]:
    """Returns files and folders among the arguments that do not exist. pytest-xdist would run no test without a
    reason."""
    places = [argument.split("::", 1)[0] for argument in given if argument.startswith("tests/")]
    return [place for place in places if not (ROOT / place).exists()]


def temporary_folder(memory: Path = Path("/dev/shm"), needed: int = 12 * 2**30) -> Path:
    """Returns the folder for the data of the tests' servers: in memory if it has room, else the system's temporary one.

    In memory a database is made in a tenth of the time. `needed` is in bytes, some three times the use of a run.
    """
    try:
        disk = os.statvfs(memory)
    except OSError:
        return Path(tempfile.gettempdir())
    fits = disk.f_bavail * disk.f_frsize >= needed and _available_memory() >= needed
    return memory if fits and not disk.f_flag & os.ST_NOEXEC else Path(tempfile.gettempdir())


def _available_memory() -> int:
    """Returns the bytes that programs can get without swapping."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), 0)


def options(given: Sequence[str]) -> list[str]:
    """Returns the arguments of pytest. The given ones come last, so they have precedence."""
    passed = [argument for argument in given if argument != "--all"]
    return [
        *(() if os.access(ROOT, os.W_OK) else ("-p", "no:cacheprovider")),
        *SLOWEST,
        *(("--run-number", _new_number()) if "--all" in given else QUICK),
        *(() if _processes_are_decided(passed) else SIDE_BY_SIDE),
        *passed,
    ]


def _new_number() -> str:
    """Returns the number of a run of --all: another one each minute, so that each night tries other seeds."""
    return str(int(time.time() // 60) % 10_000_000)


def _processes_are_decided(given: Sequence[str]) -> bool:
    """Whether the arguments demand a single process, or name a single file, which one worker would get."""
    places = {ROOT / argument.split("::", 1)[0] for argument in given if not argument.startswith("-")}
    tests = [place for place in places if place.is_dir() or place.suffix == ".py"]
    return (
        any(argument in _ALONE for argument in given)
        or "no:xdist" in " ".join(given)
        or (len(tests) == 1 and tests[0].is_file())
    )


def environment(given: Mapping[str, str], home: Path) -> dict[str, str]:
    """Returns the tests' environment: the user's, without settings that lead to real servers."""
    kept = {name: value for name, value in given.items() if name.startswith(SERVERS) or not name.startswith(_SETTINGS)}
    storage = {} if os.access(ROOT, os.W_OK) else {"HYPOTHESIS_STORAGE_DIRECTORY": str(home / "hypothesis")}
    return {
        **kept,
        **storage,
        "SLUICE_HOME": str(home / "home"),
        "AIRFLOW_HOME": str(home / "airflow"),
        # Own folders: pytest makes those that runs share unreadable for the servers of another run.
        "PYTEST_DEBUG_TEMPROOT": str(home),
        "TMPDIR": str(home),
        "SPARK_LOCAL_DIRS": str(home),
        "PYTHONPATH": f"{ROOT / 'plugins'}{os.pathsep}{ROOT}",
    }
