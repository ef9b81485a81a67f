"""docker-compose.yaml in its own folder, as a newcomer has it, and what its tests ask of it."""

import contextlib
import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.scenarios.production.docker import CommandFailed, Daemon, Project

ROOT = Path(__file__).resolve().parents[3]
IMAGES = Path(__file__).with_name("images")
STAND_INS = {
    "sluice-base": "base",
    "python:3.11-slim-bookworm": "python",
    "postgres:18": "postgres",
    "redis:8-alpine": "redis",
    "chrislusf/seaweedfs:4.48": "s3",
}
DEBIAN = "debian:bookworm-slim"
ADDRESS = "http://127.0.0.1:8080"
UP_SECONDS = 1800.0
HEAL_SECONDS = 900.0
PSQL = "PGPASSWORD=$(cat /run/secrets/$0_password) psql -XqAt -h 127.0.0.1 -U postgres -d shop -v ON_ERROR_STOP=1"
TRANSFER = """WITH taken AS (UPDATE customers SET balance = balance - 1 WHERE id = 20000)
INSERT INTO orders (customer, note) VALUES (20000, 'transfer')"""
"""A transaction in two tables that keeps their sum."""
SUM = """SELECT balance + moved, moved FROM customers, (SELECT count(*) AS moved FROM orders WHERE note = 'transfer') t
WHERE id = 20000"""
PARTS = ("docker-compose.yaml", ".dockerignore", "requirements.lock", "dags", "include", "plugins", "spark_jobs")
LIMITED = {"slave": 900, "redis": 64, "metadata": 500}
"""Volumes that are small, and their megabytes."""
PAIR = {"prefix": "SHOP_", "slave": "dr1"}


def build_stand_ins(daemon: Daemon) -> None:
    """The images that docker-compose.yaml names, from Debian's and PyPI's packages. Existing layers are used again."""
    with tempfile.TemporaryDirectory(prefix="sluice-images-") as folder:
        if daemon.docker("image", "inspect", DEBIAN, check=False).returncode:
            root = Path(folder) / "debian"
            subprocess.run(
                ["debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", root],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            packed = Path(folder) / "debian.tar"
            subprocess.run(["tar", "-C", root, "-cf", packed, "."], check=True)
            daemon.docker("import", packed, DEBIAN)
        contexts = shutil.copytree(IMAGES, Path(folder) / "images")
        # A registry behind a proxy with its own authority is reached as from this machine.
        shutil.copy("/etc/ssl/certs/ca-certificates.crt", contexts / "base")
        for name, context in STAND_INS.items():
            daemon.docker("build", "--tag", name, contexts / context)


def until(true: Callable[[], Any], limit: float, what: str, instead: Callable[[], Any] = str) -> Any:
    """What the question returns once that is true; errors of parts that are away count as no. `instead` tells what is
    at the limit."""
    began, last = time.monotonic(), None
    while time.monotonic() < began + limit:
        try:
            if found := true():
                return found
            last = found
        except (CommandFailed, OSError, ValueError, KeyError, IndexError) as error:
            last = error
        time.sleep(1.0)
    raise AssertionError(f"{what}: not within {limit:.0f} s; last: {last} {instead()}")


class Shape:
    """The production shape with the example, made before the daemon starts, which sees no later mounts."""

    def __init__(self, daemon: Daemon, folder: Path):
        self.daemon, self.folder = daemon, folder
        for part in PARTS:
            source, target = ROOT / part, folder / part
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        self.limited = folder.with_name(f"{folder.name}-volumes")
        for volume, megabytes in LIMITED.items():
            place = self.limited / volume
            place.mkdir(parents=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0755", "tmpfs", place], check=True)
        options = {name: {"type": "none", "o": "bind", "device": str(self.limited / name)} for name in LIMITED}
        volumes = {"volumes": {name: {"driver_opts": value} for name, value in options.items()}}
        (folder / "docker-compose.override.yaml").write_text(json.dumps(volumes))
        self.compose = Project(daemon, folder)

    def bring_up(self) -> None:
        """From nothing but the images of others: the first command builds the one that is lacking."""
        (image,) = {one["image"] for one in self.compose.document["services"].values() if "build" in one}
        self.daemon.docker("image", "rm", "--no-prune", image, check=False)
        self.compose("run", "--rm", "secrets")
        self.said = self.up()

    def up(self) -> str:
        """What `docker compose up` prints until it returns."""
        return self.compose("up", "--no-color", limit=UP_SECONDS)

    def remove(self) -> None:
        """Everything but images, whose layers the next run uses."""
        self.compose("down", "--volumes", "--timeout", "5", check=False, limit=300)
        for volume in LIMITED:
            subprocess.run(["umount", self.limited / volume], check=False)
        shutil.rmtree(self.limited, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    # What a person does

    def call(self, method: str, path: str, body: Any = None) -> Any:
        token = "" if path == "/auth/token" else self.token()
        request = urllib.request.Request(
            ADDRESS + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})},
        )
        try:
            with self.daemon.inside(), urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            raise CommandFailed(f"{method} {path}: {error.code} {error.read().decode()[:1000]}") from None
        return json.loads(text) if text.startswith(("{", "[")) else text

    def password(self) -> str:
        return str(json.loads(self.compose.exec("api-server", "cat", "/var/lib/airflow/passwords.json"))["admin"])

    def token(self) -> str:
        answer = self.call("POST", "/auth/token", {"username": "admin", "password": self.password()})
        return str(answer["access_token"])

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

    def lose(self, *volumes: str) -> None:
        """Removes volumes with their content. Nothing uses them."""
        for volume in volumes:
            self.daemon.docker("volume", "rm", f"{self.compose.document['name']}_{volume}")
            if volume in LIMITED:
                for one in (self.limited / volume).iterdir():
                    shutil.rmtree(one) if one.is_dir() else one.unlink()

    def runs(self) -> int:
        """How many runs of `resync` Airflow knows."""
        return int(self.call("GET", "/api/v2/dags/resync/dagRuns")["total_entries"])

    # What is in the databases

    def query(self, side: str, statement: str) -> str:
        return self.compose.exec(side, "sh", "-c", PSQL, side, text=statement).strip()

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

    def heals(self) -> None:
        """All containers are healthy again by themselves, changes arrive, and both sides are equal."""
        self.works()
        self.is_equal()

    def works(self) -> None:
        """All containers become healthy, and changes arrive."""
        until(lambda: not self.compose.unhealthy(), HEAL_SECONDS, "all become healthy", self.compose.unhealthy)
        self.changes_arrive(HEAL_SECONDS)

    @contextlib.contextmanager
    def watched_transfers(self) -> Iterator[None]:
        """Meanwhile the master keeps a sum by many transactions, and a reader of the slave sees no other sum."""
        with tempfile.TemporaryFile("w+") as seen:
            writer = self._repeat("master", f"SET ROLE application; {TRANSFER}", 0.1, subprocess.DEVNULL)
            reader = self._repeat("slave", SUM, 0.05, seen)
            try:
                yield
                assert (writer.poll(), reader.poll()) == (None, None), "both continue"
            finally:
                for side in ("master", "slave"):
                    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'repeated'"
                    self.query(side, ended)
            writer.wait(60)
            reader.wait(60)
            seen.seek(0)
            lines = seen.read().splitlines()
        states = [tuple(map(float, line.split("|"))) for line in lines if "|" in line]
        assert len({count for _, count in states}) > 20, "the reader sees changes"
        assert len({total for total, _ in states}) == 1, "each state is one of the master"
        counts = [count for _, count in states]
        assert counts == sorted(counts), "no state comes back"

    def _repeat(self, side: str, statement: str, pause: float, output: Any) -> "subprocess.Popen[str]":
        process = self.compose.open("exec", "--no-TTY", side, "sh", "-c", PSQL, side, output=output)
        assert process.stdin
        process.stdin.write(f"SET application_name = 'repeated'; {statement} \\watch {pause}\n")
        process.stdin.close()
        return process

    def images(self) -> dict[str, str]:
        """The image of each service's container."""
        return {name: str(one["Image"]) for name, one in self.compose.containers().items()}

    @contextlib.contextmanager
    def movable_clock(self) -> Iterator[Callable[[int], None]]:
        """Meanwhile a call moves the clock of all containers, so many seconds from this machine's."""
        place = self.limited / "clock"
        place.mkdir()

        def move(seconds: int) -> None:
            (place / "new").write_text(f"{seconds:+d}\n")
            (place / "new").rename(place / "offset")  # as a whole: everybody reads it all the time

        self.daemon.docker("build", "--tag", "sluice-clock", IMAGES / "clock")
        self.daemon.docker("run", "--rm", "--volume", f"{place}:/made", "sluice-clock", "cp", "/clock.so", "/made")
        move(0)
        loaded = {"environment": {"LD_PRELOAD": "/clock/clock.so"}, "volumes": [f"{place}:/clock:ro"]}
        services = {"services": dict.fromkeys(self.compose.lasting, loaded)}
        (self.folder / "clock.yaml").write_text(json.dumps(services))
        files = ("docker-compose.yaml", "docker-compose.override.yaml", "clock.yaml")
        (self.folder / ".env").write_text(f"COMPOSE_FILE={':'.join(files)}\n")
        try:
            self.compose("up", "--detach")
            yield move
        finally:
            (self.folder / ".env").unlink()

    def applies_on(self) -> str:
        """The service whose container runs the apply; empty while there is none."""
        host = self.overview()["applied_by"].rpartition(" ")[2]
        hosts = {self.compose.exec(name, "hostname", check=False).strip(): name for name in self.compose.lasting}
        return hosts.get(host, "") if host else ""

    def overview(self) -> dict[str, Any]:
        masters = self.call("GET", "/sluice/overview.json")["masters"]
        return next(one for m in masters if m["prefix"] == "SHOP_" for one in m["slaves"] if one["slave"] == "dr1")
