"""Programs and accounts of the machine: Java for Spark, an account for PostgreSQL under root, Chromium and H2 for
tests.

It uses the standard library only, because it runs before the packages are imported.
"""

import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from sluice.cli.bootstrap import agreed, apt_install
from sluice.errors import Terminal

NEEDS_JAVA = frozenset({"setup", "demo", "test", "bench", "soak", "up"})
"""Subcommands that start Spark or prepare for it."""
H2, H2_PACKAGE = Path("/usr/share/java/h2.jar"), "libh2-java"
"""A database in Java. Its Oracle mode runs simple statements of Oracle."""
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Names of the program."""
ACCOUNT = "sluice-postgres"
"""The system account that runs PostgreSQL for root."""


class JavaMissing(Terminal):
    """Spark cannot start without Java."""

    def __init__(self, remedy: str) -> None:
        super().__init__(f"Spark needs Java 17 or later, and there is none. {remedy}")


def find_chromium() -> str | None:
    """Returns the path of Chromium or Chrome, or None."""
    return next((path for name in CHROMIUM if (path := shutil.which(name))), None)


def ensure_chromium() -> None:
    """Offers root on Debian and Ubuntu to install Chromium. Without it only tests of pages fail."""
    if find_chromium() is None and not (apt_install(CHROMIUM[:2]) and find_chromium()):
        remedy = "Install it (on Debian: sudo apt-get install chromium)."
        print(f"sluice: there is no Chromium: the tests in tests/browser will fail. {remedy}", file=sys.stderr)


def ensure_h2() -> None:
    """Offers root on Debian and Ubuntu to install H2. Without it only tests on H2 fail."""
    if not H2.exists() and not (apt_install([H2_PACKAGE]) and H2.exists()):
        remedy = f"Install it (on Debian: sudo apt-get install {H2_PACKAGE})."
        print(f"sluice: there is no {H2}: tests of Oracle's statements will fail. {remedy}", file=sys.stderr)


def ensure_java(environment: Mapping[str, str]) -> Path:
    """Returns the home of Java 17 or later. Offers root on Debian and Ubuntu to install it. Raises `JavaMissing`."""
    home = find_java(environment)
    if home is None and apt_install(["openjdk-17-jre-headless", "openjdk-21-jre-headless", "default-jre-headless"]):
        home = find_java(environment)
    if home is None:
        raise JavaMissing(java_remedy())
    return home


def find_java(environment: Mapping[str, str]) -> Path | None:
    """Searches JAVA_HOME, then PATH, then the usual folders. Returns the home of Java 17 or later, or None."""
    candidates: list[Path] = []
    if configured := environment.get("JAVA_HOME"):
        candidates.append(Path(configured) / "bin" / "java")
    if on_path := shutil.which("java", path=environment.get("PATH", os.defpath)):
        candidates.append(Path(on_path))
    candidates += sorted(Path("/usr/lib/jvm").glob("*/bin/java"))
    candidates += sorted(Path("/Library/Java/JavaVirtualMachines").glob("*/Contents/Home/bin/java"))
    candidates += [Path("/opt/homebrew/opt/openjdk/bin/java"), Path("/usr/local/opt/openjdk/bin/java")]
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
    if sys.platform == "darwin":
        command = "brew install openjdk@21"
    elif shutil.which("apt-get"):
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


def ensure_account() -> None:
    """Offers root to make the account that runs PostgreSQL. Other users need none."""
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if os.geteuid() != 0 or useradd is None or _has_account():
        return
    command = [useradd, "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", ACCOUNT]
    if agreed("PostgreSQL refuses to run as root and needs an account of its own", " ".join(command)):
        # Of two callers at once, one fails and then finds the account.
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def _has_account() -> bool:
    try:
        pwd.getpwnam(ACCOUNT)
    except KeyError:
        return False
    return True
