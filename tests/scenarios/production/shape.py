"""docker-compose.yaml in a folder of its own, as a newcomer has it, and what its tests ask of it."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.scenarios.production.compose import Compose, ComposeFailed, podman

ROOT = Path(__file__).resolve().parents[3]
IMAGES = Path(__file__).with_name("images")
STAND_INS = {
    "localhost/sluice-base": "base",
    "docker.io/library/python:3.11-slim-bookworm": "python",
    "docker.io/library/postgres:18": "postgres",
    "docker.io/library/redis:8-alpine": "redis",
    "docker.io/chrislusf/seaweedfs:3.97": "s3",
}
DEBIAN = "docker.io/library/debian:bookworm-slim"
PARTS = ("docker-compose.yaml", ".dockerignore", "requirements.lock", "dags", "include", "plugins", "spark_jobs")
LIMITED = {"slave": 900, "redis": 64}
"""Volumes that are small, and their megabytes."""
PAIR = {"prefix": "SHOP_", "slave": "dr1"}


def lacking() -> str:
    """Why the production shape cannot run here; empty if it can."""
    if os.geteuid() != 0:
        return "only root has the networks of podman that it needs"
    programs = ("podman", "runc", "debootstrap", "iptables", "catatonit")
    absent = [name for name in programs if not (shutil.which(name) or Path(f"/usr/libexec/podman/{name}").exists())]
    return f"{', '.join(absent)} is not installed" if absent else ""


def build_stand_ins() -> None:
    """The images that docker-compose.yaml names, from Debian's and PyPI's packages. Existing layers are used again."""
    with tempfile.TemporaryDirectory(prefix="sluice-images-") as folder:
        if podman("image", "exists", DEBIAN, check=False).returncode:
            root = Path(folder) / "debian"
            subprocess.run(
                ["debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", root],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            subprocess.run(f"tar -C {root} -c . | podman import - {DEBIAN}", shell=True, check=True)
        contexts = shutil.copytree(IMAGES, Path(folder) / "images")
        # A registry behind a proxy with an authority of its own is reached as from this machine.
        shutil.copy("/etc/ssl/certs/ca-certificates.crt", contexts / "base")
        for name, context in STAND_INS.items():
            podman("build", "-t", name, str(contexts / context))


def until(true: Callable[[], Any], limit: float, what: str) -> Any:
    """What the question returns once that is true; errors of parts that are away count as no."""
    began, last = time.monotonic(), None
    while time.monotonic() < began + limit:
        try:
            if found := true():
                return found
            last = found
        except (ComposeFailed, OSError, ValueError, KeyError, IndexError) as error:
            last = error
        time.sleep(1.0)
    raise AssertionError(f"{what}: not within {limit:.0f} s; last: {last}")


class Shape:
    """A running production shape, with the example."""

    def __init__(self, folder: Path, name: str, port: int):
        self.folder, self.address = folder, f"http://127.0.0.1:{port}"
        for part in PARTS:
            source, target = ROOT / part, folder / part
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        self.limited = folder.with_name(f"{folder.name}-volumes")
        self.compose = Compose(folder, name, {"SLUICE_LISTEN": f"127.0.0.1:{port}", "SLUICE_IMAGE": f"{name}-image"})

    def bring_up(self) -> None:
        """From nothing to `up`; some volumes are small."""
        for volume, megabytes in LIMITED.items():
            self.compose.limit(volume, self.limited / volume, megabytes)
        self.compose.build()
        self.compose.run("secrets")
        self.compose.up()

    def remove(self) -> None:
        """Everything but the stand-ins, whose layers the next run uses."""
        self.compose.down(volumes=True)
        podman("rmi", "--force", f"localhost/{self.compose.name}-image:latest", check=False)
        for volume in LIMITED:
            subprocess.run(["umount", self.limited / volume], check=False)
        shutil.rmtree(self.limited, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    # What a person does

    def call(self, method: str, path: str, body: Any = None) -> Any:
        token = "" if path == "/auth/token" else self.token()
        request = urllib.request.Request(
            self.address + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            raise ComposeFailed(f"{method} {path}: {error.code} {error.read().decode()[:1000]}") from None
        return json.loads(text) if text.startswith(("{", "[")) else text

    def token(self) -> str:
        password = json.loads(self.compose.exec("api-server", "cat", "/var/lib/airflow/passwords.json"))["admin"]
        return str(self.call("POST", "/auth/token", {"username": "admin", "password": password})["access_token"])

    def trigger(self, dag: str, **conf: Any) -> str:
        body = {"logical_date": None, "conf": {**PAIR, **conf}}
        run = until(lambda: self.call("POST", f"/api/v2/dags/{dag}/dagRuns", body), 300, f"{dag} starts")
        return str(run["dag_run_id"])

    def tasks(self, dag: str, run: str) -> dict[str, str]:
        found = self.call("GET", f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"]
        return {one["task_id"]: str(one["state"]) for one in found}

    def ends(self, dag: str, run: str, limit: float = 1800) -> None:
        """Waits for the end of a run, which must be a success."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run}"
        ended = ("success", "failed")
        now = until(lambda: (s := self.call("GET", path)["state"]) in ended and s, limit, f"{dag} ends")
        assert now == "success", f"{dag}: {self.tasks(dag, run)}\n{self.failures(dag, run)}"

    def succeeds(self, dag: str, **conf: Any) -> None:
        self.ends(dag, self.trigger(dag, **conf))

    def failures(self, dag: str, run: str) -> str:
        """The last lines of the logs of failed tasks."""
        said = []
        for task, state in self.tasks(dag, run).items():
            if state in ("failed", "up_for_retry"):
                path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/1?full_content=true"
                lines = self.call("GET", path)["content"]
                said.append(f"{task}: " + "\n".join(str(line.get("event", line)) for line in lines[-15:]))
        return "\n".join(said)

    def answer(self, dag: str, run: str, task: str, option: str) -> None:
        until(lambda: self.tasks(dag, run).get(task) == "awaiting_input", 1800, f"{task} asks")
        path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/-1/hitlDetails"
        self.call("PATCH", path, {"chosen_options": [option], "params_input": {}})

    @contextlib.contextmanager
    def full(self, volume: str) -> Iterator[None]:
        """Meanwhile nothing can be written to the volume."""
        filler = self.limited / volume / "filler"
        with open(filler, "wb") as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
                file.flush()
        try:
            yield
        finally:
            filler.unlink()

    # What is in the databases

    def query(self, side: str, statement: str) -> str:
        script = (
            "PGPASSWORD=$(cat /run/secrets/$0_password) psql -XqAt -h 127.0.0.1 -U postgres -d shop -v ON_ERROR_STOP=1"
        )
        return self.compose.exec(side, "sh", "-c", script, side, text=statement).strip()

    def change(self) -> str:
        """Changes several tables as the application does; returns a mark that only this change has."""
        mark = f"m{time.time_ns()}"
        self.query(
            "master",
            f"""SET ROLE application; BEGIN;
            INSERT INTO orders (customer, note) SELECT 1 + i % 20000, '{mark}' FROM generate_series(1, 20) i;
            UPDATE customers SET balance = balance + 1 WHERE id <= 20;
            DELETE FROM keyless WHERE a = (SELECT min(a) FROM keyless);
            INSERT INTO keyless SELECT 1000 + max(a), 'again' FROM keyless; COMMIT""",
        )
        return mark

    def has(self, mark: str) -> bool:
        return self.query("slave", f"SELECT count(*) FROM orders WHERE note = '{mark}'") == "20"

    def changes_arrive(self, limit: float = 300) -> float:
        """Makes a change, waits until the slave has it; returns how many seconds that took."""
        mark, began = until(self.change, limit, "the master accepts changes"), time.monotonic()
        until(lambda: self.has(mark), limit, f"changes arrive; unhealthy: {self.compose.unhealthy()}")
        return time.monotonic() - began

    def is_equal(self) -> None:
        """Each table is the same on both sides, compared here, not by the product."""
        mark = self.change()
        until(lambda: self.has(mark), 300, "changes arrive")
        tables = ("customers", "orders", "lines", "keyless", '"Odd Name"')
        digest = "; ".join(
            f"SELECT '{table}', count(*), md5(string_agg(md5(t::text), '' ORDER BY md5(t::text))) FROM {table} t"
            for table in tables
        )
        assert self.query("master", digest) == self.query("slave", digest)

    def applies_on(self) -> str:
        """The service whose container runs the apply; empty while there is none."""
        host = self.overview()["applied_by"].rpartition(" ")[2]
        hosts = {self.compose.exec(name, "hostname", check=False).strip(): name for name in self.compose.lasting}
        return hosts.get(host, "") if host else ""

    def overview(self) -> dict[str, Any]:
        masters = self.call("GET", "/sluice/overview.json")["masters"]
        return next(one for m in masters if m["prefix"] == "SHOP_" for one in m["slaves"] if one["slave"] == "dr1")
