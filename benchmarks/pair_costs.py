"""What pairs cost on docker-compose.yaml that is up with its example: `python -m benchmarks.pair_costs --rate 157`.

The CPU of each container while nothing changes, and beside transactions of one row at a steady rate; requests to Redis;
sessions; memory. Costs of one more pair are the difference between two runs with different numbers of slaves.
`benchmarks.capacity` takes its costs from here.

Redis tells of its requests if the account may ask: `+info` at the end of its line in .secrets/redis.acl, before `up`.
"""

import argparse
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

WORKERS = """
import pathlib
total = 0
for one in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        if b"pyspark" in (one / "cmdline").read_bytes() and b"java" not in (one / "cmdline").read_bytes():
            lines = (one / "smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    except OSError:
        pass
print(total)
"""
"""Kilobytes of the Python workers of Spark in a container, each shared page counted once."""
REQUESTS = """
import os, redis
try:
    print(redis.from_url(os.environ["URL"]).info("stats")["total_commands_processed"])
except redis.exceptions.NoPermissionError:
    print("")
"""
TRANSACTION = """\\set c random(1, 20000)
UPDATE customers SET balance = balance + 1 WHERE id = :c;
"""
PSQL = "PGPASSWORD=$(cat /run/secrets/$0_password) psql -XqAt -h 127.0.0.1 -U postgres -d shop -v ON_ERROR_STOP=1"
PGBENCH = (
    "cat >/tmp/one.sql; PGPASSWORD=$(cat /run/secrets/master_password) PGOPTIONS='-c role=application'"
    " pgbench -n -h 127.0.0.1 -U postgres -f /tmp/one.sql -R {rate} -T {seconds} shop 2>&1"
)
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'sluice'"


@dataclass(frozen=True)
class Look:
    """Of some seconds: cores of each container, requests to Redis a second (None where the account may not ask)."""

    cores: Mapping[str, float]
    requests: float | None


def cpu(ids: Mapping[str, str], root: str = "/sys/fs/cgroup") -> dict[str, int]:
    """Nanoseconds that the cgroup of each container has counted, of either version. Read from outside, which costs the
    containers nothing. `ids` has the container of each service. Raises `SystemExit` where no cgroup is found."""
    found = {}
    for folder, _, files in os.walk(root):
        service = next((one for one, ident in ids.items() if ident in Path(folder).name), None)
        if service and "cpuacct.usage" in files:
            found[service] = int(Path(folder, "cpuacct.usage").read_text())
        elif service and "cpu.stat" in files:
            name, value = Path(folder, "cpu.stat").read_text().split()[:2]
            if name == "usage_usec":  # version 1 has another file of this name
                found[service] = 1000 * int(value)
    if lacking := ids.keys() - found.keys():
        raise SystemExit(f"No cgroup here counts the CPU of {sorted(lacking)}: run this on the machine of the daemon.")
    return found


class Containers:
    """Those of the project in this folder."""

    def __init__(self, compose: str):
        self._compose = shlex.split(compose)
        lines = self._run("ps", "--no-trunc", "--format", "{{.Service}} {{.ID}}", "--status", "running").splitlines()
        self._ids = dict(line.split() for line in lines)
        """The container of each running service."""
        if "master" not in self._ids:
            raise SystemExit(
                "The example is not up here: run `docker compose up` in the folder of docker-compose.yaml."
            )

    def exec(self, service: str, *command: str, text: str = "") -> str:
        return self._run("exec", "--no-TTY", service, *command, text=text).strip()

    def query(self, side: str, statement: str) -> str:
        return self.exec(side, "sh", "-c", PSQL, side, text=statement)

    def look(self, during: Callable[[], None]) -> Look:
        """What containers use while this is done."""
        before, asked, began = cpu(self._ids), self._requests(), time.monotonic()
        during()
        took, after, answered = time.monotonic() - began, cpu(self._ids), self._requests()
        cores = {name: (after[name] - before[name]) / took / 1e9 for name in before}
        return Look(cores, None if asked is None or answered is None else (answered - asked) / took)

    def memory(self) -> float:
        """GB of Spark's Python workers."""
        workers = [name for name in self._ids if name.startswith("spark-worker")]
        return sum(int(self.exec(name, "python", "-c", WORKERS)) for name in workers) / 1e6

    def _requests(self) -> int | None:
        answer = self.exec("scheduler", "sh", "-c", 'URL=$(cat /run/secrets/redis_url) python -c "$0"', REQUESTS)
        return int(answer) if answer else None

    def _run(self, *words: str, text: str = "") -> str:
        done = subprocess.run([*self._compose, *words], input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(words[:4])}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=157, help="transactions of one row a second")
    parser.add_argument("--seconds", type=int, default=60, help="of each look")
    parser.add_argument("--compose", default="docker compose", help="the command")
    options = parser.parse_args()
    there = Containers(options.compose)
    rest = there.look(lambda: time.sleep(options.seconds))
    memory = there.memory()
    sessions = {side: int(there.query(side, SESSIONS)) for side in ("master", "slave")}
    command = PGBENCH.format(rate=options.rate, seconds=options.seconds)
    outputs: list[str] = []
    busy = there.look(lambda: outputs.append(there.exec("master", "sh", "-c", command, text=TRANSACTION)))
    rate = next(float(line.split()[2]) for line in outputs[0].splitlines() if line.startswith("tps"))
    table = Table("cores", "at rest", f"{rate:.0f} transactions/s")
    for name in sorted(rest.cores):
        table.add_row(name, f"{rest.cores[name]:.4f}", f"{busy.cores[name]:.4f}")
    console = Console(width=100)
    console.print(table)
    console.print(f"Requests to Redis a second: {rest.requests}, {busy.requests}.")
    console.print(f"Python workers of Spark: {memory:.3f} GB. Sessions: {sessions}.")


if __name__ == "__main__":
    main()
