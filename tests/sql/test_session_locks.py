"""Locks by name: one session of the account at a time has one, and nobody else can hold or prevent it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest

from sluice.database.control import LoadRuns
from sluice.database.errors import DatabaseError, LockNotAvailable
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.vendors.postgres import sessions
from sluice.vendors.postgres.connection import PostgresSession
from sluice.vendors.postgres.target import load_ownership

P = Prefix("DEMO_")
NAMES = (
    "sluice load DEMO_ dr1", "sluice load job j", "sluice load claims DEMO_ dr1", "sluice load limits DEMO_ dr1",
    "sluice ddl DEMO_ dr1", "sluice definitions DEMO_ dr1", "load DEMO_ dr1", "load job j", "ddl DEMO_ dr1",
)  # fmt: skip
"""What somebody could guess."""


@pytest.fixture
def session(database: Callable[..., ConnectionInfo]) -> Iterator[Callable[[], PostgresSession]]:
    """Makes sessions of the slave's account, which is no superuser."""
    info = database(role=True)
    made: list[PostgresSession] = []

    def connect() -> PostgresSession:
        made.append(sessions.connect(info, application="test", autocommit=True))
        return made[-1]

    yield connect
    for each in made:
        each.close()


@contextmanager
def stranger(database: Callable[..., ConnectionInfo], place: PostgresSession) -> Iterator[psycopg.Connection[object]]:
    """A session of a role that may connect, and nothing else."""
    other = database(role=True)
    with psycopg.connect(
        host=other.host, port=other.port, user=other.user, password=other.password,
        dbname=place.info.dbname, autocommit=True,
    ) as connection:  # fmt: skip
        yield connection


def test_locks_that_anybody_may_take_stop_no_load_and_no_apply(
    database: Callable[..., ConnectionInfo], session: Callable[[], PostgresSession]
) -> None:
    job, loader = session(), session()
    with stranger(database, job) as mischief:
        for name in NAMES:
            mischief.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [name])
            mischief.execute("SELECT pg_advisory_lock(hashtext(%s))", [name])
            mischief.execute("SELECT pg_advisory_lock(hashtext(%s), n) FROM generate_series(-50, 50) n", [name])
        load_ownership.lock(job, P, "dr1")
        load_ownership.hold(job, "j")
        with loader.transaction():
            assert load_ownership.claiming(loader, P, "dr1", "j")
            load_ownership.claim_in_turn(loader, P, "dr1")
        with job.transaction():
            load_ownership.no_claims(job, P, "dr1")
        with sessions.named_lock(loader, "sluice ddl DEMO_ dr1"):
            # What it saw in pg_locks, once that is free again.
            seen = mischief.execute(
                "SELECT classid::bigint::bit(32)::int, objid::bigint::bit(32)::int FROM pg_locks "
                "WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
            ).fetchall()
        assert len(seen) >= 3
        load_ownership.let_go(job, "j")
        job.close()
        for place, number in seen:
            mischief.execute("SELECT pg_advisory_lock(%s, %s)", [place, number])
        with loader.transaction():
            assert not load_ownership.claiming(loader, P, "dr1", "j")
        load_ownership.lock(loader, P, "dr1")
        with sessions.named_lock(loader, "sluice ddl DEMO_ dr1"):
            pass


def test_a_lock_belongs_to_one_session_of_the_account_until_that_ends(session: Callable[[], PostgresSession]) -> None:
    first, second = session(), session()
    load_ownership.lock(first, P, "dr1")
    load_ownership.lock(second, P, "dr2")
    with pytest.raises(LoadRuns, match=f"session {first.info.backend_pid} of "):
        load_ownership.lock(second, P, "dr1")
    load_ownership.hold(first, "j")
    with second.transaction():
        assert load_ownership.claiming(second, P, "dr1", "j")
    first.close()
    _until_taken(lambda: load_ownership.lock(second, P, "dr1"))
    with second.transaction():
        assert not load_ownership.claiming(second, P, "dr1", "j")


def _until_taken(take: Callable[[], None]) -> None:
    while True:
        with suppress(LoadRuns):
            return take()
        time.sleep(0.05)


def test_claims_and_the_job_that_allows_none_exclude_each_other(session: Callable[[], PostgresSession]) -> None:
    job, loader, another = session(), session(), session()
    load_ownership.hold(job, "j")
    given_back: list[bool] = []

    def give_back() -> None:
        with job.transaction():
            load_ownership.no_claims(job, P, "dr1")
            given_back.append(True)
            go_on.wait()

    go_on = threading.Event()
    thread = threading.Thread(target=give_back)
    with loader.transaction(), another.transaction():
        assert load_ownership.claiming(loader, P, "dr1", "j")
        assert load_ownership.claiming(another, P, "dr1", "j"), "claims do not exclude each other"
        thread.start()
        while not sessions.holders(loader, "no load claims DEMO_ dr1"):
            time.sleep(0.02)
        assert not given_back
    while not given_back:
        time.sleep(0.02)
    with pytest.raises(LockNotAvailable), loader.transaction():
        load_ownership.claiming(loader, P, "dr1", "j")
    go_on.set()
    thread.join()
    with loader.transaction():
        assert load_ownership.claiming(loader, P, "dr1", "j")


@pytest.mark.parametrize("beyond", ["transaction", "session"])
def test_never_two_have_it(session: Callable[[], PostgresSession], beyond: str) -> None:
    inside, most, turns = 0, 0, 0
    failures: list[BaseException] = []
    links = [session() for _ in range(5)]

    def work(connection: PostgresSession) -> None:
        nonlocal inside, most, turns
        try:
            for _ in range(6):
                with connection.transaction():
                    if beyond == "transaction":
                        sessions.lock_transaction(connection, "x")
                    else:
                        while not sessions.take(connection, "x"):
                            time.sleep(0.01)
                    inside += 1
                    most = max(most, inside)
                    time.sleep(0.003)
                    turns += 1
                    inside -= 1
                if beyond == "session":
                    sessions.release(connection, "x")
        except (DatabaseError, AssertionError) as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(link,)) for link in links]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and most == 1 and turns == 30
    assert links[0].execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (0,)


def test_a_lock_leaves_no_transaction_open(database: Callable[..., ConnectionInfo]) -> None:
    """Else what the session commits afterwards would be a part of it, and be lost with it."""
    idle = psycopg.pq.TransactionStatus.IDLE
    with sessions.connect(database(), application="test") as connection:
        with sessions.named_lock(connection, "a"):
            assert connection.info.transaction_status is idle
        assert sessions.take(connection, "b")
        assert sessions.holders(connection, "b") == []
        sessions.release(connection, "b")
        assert connection.info.transaction_status is idle
        with connection.transaction(), sessions.named_lock(connection, "c"):
            connection.execute("CREATE TABLE public.made ()")
        assert connection.info.transaction_status is idle
