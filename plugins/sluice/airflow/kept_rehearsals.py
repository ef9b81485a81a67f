"""Reports of rehearsals, kept with their replication: a file each in `rehearsals/<prefix>/` of the state folder.

The monitor and `./sluice rehearse --keep` write them. Each file has a unique name, so writers need no lock.
"""

import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from json import dumps
from pathlib import Path

from sluice import whole_files
from sluice.configuration.model import Replication
from sluice.configuration.options import VerifyOptions
from sluice.errors import SluiceError
from sluice.model.names import Prefix
from sluice.paths import home
from sluice.verify.rehearsal import Kept, Report, read, to_keep

_NAME = re.compile(r"\d{8}T\d{12}Z-[0-9a-f]{8}")
_PREFIX = re.compile(r"\w+", re.ASCII)


@dataclass(frozen=True)
class Past:
    """What a list says of a kept report. `name`: of its file, without the ending."""

    name: str
    title: str
    began: str
    by: str
    findings: int


def folder_in(root: Path, prefix: Prefix) -> Path:
    """The folder of a replication; `root` is a state folder."""
    return root / "rehearsals" / str(prefix)


def make(folder: Path) -> None:
    """Creates the folder when absent, for its owner only. Raises `OSError`."""
    for one in (folder.parent, folder):
        one.mkdir(mode=0o700, parents=True, exist_ok=True)


def keep(report: Report, replication: Replication, by: str, root: Path | None = None) -> str:
    """Keeps a report; returns its name. `root`: the state folder. Raises `report-refused` and `OSError`."""
    now = datetime.now(UTC)
    kept = Kept(by, now.isoformat(), to_keep(report, replication))
    folder = folder_in(root or home(), replication.prefix)
    make(folder)
    name = f"{now:%Y%m%dT%H%M%S%fZ}-{secrets.token_hex(4)}"
    whole_files.write(folder / f"{name}.json", dumps(asdict(kept)), mode=0o600)
    return name


def kept_under(prefix: Prefix, name: str) -> Kept | None:
    """The report of that name; None if there is none, or another release wrote it."""
    if not _NAME.fullmatch(name):
        return None
    with suppress(OSError, SluiceError):
        return read(Kept, (folder_in(home(), prefix) / f"{name}.json").read_bytes())
    return None


def latest(prefix: Prefix, most: int = 100) -> list[Past]:
    """The reports that were kept last, newest first."""
    found: list[Past] = []
    for file in sorted(folder_in(home(), prefix).glob("*.json"), reverse=True):
        if _NAME.fullmatch(file.stem) and (past := _past(file)):
            found.append(past)
        if len(found) == most:
            break
    return found


@lru_cache(maxsize=1000)
def _past(file: Path) -> Past | None:
    """Cached, since the page of a master asks every few seconds; no file changes once it has its name."""
    with suppress(OSError, SluiceError):
        one = read(Kept, file.read_bytes())
        return Past(file.stem, one.report.title, one.report.began, one.by, len(one.report.findings))
    return None


def forget(days: Mapping[str, int]) -> int:
    """Removes the reports that are older than their replication's days (0: none is), and what killed writers left;
    returns how many reports. `days`: by prefix, for others the default."""
    forgotten = 0
    root = home() / "rehearsals"
    for folder in root.iterdir() if root.is_dir() else ():
        most = days.get(folder.name, VerifyOptions.keep_reports_days)
        if not most or not _PREFIX.fullmatch(folder.name):
            continue
        for file in folder.iterdir():
            with suppress(FileNotFoundError):
                if time.time() - file.stat().st_mtime > most * 24 * 3600:
                    file.unlink()
                    forgotten += _NAME.fullmatch(file.stem) is not None
    return forgotten
