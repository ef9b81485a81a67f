"""What subcommands need of the machine: what cannot be had is said before anything is installed.

Root gets missing programs installed (Java for Spark; Chromium and H2 for tests), others are told the command.
`python -m devstack.machine SUBCOMMAND` does this before the packages are installed, so this module and those that it
imports use the standard library only.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from devstack.account import require_enterable, service_account
from devstack.home import FREE_BYTES, Home
from sluice.cli.bootstrap import apt_install
from sluice.errors import SluiceError, Terminal

ON_STATE = frozenset({"demo", "up"})
"""Subcommands that start servers in the state folder."""
STARTING = frozenset({"test", "bench", "soak"}) | ON_STATE
"""Subcommands that start servers."""
WITHOUT_SPARK = frozenset({"rehearse"})
"""Subcommands that start databases only."""
NEEDS_JAVA = STARTING | {"setup"}
"""Subcommands that start Spark or prepare for it."""
H2, H2_PACKAGE = Path("/usr/share/java/h2.jar"), "libh2-java"
"""A database in Java. Its Oracle mode runs simple statements of Oracle."""
OWN_MEMORY = "SLUICE_OWN_MEMORY"
"""Environment variable of a command that runs with a private /dev/shm."""
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Names of the program."""


def prepare(command: str) -> None:
    """Installs what the subcommand needs of the machine, and sets JAVA_HOME. Raises `machine-unsuitable`,
    `java-missing`, `no-service-account`, `folder-not-enterable`, `state-folder-unusable`.
    """
    if command in STARTING | WITHOUT_SPARK:
        mount_shared_memory()
        require_servers(on_state=command in ON_STATE)
    if command in NEEDS_JAVA:
        os.environ["JAVA_HOME"] = str(ensure_java(os.environ))
    if command == "test":
        ensure_chromium()
        ensure_h2()


def require_servers(*, on_state: bool) -> None:
    """Raises what is known to keep servers from running here: `machine-unsuitable`, `no-service-account`; for those in
    the state folder (`on_state`) also `folder-not-enterable`, `state-folder-unusable`.
    """
    system, processor = platform.system(), platform.machine()
    if system != "Linux" or processor not in ("x86_64", "aarch64"):
        raise Terminal(
            f"The servers of ./sluice run on Linux on x86_64 or aarch64, and this is {system} on {processor}. Use such"
            " a machine, or a container of it. `./sluice add` and the like work everywhere, with an Airflow of yours.",
            code="machine-unsuitable",
        )
    if not has_semaphores():
        raise Terminal(
            "Airflow needs POSIX semaphores, and /dev/shm is missing or cannot be written."
            " Mount it: sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm",
            code="machine-unsuitable",
        )
    account = service_account()
    if on_state:
        home = Home()
        require_enterable(home.root, account)
        home.require_writable()
        home.require_space()
    elif (free := shutil.disk_usage(tempfile.gettempdir()).free) < FREE_BYTES:
        raise Terminal(
            f"{free >> 20} MB are free in {tempfile.gettempdir()}, where the servers of tests and benchmarks keep their"
            f" data; {FREE_BYTES >> 20} MB are needed. Free some, or name another folder: TMPDIR=/path ./sluice …",
            code="machine-unsuitable",
        )


def mount_shared_memory() -> None:
    """Starts this command again with a private /dev/shm if root has none that can be written: the machine's stays
    as it is. Returns if that is not needed, or not possible."""
    if has_semaphores() or os.geteuid() != 0 or OWN_MEMORY in os.environ or not shutil.which("unshare"):
        return
    print("sluice: /dev/shm cannot be written here: the servers get one of their own", file=sys.stderr, flush=True)
    os.environ[OWN_MEMORY] = "1"
    script = 'mount -t tmpfs -o mode=1777 tmpfs /dev/shm; exec "$@"'
    os.execvp("unshare", ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, *sys.orig_argv[1:]])


def has_semaphores() -> bool:
    """Whether processes can share semaphores, which the C library keeps in /dev/shm."""
    import multiprocessing

    try:
        multiprocessing.Lock()
    except OSError:
        return False
    return True


def find_chromium() -> str | None:
    """Returns the path of Chromium or Chrome, or None."""
    return next((path for name in CHROMIUM if (path := shutil.which(name))), None)


def ensure_chromium() -> None:
    """Installs Chromium for root on Debian and Ubuntu. Without it only tests of pages fail."""
    if find_chromium() is None and not (apt_install(CHROMIUM[:2], "tests look at pages with it") and find_chromium()):
        remedy = "Install it (on Debian: sudo apt-get install chromium)."
        print(f"sluice: there is no Chromium: the tests in tests/browser will fail. {remedy}", file=sys.stderr)


def ensure_h2() -> None:
    """Installs H2 for root on Debian and Ubuntu. Without it only tests on H2 fail."""
    if not H2.exists() and not (apt_install([H2_PACKAGE], "tests run Oracle's statements on it") and H2.exists()):
        remedy = f"Install it (on Debian: sudo apt-get install {H2_PACKAGE})."
        print(f"sluice: there is no {H2}: tests of Oracle's statements will fail. {remedy}", file=sys.stderr)


def ensure_java(environment: Mapping[str, str]) -> Path:
    """Returns the home of Java 17 or later. Installs it for root on Debian and Ubuntu. Raises `java-missing`."""
    home = find_java(environment)
    releases = ["openjdk-17-jre-headless", "openjdk-21-jre-headless", "default-jre-headless"]
    if home is None and apt_install(releases, "Spark needs Java"):
        home = find_java(environment)
    if home is None:
        raise Terminal(f"Spark needs Java 17 or later, and there is none. {java_remedy()}", code="java-missing")
    return home


def find_java(environment: Mapping[str, str]) -> Path | None:
    """Searches JAVA_HOME, then PATH, then the usual folders. Returns the home of Java 17 or later, or None."""
    candidates: list[Path] = []
    if configured := environment.get("JAVA_HOME"):
        candidates.append(Path(configured) / "bin" / "java")
    if on_path := shutil.which("java", path=environment.get("PATH", os.defpath)):
        candidates.append(Path(on_path))
    candidates += sorted(Path("/usr/lib/jvm").glob("*/bin/java"))
    for java in candidates:
        if os.access(java, os.X_OK):
            version, home = ask_java(java)
            if version >= 17 and home is not None:
                return home
    return None


def ask_java(java: Path) -> tuple[int, Path | None]:
    """Returns the major version and the home that Java itself reports: the program may be a link or a shim."""
    command: list[str | Path] = [java, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0, None
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", answer.stderr + answer.stdout)
    home = re.search(r"java\.home = (.+)", answer.stderr + answer.stdout)
    return (int(version.group(1)), Path(home.group(1).strip())) if version and home else (0, None)


def java_remedy() -> str:
    """Returns how to install Java here, with a command if one is known."""
    if shutil.which("apt-get"):
        command = "sudo apt-get install default-jre-headless"
    elif shutil.which("dnf"):
        command = "sudo dnf install java-21-openjdk-headless"
    elif shutil.which("zypper"):
        command = "sudo zypper install java-21-openjdk-headless"
    elif shutil.which("apk"):
        command = "sudo apk add openjdk21-jre-headless"
    else:
        return "Install one from https://adoptium.net and set JAVA_HOME."
    return f"Install it with `{command}`, or set JAVA_HOME to one."


def main() -> int:
    """Prepares the machine for the subcommand that is the only argument. Returns 1 if that is impossible."""
    try:
        prepare(sys.argv[1])
    except SluiceError as error:
        print(f"sluice: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
