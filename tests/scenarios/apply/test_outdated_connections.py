"""The password or the address of a database changes while an apply runs with the old one."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from sluice.apply import escalation
from sluice.coordination.gate import ERROR, Gate
from sluice.database.errors import LoginRefused
from sluice.model.names import TableName
from sluice.pair import ConnectionsOutdated, Pair
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import Outcome
from sluice.verify.resync import compare_table
from tests.rig.rig import Rig

TABLE = "CREATE TABLE public.t (id int PRIMARY KEY, a text)"


@pytest.fixture
def pair(rig: Callable[..., Rig]) -> Rig:
    """A pair whose slave's account is no superuser: it changes its own password."""
    return rig(TABLE, slave_role=True)


def with_password(pair: Pair, password: str) -> Pair:
    return replace(pair, slave_info=replace(pair.slave_info, password=password))


def change_password(pair: Rig) -> Pair:
    """Changes the password of the slave's account; returns the pair with the new one."""
    pair.slave.execute("ALTER ROLE CURRENT_USER PASSWORD 'the new one'")
    return with_password(pair.pair, "the new one")


def disconnect(pair: Rig) -> None:
    """Ends the apply's sessions on the slave."""
    ended = pair.slave.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name LIKE 'sluice DEMO%' AND datname = current_database()"
    ).fetchall()
    assert ended


def closures(pair: Rig) -> list[str]:
    return [closure.name for closure in Gate(pair.store, pair.pair.prefix, pair.name).closures()]


def test_an_apply_with_an_outdated_password_ends_and_restarts_with_the_new_one(pair: Rig) -> None:
    pair.master.execute("INSERT INTO public.t VALUES (1, 'before')")
    with (
        pytest.raises(ConnectionsOutdated, match=r"authentication failed.* Airflow has them"),
        pair.apply(),
    ):
        pair.await_current()
        new = change_password(pair)
        disconnect(pair)
        pair.await_that(lambda: False)
    assert closures(pair) == []
    pair.master.execute("INSERT INTO public.t VALUES (2, 'after')")
    pair.pair = new
    with pair.apply():
        pair.await_current()
    assert pair.slave.execute("SELECT * FROM public.t ORDER BY id").fetchall() == [(1, "before"), (2, "after")]


@pytest.mark.long
def test_a_comparison_with_the_new_password_ends_an_apply_that_has_the_former_one(pair: Rig) -> None:
    pair.master.execute("INSERT INTO public.t VALUES (1, 'a')")
    with pytest.raises(ConnectionsOutdated), pair.apply() as running:
        pair.await_normal_mode(running)
        new = change_password(pair)
        finding = compare_table(new, pair.store, TableName("public", "t"), CompareOptions(frozenset("idu")))
        pair.await_that(lambda: False)
    assert finding.outcome is Outcome.IDENTICAL
    assert closures(pair) == []


def test_a_wrong_password_closes_the_gate_and_needs_a_person(pair: Rig) -> None:
    pair.pair = with_password(pair.pair, "not this one")
    with pytest.raises(LoginRefused), pair.apply():
        pair.await_that(lambda: False)
    assert closures(pair) == [ERROR]


def test_after_a_long_outage_the_job_ends_and_restarts_with_current_connections(
    pair: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(escalation, "LONG_OUTAGE_SECONDS", 0.4)
    pair.pair = replace(pair.pair, slave_info=replace(pair.pair.slave_info, port=1))
    with pytest.raises(ConnectionsOutdated, match=r"not reachable.* Airflow has them"), pair.apply():
        pair.await_that(lambda: False)
    assert closures(pair) == []
