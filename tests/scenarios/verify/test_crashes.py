"""Crashes in the middle of a comparison or a repair: it is reported, nothing stays locked, the next run works."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from devstack.process import ProcessId, descendants
from devstack.server import Server
from sluice.vendors.postgres.connection import connect
from tests.rig.rig import Rig
from tests.scenarios.faults.applies import REPOSITORY, Applies
from tests.scenarios.faults.servers import Servers
from tests.scenarios.verify.job import HELD
from tests.waiting import until
from workload.faults.freezer import Freezer
from workload.faults.proxy import Proxy

T = "CREATE TABLE public.t (id int PRIMARY KEY, v text)"
HOLDING = """SELECT application_name, state FROM pg_stat_activity WHERE datname = current_database()
AND (application_name LIKE '% verify' OR application_name LIKE '% at a position') AND xact_start IS NOT NULL"""
LEASE = "sluice:DEMO_:dr1:lease"
NOT_COMPARED = "could not compare"


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with Servers() as running:
        yield running


class Scene:
    """A pair whose slave has differences, its apply, and a job that verifies or repairs it."""

    def __init__(self, servers: Servers, folder: Path, name: str, stack: ExitStack):
        self.servers, self.stack = servers, stack
        for server in (servers.master, servers.slave):
            server.create_database(name)  # type: ignore[union-attr]
        self.infos = {"m": servers.master.info(name), "s": servers.slave.info(name)}
        both = iter(self.infos.values())
        rig = Rig.normal(lambda **_: next(both), servers.redis.url, folder, T)
        rig.master.execute("INSERT INTO public.t SELECT i, 'v' || i FROM generate_series(1, 2000) i; ANALYZE public.t")
        self.rig, self.folder = rig, folder
        self.links = {"m": Proxy(servers.master.port), "s": Proxy(servers.slave.port)}
        for link in self.links.values():
            stack.callback(link.close)
        base = {"prefix": "DEMO_", "slave": "dr1", "redis_url": servers.redis.url}
        direct = {conn: info.to_dict() for conn, info in self.infos.items()}
        self.applies = Applies({**base, "connections": direct, "spark": {}, "executors": False}, folder)
        stack.callback(self.applies.kill)
        self.applies.start()
        rig.await_current()
        rig.slave.execute("UPDATE public.t SET v = 'spoilt' WHERE id <= 6")
        through = {conn: {**info, "port": self.links[conn].port} for conn, info in direct.items()}
        self.values = {**base, "connections": through, "silent": 2.0, "wait": 4.0, "idle": 3.0}
        self.job: subprocess.Popen[str] | None = None
        self.freezer = Freezer()

    def session(self, conn: str) -> "psycopg.Connection[Any]":
        made = connect(self.infos[conn], application="test", autocommit=True)
        self.stack.callback(made.close)
        return made

    def start(self, action: str, *, hold: bool = False) -> None:
        self.job = subprocess.Popen(
            [sys.executable, "-m", "tests.scenarios.verify.job"], text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'plugins'}"},
        )  # fmt: skip
        self.stack.callback(self.job.kill)
        assert self.job.stdin is not None
        json.dump({**self.values, "action": action, "hold": hold}, self.job.stdin)
        self.job.stdin.close()

    def told(self) -> dict[str, Any]:
        """The final message of the job; empty if it was killed. It ends in no other way."""
        assert self.job is not None and self.job.stdout is not None
        status = self.job.wait(300)
        text = self.job.stdout.read()
        if status == -signal.SIGKILL:
            return {}
        assert status == 0, text
        return dict(json.loads(text))

    # -- striking

    def strike(self, what: str) -> None:
        how, _, whom = what.partition(" ")
        if whom in ("master", "slave"):
            server: Server = self.servers.all[whom]
            if how == "kill":
                server.kill()
            elif how == "freeze":
                process = server.process()
                assert process is not None
                assert self.freezer.freeze(whom, descendants(process.pid))
            else:
                assert self.links[whom[0]].cut()
            return
        apply = self.applies.current
        assert self.job is not None and apply is not None
        struck = ProcessId.of(self.job.pid if whom == "job" else apply.child.pid)
        assert struck is not None
        if how == "freeze":
            assert self.freezer.freeze(whom, [struck])
        else:
            struck.send(signal.SIGKILL)

    def fix(self) -> None:
        self.freezer.thaw_all()
        self.servers.start_all()
        until(lambda: self._alive("m") and self._alive("s"))

    def _alive(self, conn: str) -> bool:
        try:
            with connect(self.infos[conn], application="test", autocommit=True):
                return True
        except Exception:
            return False

    # -- afterwards

    def nothing_is_held(self, seconds: float = 40.0) -> None:
        with redis.Redis.from_url(self.servers.redis.url, decode_responses=True) as store:
            until(lambda: not store.keys("sluice:DEMO_:dr1:request:*"), seconds)
        for conn in self.infos:
            session = self.session(conn)
            until(lambda s=session: not s.execute(HOLDING).fetchall(), seconds)  # type: ignore[misc]

    def goes_on(self) -> None:
        """Checks that the apply applies, that the next run repairs, and that the one after it finds nothing."""
        rig = Rig(self.rig.pair, self.rig.redis_url, self.rig.store, self.session("m"), self.session("s"))
        rig.master.execute("INSERT INTO public.t VALUES (5000, 'new')")

        def current() -> bool:
            self.applies.tend()
            return rig.slave.execute("SELECT FROM public.t WHERE id = 5000").fetchone() is not None

        until(current, 60)
        self.start("repair")
        assert self.told()["outcome"] == "identical"
        assert rig.differences() == {}


@pytest.fixture
def scene(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Scene]:
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    with redis.Redis.from_url(servers.redis.url) as store:
        store.flushall()
    with ExitStack() as stack:
        number = abs(hash(request.node.name)) % 10**8
        made = Scene(servers, tmp_path, f"crash_{number}", stack)
        stack.callback(made.fix)
        yield made


@pytest.mark.one_in(10)
@pytest.mark.parametrize(
    ("what", "outcome"),
    [
        ("kill master", NOT_COMPARED),
        ("kill slave", NOT_COMPARED),
        ("freeze master", NOT_COMPARED),
        ("freeze slave", NOT_COMPARED),
        ("cut master", NOT_COMPARED),
        ("cut slave", NOT_COMPARED),
        ("kill apply", "different"),  # whose snapshots were taken over
        ("freeze apply", "different"),
        ("kill job", None),
        ("freeze job", NOT_COMPARED),  # once it thaws
    ],
)
def test_in_the_middle_of_a_comparison(scene: Scene, what: str, outcome: str | None) -> None:
    holders = [scene.session(conn) for conn in scene.infos]
    for holder in holders:
        holder.execute("SELECT pg_advisory_lock(%s)", [HELD])
    waiting = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted"
    scene.start("verify", hold=True)
    for holder in holders:
        until(lambda h=holder: h.execute(waiting, [HELD]).fetchone() is not None)  # type: ignore[misc]
    scene.strike(what)
    told: dict[str, Any] = {}
    if what == "freeze job":
        # Its statements end, and nobody asks for more.
        for holder in holders:
            holder.close()
        scene.nothing_is_held()
        scene.fix()
    elif what in ("freeze master", "freeze slave"):
        told = scene.told()
        scene.fix()
    for holder in holders:
        holder.close()
    told = told or scene.told()
    assert told.get("outcome") == outcome
    if outcome == NOT_COMPARED:
        assert told["reason"]
    if what == "freeze apply":
        scene.nothing_is_held()
    scene.fix()
    scene.nothing_is_held()
    scene.goes_on()


@pytest.mark.long
@pytest.mark.parametrize(
    "what",
    [
        "kill apply",
        "kill master",
        "kill slave",
        "kill job",
        "freeze job",
        "freeze apply",
    ],
)
def test_before_the_apply_answers(scene: Scene, what: str) -> None:
    apply = scene.applies.current
    assert apply is not None
    os.kill(apply.child.pid, signal.SIGSTOP)
    with redis.Redis.from_url(scene.servers.redis.url) as store:
        assert store.persist(LEASE)  # else nobody would ask a frozen apply
        scene.values["silent"] = 30.0  # no server is frozen here: a busy machine is no silent server
        scene.start("verify")
        until(lambda: bool(store.keys("sluice:DEMO_:dr1:request:*")))
        scene.strike(what)
        told = scene.told() if what != "freeze job" else {}
        store.delete(LEASE)
        if what != "kill apply":
            os.kill(apply.child.pid, signal.SIGCONT)
        if what == "freeze job":  # the apply answers it, and the servers end what was taken for it
            until(lambda: not store.keys("sluice:DEMO_:dr1:request:*"))
    scene.fix()
    scene.nothing_is_held()
    if what == "kill job":
        assert told == {}
    elif what == "freeze job":  # once it thaws, it may compare without the apply
        told = scene.told()
        assert told["outcome"] == "different" or told["reason"], told
    else:
        assert told["outcome"] == NOT_COMPARED and told["reason"], told
    scene.goes_on()


@pytest.mark.long
@pytest.mark.parametrize(
    "what",
    [
        "kill apply",
        "freeze apply",
        "kill master",
        "kill slave",
        "freeze slave",
        "kill job",
        "freeze job",
    ],
)
def test_in_the_middle_of_a_repair(scene: Scene, what: str) -> None:
    """The apply repairs two rows at a time; it is at the third and fourth."""
    holder = scene.session("s")
    waiting = "SELECT FROM pg_locks WHERE NOT granted"
    holder.execute("BEGIN")
    holder.execute("SELECT FROM public.t WHERE id = 4 FOR UPDATE")
    scene.start("repair")
    other = scene.session("s")
    until(lambda: other.execute(waiting).fetchone() is not None)
    repaired = other.execute("SELECT count(*) FROM public.t WHERE id <= 6 AND v <> 'spoilt'").fetchone()
    assert repaired == (2,)
    scene.strike(what)
    # A frozen job says it once it thaws.
    told = scene.told() if what != "freeze job" else {}
    scene.fix()
    with suppress(psycopg.Error):  # the slave that was killed has ended it
        holder.execute("ROLLBACK")
    scene.nothing_is_held()
    if what == "freeze job":
        told = scene.told()
        assert told["outcome"] == "identical" or told["refused"], told
    elif what == "kill job":
        assert told == {}
    else:
        # Without an apply, the slave is compared where it stands.
        assert told["outcome"] == ("different" if "apply" in what else NOT_COMPARED), told
        assert told["repaired"] == 2, told
        assert "repaired 2 of 6 rows, the others not" in told["refused"]
    scene.goes_on()
