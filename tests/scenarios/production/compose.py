"""`docker compose` as far as docker-compose.yaml uses it, by podman's commands. An unknown key is an error.

Podman 4.3 runs health checks by systemd alone, so here the driver runs them while it waits, as Docker does: every five
seconds in the start period, then at each interval, and `retries` failures in a row make a container unhealthy.
"""

import concurrent.futures
import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

KNOWN = {
    "image", "build", "command", "entrypoint", "environment", "volumes", "secrets", "networks", "network_mode", "ports",
    "depends_on", "healthcheck", "restart", "init", "logging", "cap_drop", "cap_add", "security_opt", "shm_size",
    "stop_grace_period", "user", "profiles",
}  # fmt: skip
CONFIGURATION = Path(__file__).with_name("images") / "containers.conf"
HEALTHY_SECONDS = 900.0
SHARES = Path("/sys/fs/cgroup/cpu/libpod_parent/cpu.shares")
"""Without a share for each container all of them together get as much CPU as one process of this machine."""


class ComposeFailed(Exception):
    """A command failed, or a service did not become what others wait for."""


def podman(*arguments: str, check: bool = True, **more: Any) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "CONTAINERS_CONF": str(CONFIGURATION), "DISABLE_HC_SYSTEMD": "true"}
    done = subprocess.run(["podman", *arguments], capture_output=True, text=True, env=environment, check=False, **more)
    if check and done.returncode:
        raise ComposeFailed(f"podman {' '.join(arguments)[:300]}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done


def seconds(text: str) -> float:
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)(ms|s|m|h)", text))


def interpolated(value: Any, variables: Mapping[str, str]) -> Any:
    """With `$$`, `${NAME}` and `${NAME:-other}` replaced."""
    if isinstance(value, dict):
        return {key: interpolated(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [interpolated(item, variables) for item in value]
    if not isinstance(value, str):
        return value

    def replaced(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else variables.get(match[1], "") or match[2] or ""

    return re.sub(r"\$\$|\$\{(\w+)(?::-([^}]*))?\}", replaced, value)


class Compose:
    """The project of a folder with docker-compose.yaml. `variables`: the environment of who calls compose."""

    def __init__(self, folder: Path, name: str, variables: Mapping[str, str]):
        self.folder, self.name = folder, name
        document = yaml.safe_load((folder / "docker-compose.yaml").read_text())
        self.document = interpolated({k: v for k, v in document.items() if not k.startswith("x-")}, variables)
        self.services: dict[str, dict[str, Any]] = self.document["services"]
        for service, keys in self.services.items():
            assert keys.keys() <= KNOWN, f"{service}: {keys.keys() - KNOWN}"
        self.lasting = [name for name, one in self.services.items() if one["restart"] != "no"]

    def container(self, service: str) -> str:
        return f"{self.name}-{service}-1"

    def build(self) -> None:
        service = next(one for one in self.services.values() if "build" in one)
        context = str(self.folder / service["build"]["context"])
        podman("build", "-t", service["image"], "-f", "-", context, input=service["build"]["dockerfile_inline"])

    def up(self) -> None:
        """Returns when everything that others wait for has come, and one-shot services have ended."""
        self._make_networks()
        order = [name for name, service in self.services.items() if "profiles" not in service]
        for name in order:
            state = self.state(name)
            if state["Status"] == "none":
                self._create(name)
        if SHARES.exists():
            SHARES.write_text(str(1024 * len(order)))
        conditions = ("service_started", "service_healthy", "service_completed_successfully")
        ready = {f"{condition} {name}": threading.Event() for condition in conditions for name in self.services}
        failed: list[str] = []
        with concurrent.futures.ThreadPoolExecutor(len(order)) as pool:
            list(pool.map(lambda name: self._start(name, ready, failed), order))
        if failed:
            raise ComposeFailed("\n".join(failed))

    def run(self, service: str) -> str:
        """`run --rm` of a service; returns its output."""
        self._make_networks()
        self._create(service)
        try:
            return podman("start", "--attach", self.container(service)).stdout
        finally:
            podman("rm", "--force", self.container(service), check=False)

    def recreate(self, service: str) -> None:
        """`up --force-recreate --no-deps` of a service, for another image or other secrets."""
        self.stop(service)
        podman("rm", "--force", self.container(service))
        self._create(service)
        podman("start", self.container(service))

    def exec(self, service: str, *command: str, check: bool = True, text: str = "", user: str = "") -> str:
        as_user = ["--user", user] if user else []
        return podman("exec", "-i", *as_user, self.container(service), *command, check=check, input=text).stdout

    def logs(self, service: str, lines: int = 200) -> str:
        done = podman("logs", "--tail", str(lines), self.container(service), check=False)
        return done.stdout + done.stderr

    def kill(self, *services: str) -> None:
        """SIGKILL from outside, as from the kernel: `podman kill` would count as a stop."""
        for pid in [self.state(service)["Pid"] for service in services]:
            os.kill(pid, signal.SIGKILL)

    @contextlib.contextmanager
    def isolated(self, service: str) -> Iterator[None]:
        """Meanwhile no packet reaches the container or leaves it, and nobody is told."""
        inside = ["nsenter", "--net", "--target", str(self.state(service)["Pid"])]
        said = subprocess.run([*inside, "ip", "-json", "link"], capture_output=True, check=True).stdout
        links = [one["ifname"] for one in json.loads(said) if one["ifname"] != "lo"]
        for link in links:
            subprocess.run([*inside, "ip", "link", "set", link, "down"], check=True)
        try:
            yield
        finally:
            for link in links:
                subprocess.run([*inside, "ip", "link", "set", link, "up"], check=False)  # unless it has ended

    def limit(self, volume: str, place: Path, megabytes: int) -> None:
        """Makes a volume that is soon full, in the memory of this machine, at `place`."""
        place.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0755", "tmpfs", place], check=True)
        options = ["--opt", "type=none", "--opt", "o=bind", "--opt", f"device={place}"]
        podman("volume", "create", *options, f"{self.name}_{volume}")

    def stop(self, service: str) -> None:
        podman("stop", self.container(service))

    def start(self, service: str) -> None:
        podman("start", self.container(service))

    def state(self, service: str) -> dict[str, Any]:
        done = podman("inspect", "--type", "container", self.container(service), check=False)
        return dict(json.loads(done.stdout)[0]["State"]) if done.returncode == 0 else {"Status": "none"}

    def unhealthy(self) -> dict[str, str]:
        """What of the lasting services does not run or fails its check, with the reason."""
        found: dict[str, str] = {}
        for name in self.lasting:
            good, said = self.probe(name)
            if not good:
                found[name] = said
        return found

    def probe(self, name: str) -> tuple[bool, str]:
        """Whether the health check of a service succeeds, and what it says."""
        status = self.state(name)["Status"]
        if status != "running":
            return False, status
        check = self.services[name]["healthcheck"]
        kind, *test = check["test"]
        command = ["sh", "-c", *test] if kind == "CMD-SHELL" else test
        try:
            done = podman(
                "exec", self.container(name), *command, check=False, timeout=seconds(check.get("timeout", "30s"))
            )
        except subprocess.TimeoutExpired:
            return False, "timeout"
        return done.returncode == 0, (done.stdout + done.stderr).strip()

    def await_healthy(self, name: str) -> None:
        check, began, failures, said = self.services[name]["healthcheck"], time.monotonic(), 0, ""
        period, interval = seconds(check.get("start_period", "0s")), seconds(check.get("interval", "30s"))
        while time.monotonic() < began + HEALTHY_SECONDS:
            young = time.monotonic() < began + period
            time.sleep(min(5.0, interval) if young else interval)
            good, said = self.probe(name)
            if good:
                return
            failures += not young
            if failures >= check.get("retries", 3):
                break
        raise ComposeFailed(f"container {self.container(name)} is unhealthy: {said[-1500:]}\n{self.logs(name, 30)}")

    def down(self, *, volumes: bool) -> None:
        names = podman("ps", "--all", "--quiet", "--filter", f"label=compose={self.name}").stdout.split()
        if names:
            podman("rm", "--force", "--time", "10", *names, check=False)
        for network in self.document["networks"]:
            podman("network", "rm", "--force", f"{self.name}_{network}", check=False)
        if volumes:
            for volume in self.document["volumes"]:
                podman("volume", "rm", "--force", f"{self.name}_{volume}", check=False)

    def _make_networks(self) -> None:
        for network in self.document["networks"]:
            if podman("network", "exists", f"{self.name}_{network}", check=False).returncode:
                podman("network", "create", f"{self.name}_{network}")

    def _create(self, name: str) -> None:
        service = self.services[name]
        arguments = ["create", "--name", self.container(name), "--label", f"compose={self.name}"]
        if "network_mode" in service:
            assert service["network_mode"] == "none"
            arguments += ["--network", "none"]
        for network in service.get("networks", []):
            arguments += ["--network", f"{self.name}_{network}:alias={name}"]
        for key, value in (service.get("environment") or {}).items():
            arguments += ["--env", f"{key}={value}"]
        for volume in service.get("volumes", []):
            source, _, rest = volume.partition(":")
            if source.startswith((".", "/")):
                there = self.folder / source
                there.exists() or there.mkdir(parents=True)  # as Docker does
                source = str(there.resolve())
            else:
                source = f"{self.name}_{source}"
            arguments += ["--volume", f"{source}:{rest}"]
        for secret in service.get("secrets", []):
            named = secret if isinstance(secret, dict) else {"source": secret, "target": secret}
            file = self.folder / self.document["secrets"][named["source"]]["file"]
            if not file.is_file():
                raise ComposeFailed(f"bind source path does not exist: {file}")
            target = named["target"] if named["target"].startswith("/") else f"/run/secrets/{named['target']}"
            arguments += ["--volume", f"{file}:{target}:ro"]
        for port in service.get("ports", []):
            arguments += ["--publish", port]
        for key in ("cap_drop", "cap_add", "security_opt"):
            for value in service.get(key, []):
                arguments += ["--" + key.replace("_", "-"), value]
        for key in ("shm_size", "restart", "user"):
            if key in service:
                arguments += ["--" + key.replace("_", "-"), str(service[key])]
        if service.get("init"):
            arguments.append("--init")
        arguments += ["--stop-timeout", str(int(seconds(service.get("stop_grace_period", "10s"))))]
        if "entrypoint" in service:
            arguments += ["--entrypoint", json.dumps(service["entrypoint"])]
        podman(*arguments, service["image"], *map(str, service.get("command", [])))

    def _start(self, name: str, ready: dict[str, threading.Event], failed: list[str]) -> None:
        service = self.services[name]
        try:
            for needed, how in service.get("depends_on", {}).items():
                while not ready[f"{how['condition']} {needed}"].wait(1):
                    if failed:
                        return
            podman("start", self.container(name))
            ready[f"service_started {name}"].set()
            if service["restart"] == "no":
                code = int(podman("wait", self.container(name)).stdout)
                if code:
                    raise ComposeFailed(f"service {name} ended with {code}: {self.logs(name, 40)}")
                ready[f"service_completed_successfully {name}"].set()
            else:
                self.await_healthy(name)
                ready[f"service_healthy {name}"].set()
        except ComposeFailed as error:
            failed.append(str(error))
