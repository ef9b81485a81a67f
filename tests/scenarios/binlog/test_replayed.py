"""What is recorded of a MariaDB master is applied by the apply of any other stream, into slaves of two vendors."""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql
import pytest

from sluice import config
from sluice.control.checkpoint import CheckpointStore
from sluice.control.rejects import RejectStore
from sluice.coordination import redis_store
from sluice.database.registry import vendor_of
from sluice.executor import ThreadExecutor
from sluice.model.connection import ConnectionInfo
from sluice.pair import Pair
from sluice.vendors.stream.position import StreamPosition
from sluice.vendors.stream.session import StreamSession
from sluice.vendors.stream.source import StreamQueue
from tests.rig.applying import Applying
from tests.scenarios.binlog.master import Master
from tests.scenarios.binlog.normal import normal
from tests.scenarios.binlog.test_recorder import command
from tests.waiting import until

CONFIG = """
prefix: REC_
master: {{capture: stream, location: {location}}}
slaves:
  dr1: {{conn_id: s, vendor: {vendor}, on_drop: drop{options}}}
tables: {{public.*: {{}}}}
apply: {{lease: 2.0, checkpoint_interval: 0.1}}
"""
COLUMNS = (
    "id bigint unsigned primary key, a int, b varchar(200), c decimal(20,4), d datetime(6), e double, f varbinary(40), "
    "g enum('x','it''s'), h tinyint(1), i date, UNIQUE (a)"
)
NAMES = {"t": "id, a, b, c, d, e, f, g, h, i", "nk": "a, b"}
"""The columns that are compared."""


class Replay:
    """The slave of a stream, with an apply in this process."""

    def __init__(self, folder: Path, vendor: str, slave: ConnectionInfo, redis_url: str, *, options: str = ""):
        file = Path(os.environ["SLUICE_REPLICATIONS"]) / "REC.yaml"
        file.write_text(CONFIG.format(location=folder, vendor=vendor, options=options))
        self.pair = Pair.of(config.load("REC_"), "dr1", {"s": slave})
        self.redis_url, self.redis = redis_url, redis_store.connect(redis_url)
        self.folder, self.slave = folder, slave
        self.failure: BaseException | None = None
        self.raised: BaseException | None = None
        self.session = vendor_of(vendor).sessions.connect(slave, application="test", autocommit=True)

    def apply(self) -> None:
        """Applies up to the stream's end."""
        with Applying(self, ThreadExecutor(2)):
            self.await_current()

    def await_current(self) -> None:
        """Returns when a running apply has the stream's end. Raises what ended it."""
        end = StreamQueue(StreamSession(self.folder), self.pair.prefix, "").take()
        until(lambda: self.failure is not None or self._covers(end))
        if self.failure is not None:
            self.raised = self.failure
            raise self.failure

    def _covers(self, end: StreamPosition) -> bool:
        store = CheckpointStore.of(self.pair, self.session)
        if not store.exists():
            return False
        found = store.read()
        if found is None or found.catching_up or found.position is None:
            return False
        return StreamPosition.of(found.position).covers_all_of(end)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        place = f'public."{table}"' if self.slave.vendor == "postgres" else f'"{table}"'
        query = f"SELECT {NAMES[table]} FROM {place}"
        return normal(self.session.execute(query.encode()).fetchall())


def write(master: Master, chance: random.Random, transactions: int) -> None:
    """Random transactions, of which some change and swap keys, and some are undone."""
    key = lambda: chance.randint(1, 40)  # noqa: E731
    for _ in range(transactions):
        master.run("BEGIN")
        for _ in range(chance.randint(1, 5)):
            a, b = key(), key()
            row = f"{b}, '<&>''é {b}', {b}.25, '2026-11-29 01:02:03.{b:06}', {b} / 7, x'00{b:02x}', 'it''s', {b}"
            kinds = [
                [f"REPLACE INTO t VALUES ({a}, {row}, '2026-02-28')"],
                [f"REPLACE INTO t (id, a) VALUES ({a}, NULL)"],
                [f"UPDATE IGNORE t SET a = {b}, b = repeat('€', {b}) WHERE id = {a}"],
                [f"UPDATE t SET id = {new} WHERE id = {old}" for old, new in ((a, 1000), (b, a), (1000, b))],
                [f"DELETE FROM t WHERE id = {a}"],
                [f"INSERT INTO nk VALUES ({a}, 0.5), ({a}, NULL)"],
                [f"DELETE FROM nk WHERE a = {b} LIMIT 1"],
            ]
            master.run(*chance.choice(kinds))
        master.run("ROLLBACK" if chance.random() < 0.2 else "COMMIT")


def expect_equal(master: Master, replay: Replay) -> None:
    for table, names in NAMES.items():
        assert replay.rows(table) == normal(master.run(f"SELECT {names} FROM {table}")), table


def test_a_slave_is_equal_after_random_transactions_definitions_and_a_killed_recorder(
    master: Master, slave: tuple[str, ConnectionInfo], redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    master.record()
    chance = random.Random(4)
    master.run("SET time_zone = '+00:00'")
    master.run(f"CREATE TABLE t ({COLUMNS})", "CREATE TABLE nk (a int, b double)", "INSERT INTO nk VALUES (0, 0)")
    master.run("INSERT INTO t (id) VALUES (0)")
    replay = Replay(master.folder, *slave, redis_url)
    write(master, chance, 30)
    master.record()
    replay.apply()
    expect_equal(master, replay)
    with command(master) as process:
        write(master, chance, 30)
        process.send_signal(signal.SIGKILL)
    master.run("ALTER TABLE t ADD COLUMN later int NOT NULL DEFAULT 7", "ALTER TABLE t CHANGE b renamed text")
    master.run("INSERT INTO t (id, renamed) VALUES (5000, 'new')", "TRUNCATE nk", "INSERT INTO nk VALUES (1, 1)")
    master.run("RENAME TABLE nk TO other", "CREATE TABLE nk AS SELECT 5 AS a, 0.5e0 AS b", "DROP TABLE other")
    master.record()
    replay.apply()
    monkeypatch.setitem(NAMES, "t", NAMES["t"].replace("b,", "renamed, later,"))
    expect_equal(master, replay)
    assert not list(CheckpointStore.of(replay.pair, replay.session).configured().tables), "no table is left out"


@pytest.mark.parametrize("change", ["INSERT INTO t VALUES (2, 'a\\0b')", "UPDATE t SET v = 'a\\0b'"])
def test_what_a_slave_cannot_hold_leaves_its_table_out_alone(
    master: Master, database: Callable[..., ConnectionInfo], redis_url: str, tmp_path: Path, change: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """PostgreSQL's texts have no 0x00, and a table whose columns are all computed has nothing to replicate."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    master.record()
    master.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(9))", "CREATE TABLE nk (a int, b double)")
    master.run("CREATE TABLE computed (a int AS (1) VIRTUAL, b int AS (2) STORED)", "INSERT INTO computed () VALUES ()")
    master.run("INSERT INTO t VALUES (1, 'a')", "INSERT INTO nk VALUES (1, 1)", change, "INSERT INTO nk VALUES (2, 2)")
    master.record()
    replay = Replay(master.folder, "postgres", database(), redis_url, options=", on_error: isolate")
    replay.apply()
    assert replay.rows("nk") == normal(master.run("SELECT a, b FROM nk"))
    (reason,) = CheckpointStore.of(replay.pair, replay.session).configured().tables.reasons.values()
    assert "0x00" in reason
    told = {one.table.name: one.reason for one in RejectStore.of(replay.pair, replay.session).differing()}
    assert "computed" in told["computed"]


@pytest.mark.parametrize(
    ("charset", "name"),
    [
        ("latin1", "bé"),
        ("sjis", "ソ表"),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in (("cp1251", "бя"), ("ujis", "あ龖"), ("gbk", "数誠"))
        ),
    ],
)
def test_statements_are_read_in_the_character_set_of_their_session(
    master: Master, database: Callable[..., ConnectionInfo], redis_url: str, tmp_path: Path, charset: str, name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    master.record()
    info = master.server.info(master.database)
    session = pymysql.connect(
        host=info.host, port=info.port, user=info.user, password=info.password, database=master.database,
        charset=charset, autocommit=True,
    )  # fmt: skip
    master.run(f"CREATE TABLE `{name}` (id int PRIMARY KEY)", f"INSERT INTO `{name}` VALUES (1)", on=session)
    master.run("CREATE TABLE other (id int PRIMARY KEY)", "INSERT INTO other VALUES (1)")
    master.run("SAVEPOINT a", f"ALTER TABLE `{name}` ADD `{name}` varchar(9) DEFAULT '{name}'", on=session)
    master.run(
        f"INSERT INTO `{name}` (id) VALUES (2)", "TRUNCATE other", f"RENAME TABLE other TO `{name}{name}`", on=session
    )
    master.run(f"INSERT INTO `{name}{name}` VALUES (3)", on=session)
    session.close()
    master.record()
    replay = Replay(master.folder, "postgres", database(), redis_url)
    replay.apply()
    assert replay.session.execute(f'SELECT * FROM public."{name}" ORDER BY id'.encode()).fetchall() == [
        (1, name),
        (2, name),
    ]
    assert replay.session.execute(f'SELECT * FROM public."{name}{name}"'.encode()).fetchall() == [(3,)]


@pytest.fixture
def replay(
    master: Master, slave: tuple[str, ConnectionInfo], redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Replay:
    """A slave of a stream that has begun."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    master.record()
    return Replay(master.folder, *slave, redis_url)


@pytest.mark.long
def test_what_is_told_of_a_table_goes_with_its_name(master: Master, replay: Replay) -> None:
    """It was told of another table, or of one that was gone, and the table that differs was not named."""

    def differing() -> dict[str, str]:
        master.record()
        replay.apply()
        return {one.table.name: one.reason for one in RejectStore.of(replay.pair, replay.session).differing()}

    for name in ("t", "u"):
        master.run(f"CREATE TABLE {name} (id int PRIMARY KEY, c decimal(9,2))", f"INSERT INTO {name} VALUES (1, 1.25)")
    rounded = (
        "ALTER TABLE t MODIFY c int",
        "ALTER TABLE t MODIFY c decimal(9,2)",
        "INSERT INTO t VALUES (2, 2)",
    )
    swapped = "RENAME TABLE t TO x, u TO t, x TO u"
    master.run(*rounded)
    assert differing().keys() == {"t"}
    master.run(swapped)
    told = differing()
    assert told.keys() == {"u"}
    assert '"public.u"' in told["u"]
    assert "public.t" not in told["u"]
    # In one window.
    master.run(*rounded, "RENAME TABLE t TO v")
    assert differing().keys() == {"u", "v"}
    master.run("DROP TABLE u", *(each.replace(" t", " v") for each in rounded[:2]), "DROP TABLE v")
    assert differing() == {}


@pytest.mark.long
def test_a_table_that_is_told_to_differ_stops_no_other_at_its_next_change(master: Master, replay: Replay) -> None:
    master.run("CREATE TABLE t (id int PRIMARY KEY, c decimal(9,2))", "INSERT INTO t VALUES (1, 1.25)")
    master.run("CREATE TABLE u (id int PRIMARY KEY)", "ALTER TABLE t MODIFY c varbinary(20)")
    master.record()
    with Applying(replay, ThreadExecutor(2)) as running:
        replay.await_current()
        assert [one.table.name for one in RejectStore.of(replay.pair, replay.session).differing()] == ["t"]
        until(lambda: running.in_normal_mode)
        # The value that this change expects is not there.
        master.run("UPDATE t SET c = 'another' WHERE id = 1", "INSERT INTO u VALUES (1)")
        master.record()
        replay.await_current()
    place = "public.u" if replay.slave.vendor == "postgres" else "u"
    assert [tuple(row) for row in replay.session.execute(f"SELECT id FROM {place}".encode()).fetchall()] == [(1,)]
    states = CheckpointStore.of(replay.pair, replay.session).configured().tables
    assert [table.name for table in states.reasons] == ["t"]
