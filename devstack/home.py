"""The folder that holds all state of the devstack. SLUICE_HOME names it; without that variable it is:

    .sluice/ of this repository     for an ordinary user; for root if others may enter the repository
    /var/lib/sluice                 for root otherwise, because another account runs PostgreSQL for root

Its content:

    stack.json            the parts of the stack (blueprint)
    lock                  held while a command changes the stack
    run/                  pids and states of the supervisor and the services; jobs/ of detached Spark jobs
    logs/<service>.log    the output of each service; .1 and .2 are older
    postgres/<service>/   one cluster each: master, slave-<name>, metadata
    redis/  airflow/      the files of Redis and Airflow
    spark/                scratch space of Spark jobs
    replications/         the demo's configuration, made by ./sluice
    configuration         a link to the user's folder (--replications); SLUICE_REPLICATIONS names both

To start afresh, stop everything and remove the folder.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sluice.errors import Terminal

REPOSITORY = Path(__file__).resolve().parent.parent
SYSTEM = Path("/var/lib/sluice")
"""Root's folder for files that the account of PostgreSQL must reach."""
FREE_BYTES = 1 << 30


def state_folder_unusable(path: Path, reason: str) -> Terminal:
    """The state folder cannot hold the stack."""
    return Terminal(
        f"The state folder {path} cannot be used: {reason}. Make it usable, or choose another with SLUICE_HOME.",
        code="state-folder-unusable",
    )


def kept(name: str) -> Path:
    """The folder of downloads of that name: in the checkout, or in the state folder if the checkout cannot be
    written."""
    beside = REPOSITORY / name
    return beside if os.access(beside if beside.exists() else REPOSITORY, os.W_OK) else Home().root / name


def default_root(repository: Path, user: int) -> Path:
    """Returns the state folder of the user id `user` when SLUICE_HOME names none."""
    open_to_others = all(folder.stat().st_mode & stat.S_IXOTH for folder in (repository, *repository.parents))
    return repository / ".sluice" if user != 0 or open_to_others else SYSTEM


class Home:
    """The paths of the state folder."""

    def __init__(self, root: Path | str | None = None) -> None:
        chosen = root or os.environ.get("SLUICE_HOME") or default_root(REPOSITORY, os.geteuid())
        self.root = Path(chosen).expanduser().resolve()
        self.blueprint = self.root / "stack.json"
        self.run = self.root / "run"
        self.supervisor = self.run / "supervisor.json"
        self.services = self.run / "services.json"
        self.jobs = self.run / "jobs"
        self.logs = self.root / "logs"
        self.redis = self.root / "redis"
        self.airflow = self.root / "airflow"
        self.spark = self.root / "spark"
        self.replications = self.root / "replications"
        self.configuration = self.root / "configuration"

    def log(self, service: str) -> Path:
        return self.logs / f"{service}.log"

    def postgres(self, service: str) -> Path:
        return self.root / "postgres" / service

    @property
    def mariadb(self) -> Path:
        return self.root / "mariadb"

    def create(self) -> None:
        """Makes the folders. Only the owner can list them. Raises `state-folder-unusable`."""
        try:
            own = (self.run, self.jobs, self.logs, self.spark, self.replications)
            for folder in (self.root, *own, self.root / "postgres"):
                folder.mkdir(parents=True, exist_ok=True)
                if folder.stat().st_uid == os.geteuid():
                    # The account that runs PostgreSQL for root passes through to its clusters.
                    passable = os.geteuid() == 0 and folder in (self.root, self.root / "postgres")
                    folder.chmod(0o711 if passable else 0o700)
            with tempfile.NamedTemporaryFile(dir=self.run, prefix=".probe-") as probe:
                probe.write(b"probe")
        except OSError as error:
            raise state_folder_unusable(self.root, self._explain(error)) from error

    def use_configuration(self, folder: Path) -> None:
        """Puts the replications of `folder` in force, also in processes that run already."""
        new = self.configuration.with_name(f".configuration.{os.getpid()}")
        new.unlink(missing_ok=True)
        new.symlink_to(folder)
        new.replace(self.configuration)

    def require_writable(self) -> None:
        """Raises `state-folder-unusable` when the folder cannot be made, or not be written. It makes none."""
        existing = self._existing()
        if not os.access(existing, os.W_OK | os.X_OK):
            number = errno.EROFS if os.statvfs(existing).f_flag & os.ST_RDONLY else errno.EACCES
            raise state_folder_unusable(self.root, self._explain(OSError(number, os.strerror(number))))

    def require_space(self) -> None:
        """Raises `state-folder-unusable` when the disk is too full to start."""
        free = shutil.disk_usage(self._existing()).free
        if free < FREE_BYTES:
            raise state_folder_unusable(
                self.root, f"{free >> 20} MB are free on its disk, {FREE_BYTES >> 20} MB are needed"
            )

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Lets one command at a time change the stack. The others print a line and wait."""
        with open(self.root / "lock", "a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip() or "unknown"
                print(f"sluice: waiting for another command (pid {holder}) that changes {self.root}", file=sys.stderr)
                fcntl.flock(file, fcntl.LOCK_EX)
            with contextlib.suppress(OSError):  # `down` must work with a full disk
                file.seek(0)
                file.truncate()
                file.write(str(os.getpid()))
                file.flush()
            yield

    def _existing(self) -> Path:
        """The folder, or the nearest one above it that exists."""
        return next(path for path in (self.root, *self.root.parents) if path.exists())

    def _explain(self, error: OSError) -> str:
        reason = error.strerror or str(error)
        existing = self._existing()
        if isinstance(error, PermissionError):
            status = existing.stat()
            mode = stat.filemode(status.st_mode)
            reason += f" ({existing} is {mode} of user {status.st_uid}, you are user {os.geteuid()})"
        return reason
