"""Prometheus and promtool: those of the machine, else Debian's package, which is unpacked but not installed."""

import fcntl
import json
import shutil
import socket
import subprocess
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.airflow_home import ROOT
from tests.waiting import until

CACHE = ROOT / ".prometheus"


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`. Fails if neither the machine nor apt has it."""
    if found := shutil.which(name):
        return found
    unpacked = CACHE / "usr" / "bin" / name
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / "lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not unpacked.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                # Unpacked, it starts no service; what it needs beside the C library is in it.
                subprocess.run(["apt-get", "download", "prometheus"], cwd=folder, check=True, capture_output=True)
                (package,) = Path(folder).glob("*.deb")
                subprocess.run(["dpkg", "-x", package, CACHE], check=True)
    return str(unpacked)


class Prometheus:
    """A running Prometheus; `url` is that of its API."""

    def __init__(self, url: str):
        self.url = url

    def ask(self, path: str, **values: str) -> Any:
        """The answer of its API."""
        query = urllib.parse.urlencode(values)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=30) as answer:
            return json.load(answer)["data"]

    def values(self, expression: str) -> list[Any]:
        """The series of an expression, as of now."""
        found: list[Any] = self.ask("query", query=expression)["result"]
        return found


@contextmanager
def scraping(target: str, token: str, rules: Path, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus that scrapes `target` each second, configured as in docs/monitor.md."""
    (folder / "token").write_text(token)
    job = {
        "job_name": "sluice",
        "metrics_path": "/sluice/metrics",
        "authorization": {"credentials_file": str(folder / "token")},
        "static_configs": [{"targets": [target]}],
    }
    everything = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [job],
    }
    (folder / "prometheus.yml").write_text(json.dumps(everything))  # JSON is YAML
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        program("prometheus"), f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={place}", "--log.level=error",
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=folder)
    made = Prometheus(f"http://{place}")
    try:
        until(lambda: _answers(made))
        yield made
    finally:
        process.terminate()
        process.wait(30)


def _answers(made: Prometheus) -> bool:
    try:
        return bool(made.values("up == 1"))
    except OSError:
        return False
