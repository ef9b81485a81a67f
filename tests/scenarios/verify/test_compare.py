"""A slave that others wrote to, compared with its master while both are written to."""

from collections.abc import Callable

import pytest

from sluice.coordination import redis_store
from sluice.coordination.gate import Gate
from sluice.coordination.lease import Lease
from sluice.database.digests import Method
from sluice.model.names import TableName
from sluice.verify import apply_client
from sluice.verify.compare import CompareOptions, compare
from sluice.verify.findings import CouldNotCompare, Kind, Outcome
from sluice.verify.pinned_sessions import at_one_position
from sluice.verify.resync import compare_table
from tests.errors import raises_code
from tests.rig.rig import Rig
from tests.scenarios.verify.verifying import Traffic, counts, look

T = "CREATE TABLE public.t (id bigint PRIMARY KEY, v text, n numeric(10,2), at timestamptz DEFAULT now())"
FILL = "INSERT INTO public.t SELECT i, 'v' || i, i FROM generate_series(1, {rows}) i"
CHURN = """
INSERT INTO public.t SELECT 1000000 * (1 + {writer}) + {turn} * 100 + i, 'new' FROM generate_series(1, 50) i;
UPDATE public.t SET v = v || '!' WHERE id BETWEEN 1000000 * (1 + {writer}) + {turn} * 100 - 60
   AND 1000000 * (1 + {writer}) + {turn} * 100 - 31;
DELETE FROM public.t WHERE id BETWEEN 1000000 * (1 + {writer}) + {turn} * 100 - 280
   AND 1000000 * (1 + {writer}) + {turn} * 100 - 261"""


def test_equal_tables_are_identical(rig: Callable[..., Rig]) -> None:
    pair = rig(T)
    with pair.apply():
        pair.master.execute(FILL.format(rows=10_000))
        finding = look(pair, "t")
    assert finding.outcome is Outcome.IDENTICAL
    assert finding.rows_master == finding.rows_slave == 10_000
    assert finding.blocks_different == 0 and not finding.examples


def test_differences_made_by_hand_are_found_under_traffic_and_nothing_else_is(rig: Callable[..., Rig]) -> None:
    pair = rig(T)
    pair.master.execute(FILL.format(rows=20_000))
    with pair.apply():
        pair.await_current()
        pair.master.execute("ANALYZE public.t")
        with Traffic(pair, CHURN, rows=100):
            for _ in range(2):
                assert counts(look(pair, "t")) == {}
            pair.slave.execute("UPDATE public.t SET v = 'spoilt' WHERE id IN (1, 777, 20000)")
            pair.slave.execute("DELETE FROM public.t WHERE id IN (500, 501)")
            pair.slave.execute("INSERT INTO public.t VALUES (0, 'mine', 1), (900000, 'mine', 1), (-5, 'mine', 1)")
            findings = [look(pair, "t") for _ in range(3)]
    for finding in findings:
        assert counts(finding) == {"missing": 2, "extra": 3, "different": 3}
        assert {key for (key,) in finding.found[Kind.MISSING].keys} == {"500", "501"}
        assert {key for (key,) in finding.found[Kind.EXTRA].keys} == {"0", "900000", "-5"}
        assert {key for (key,) in finding.found[Kind.DIFFERENT].keys} == {"1", "777", "20000"}
        assert finding.columns == {"v": 3} and finding.looked_at == 3
        assert finding.paused < finding.seconds, "the apply waits for the snapshots alone"
    assert len({finding.position for finding in findings}) == 3


@pytest.mark.long
def test_a_table_whose_owner_gave_it_code_is_not_compared_and_the_others_are(rig: Callable[..., Rig]) -> None:
    pair = rig(T + "; CREATE TABLE public.other (id int PRIMARY KEY)")
    pair.master.execute(FILL.format(rows=10))
    owner = f"owner_{pair.pair.master_info.database}"[:60]
    pair.master.execute(
        f"CREATE ROLE {owner}; GRANT CREATE ON SCHEMA public TO {owner}; ALTER TABLE public.t OWNER TO {owner}; "
        f"SET ROLE {owner}; CREATE FUNCTION public.code(n bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS "
        "'BEGIN RETURN n; END'; CREATE INDEX planned ON public.t ((id + public.code(1))); RESET ROLE".encode()
    )
    try:
        with pair.apply():
            pair.await_current()
            table, other = (TableName("public", name) for name in ("t", "other"))
            store = redis_store.connect(pair.redis_url)
            found = compare_table(pair.pair, store, table, CompareOptions())
            assert found.outcome is Outcome.COULD_NOT_COMPARE
            assert f"code(bigint) of {owner}" in found.reason and "allow_owner_code" in found.reason
            assert compare_table(pair.pair, store, other, CompareOptions()).outcome is Outcome.IDENTICAL
            pair.master.execute("INSERT INTO public.t (id) VALUES (11)")
            pair.await_current()
    finally:
        pair.master.execute(f"DROP OWNED BY {owner} CASCADE; DROP ROLE {owner}".encode())


@pytest.mark.long
def test_rows_of_a_table_without_a_key_are_counted(rig: Callable[..., Rig]) -> None:
    pair = rig("CREATE TABLE public.k (v text, n int)")
    pair.master.execute("INSERT INTO public.k SELECT 'v' || i % 100, NULL FROM generate_series(1, 5000) i")
    with pair.apply():
        pair.await_current()
        assert counts(look(pair, "k")) == {}
        pair.slave.execute("INSERT INTO public.k VALUES ('v1', NULL), ('v1', NULL), ('', NULL)")
        pair.slave.execute("DELETE FROM public.k WHERE ctid IN (SELECT ctid FROM public.k WHERE v = 'v7' LIMIT 3)")
        finding = look(pair, "k")
    assert counts(finding) == {"missing": 3, "extra": 3}
    shown = {((example.master or example.slave or {})["v"], example.copies) for example in finding.examples}
    assert shown == {("v7", 3), ("v1", 2), ("", 1)}


ODD = """
CREATE TYPE public.mood AS ENUM ('sad', 'glad');
CREATE TABLE public."Odd %t" ("a""b" text COLLATE "C", "per%cent" uuid, m public.mood, j jsonb, arr text[], f float8,
    b bytea, i interval, r int4range, x char(5), z json, g text GENERATED ALWAYS AS (upper("a""b")) STORED,
    PRIMARY KEY ("a""b", "per%cent"))"""


@pytest.mark.long
def test_every_type_is_compared_and_null_is_no_empty_text(rig: Callable[..., Rig]) -> None:
    pair = rig(ODD)
    pair.master.execute("""
        INSERT INTO public."Odd %t" SELECT 'k,' || i, gen_random_uuid(), 'sad', '{"a": 1}', ARRAY['x', NULL, 'y,z'],
        'NaN', '\\x00ff', '1 day', '[1,5)', 'ab', '{"b":  2}' FROM generate_series(1, 300) i;
        INSERT INTO public."Odd %t" ("a""b", "per%cent") VALUES ('{"\\', gen_random_uuid()), ('', gen_random_uuid())""")
    with pair.apply():
        pair.await_current()
        finding = look(pair, "Odd %t")
        assert finding.outcome is Outcome.IDENTICAL and finding.rows_slave == 302
        name = 'public."Odd %t"'
        for number, change in enumerate(
            ["m = 'glad'", "j = '{}'", "arr[3] = 'y'", "f = 0", "b = ''", "i = '24 hours'", "r = 'empty'", "x = ''",
             "z = '{\"b\": 2}'", "m = NULL"], 1,
        ):  # fmt: skip
            pair.slave.execute(f"""UPDATE {name} SET {change} WHERE "a""b" = 'k,{number}'""".encode())
        pair.slave.execute(f"""UPDATE {name} SET x = '' WHERE "a""b" = ''""".encode())
        finding = look(pair, "Odd %t")
    assert counts(finding) == {"different": 11}
    assert finding.columns == {"m": 2, "j": 1, "arr": 1, "f": 1, "b": 1, "i": 1, "r": 1, "x": 2, "z": 1}


@pytest.mark.long
def test_columns_that_each_side_computes_are_compared(rig: Callable[..., Rig]) -> None:
    pair = rig("CREATE TABLE public.w (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) STORED)")
    pair.master.execute("INSERT INTO public.w SELECT i FROM generate_series(1, 100) i")
    with pair.apply():
        pair.await_current()
        assert look(pair, "w").outcome is Outcome.IDENTICAL
        pair.slave.execute(
            "ALTER TABLE public.w DROP g, ADD g int GENERATED ALWAYS AS (CASE id WHEN 7 THEN 0 ELSE id * 2 END) STORED"
        )
        finding = look(pair, "w")
    assert counts(finding) == {"different": 1} and finding.columns == {"g": 1}


@pytest.mark.long
def test_a_wider_type_of_the_slave_is_no_difference(rig: Callable[..., Rig]) -> None:
    pair = rig("CREATE TABLE public.w (id int PRIMARY KEY, n numeric(10,2), s varchar(10))")
    pair.slave.execute("ALTER TABLE public.w ALTER id TYPE bigint, ALTER n TYPE numeric(14,4), ALTER s TYPE text")
    pair.master.execute("INSERT INTO public.w SELECT i, i, i FROM generate_series(1, 100) i")
    with pair.apply():
        pair.await_current()
        assert look(pair, "w").outcome is Outcome.IDENTICAL
        pair.slave.execute("UPDATE public.w SET n = 5.0001 WHERE id = 5")
        finding = look(pair, "w")
    assert counts(finding) == {"different": 1} and finding.columns == {"n": 1}


def test_configured_differences_are_shown_with_their_cause_and_are_no_fault(rig: Callable[..., Rig]) -> None:
    pair = rig(T)
    with pair.apply():
        pair.master.execute(FILL.format(rows=10))
        pair.await_current()
        pair.slave.execute("INSERT INTO public.t VALUES (99, 'old', 1)")
        finding = look(pair, "t", actions="IU")
    assert finding.outcome is Outcome.IDENTICAL and counts(finding) == {"extra": 1}
    assert finding.found[Kind.EXTRA].cause == "the configuration replicates no deletes of this table"
    assert finding.to_repair == []


def test_without_a_key_updates_that_are_not_replicated_leave_two_rows_and_no_fault(rig: Callable[..., Rig]) -> None:
    pair = rig("CREATE TABLE public.k (v text)")
    with pair.apply():
        pair.master.execute("INSERT INTO public.k VALUES ('a'), ('b')")
        pair.await_current()
        pair.slave.execute("UPDATE public.k SET v = 'former' WHERE v = 'b'")
        finding = look(pair, "k", actions="ID")
    assert finding.outcome is Outcome.IDENTICAL and counts(finding) == {"missing": 1, "extra": 1}
    assert {rows.cause for rows in finding.found.values() if rows.count} == {
        "the configuration replicates no updates of this table"
    }


@pytest.mark.long
def test_a_policy_that_hides_rows_from_the_account_is_an_error_and_no_comparison(rig: Callable[..., Rig]) -> None:
    pair = rig(T, slave_role=True)
    with pair.apply():
        pair.master.execute(FILL.format(rows=10))
        pair.await_current()
        pair.slave.execute("ALTER TABLE public.t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        pair.slave.execute("CREATE POLICY p ON public.t USING (id > 5)")
        with pytest.raises(CouldNotCompare, match="row-level security policy"):
            look(pair, "t")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("side", ["master", "slave"])
def test_a_table_emptied_after_the_position_is_compared_again_and_never_called_different(
    rig: Callable[..., Rig], side: str
) -> None:
    pair = rig(T)
    with pair.apply():
        pair.master.execute(FILL.format(rows=100))
        pair.await_current()
        with at_one_position(pair.pair, redis_store.connect(pair.redis_url)) as view:
            getattr(pair, side).execute("TRUNCATE public.t")
            with pytest.raises(CouldNotCompare, match="was emptied, rewritten or replaced") as failure:
                compare(view, TableName("public", "t"))
    assert failure.value.again


PARTED = """
CREATE TABLE public.t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE public.low PARTITION OF public.t FOR VALUES FROM (0) TO (50);
CREATE TABLE public.high PARTITION OF public.t FOR VALUES FROM (50) TO (200)"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("tables", "statement"),
    [
        (T, "ALTER TABLE public.t RENAME TO formerly; CREATE TABLE public.t (LIKE public.formerly INCLUDING ALL)"),
        (PARTED, "ALTER TABLE public.t DETACH PARTITION public.high"),
        (PARTED, "TRUNCATE public.high"),
    ],
)
def test_a_table_replaced_after_the_position_or_a_part_of_it_is_never_called_different(
    rig: Callable[..., Rig], tables: str, statement: str
) -> None:
    pair = rig(tables)
    with pair.apply():
        pair.master.execute("INSERT INTO public.t (id, v) SELECT i, 'v' || i FROM generate_series(1, 100) i")
        pair.await_current()
        with at_one_position(pair.pair, redis_store.connect(pair.redis_url)) as view:
            pair.slave.execute(statement.encode())
            with pytest.raises(CouldNotCompare, match="was emptied, rewritten or replaced") as failure:
                compare(view, TableName("public", "t"))
    assert failure.value.again


def test_a_partition_that_is_a_foreign_table_is_compared_with_the_others(rig: Callable[..., Rig]) -> None:
    pair = rig(PARTED.replace(" PRIMARY KEY", ""))
    pair.slave.execute(
        "CREATE EXTENSION file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw; "
        "CREATE FOREIGN TABLE public.far PARTITION OF public.t FOR VALUES FROM (200) TO (300) "
        "SERVER files OPTIONS (filename '/dev/null')"
    )
    with pair.apply():
        pair.master.execute("INSERT INTO public.t SELECT i, 'v' FROM generate_series(1, 100) i")
        pair.await_current()
        pair.slave.execute("DELETE FROM public.t WHERE id = 60")
        assert counts(look(pair, "t")) == {"missing": 1}


@pytest.mark.long
def test_a_truncate_does_not_wait_for_a_comparison(rig: Callable[..., Rig]) -> None:
    pair = rig(T)
    with pair.apply():
        pair.master.execute(FILL.format(rows=100))
        pair.await_current()
        with at_one_position(pair.pair, redis_store.connect(pair.redis_url)) as view:
            held = view.run(view.master, lambda s: s.execute("LOCK TABLE public.t IN ACCESS SHARE MODE"))
            held.result()
            running = view.run(view.master, lambda s: s.execute("SELECT pg_sleep(60) FROM public.t LIMIT 1"))
            pair.master.execute("TRUNCATE public.t")
            with pytest.raises(CouldNotCompare, match="ended for a change of a table"):
                running.result()
        pair.await_current()
        assert look(pair, "t").rows_slave == 0


def test_an_apply_that_does_not_answer_is_named(rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply_client, "WAIT_SECONDS", 0.3)
    pair = rig(T)
    held = Lease(redis_store.connect(pair.redis_url), pair.pair.prefix, "dr1", 30)
    held.acquire()
    with raises_code("apply-does-not-answer", match=r"did not answer within 0 s: it is busy with a large window"):
        look(pair, "t")
    held.release()


def test_a_closed_gate_is_named_long_before_the_wait_ends(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply_client, "WAIT_SECONDS", 3600.0)
    monkeypatch.setattr(apply_client, "GATE_SECONDS", 0.1)
    pair = rig(T)
    store = redis_store.connect(pair.redis_url)
    held = Lease(store, pair.pair.prefix, "dr1", 3600)
    held.acquire()
    Gate(store, pair.pair.prefix, "dr1").close("lunch", "anna", "we eat")
    with raises_code("apply-does-not-answer", match=r"the gate is closed: lunch .*When it is open again"):
        look(pair, "t")
    held.release()


def test_a_comparison_leaves_no_session_open(rig: Callable[..., Rig]) -> None:
    pair = rig(T)
    with pair.apply():
        look(pair, "t")
        for connection in (pair.master, pair.slave):
            pair.await_that(
                lambda c=connection: (
                    c.execute(  # type: ignore[misc]
                        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
                        "(application_name LIKE '%verify' OR application_name LIKE '%at a position')"
                    ).fetchone()[0]
                    == 0
                )
            )


def test_a_dead_comparison_leaves_no_snapshot(rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch) -> None:
    from sluice.apply import request_handler
    from sluice.coordination.requests import Requests
    from sluice.model.requests import SnapshotsRequest

    monkeypatch.setattr(request_handler, "TAKEOVER_SECONDS", 0.5)
    pair = rig(T)
    with pair.apply():
        requests = Requests(redis_store.connect(pair.redis_url), pair.pair.prefix, "dr1")
        name = requests.ask(SnapshotsRequest(), 10)
        pair.await_that(lambda: requests.answered(name) is not None)
        open_now = (
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name LIKE '%at a position'"
        )
        for connection in (pair.master, pair.slave):
            pair.await_that(lambda c=connection: c.execute(open_now).fetchone()[0] == 0)  # type: ignore[misc]
        assert look(pair, "t").outcome is Outcome.IDENTICAL


@pytest.mark.long
def test_a_sample_finds_what_is_frequent_and_bounds_what_it_did_not_see(rig: Callable[..., Rig]) -> None:
    pair = rig(T)
    pair.master.execute(FILL.format(rows=20_000))
    with pair.apply():
        pair.await_current()
        for connection in (pair.master, pair.slave):
            connection.execute("ANALYZE public.t")
        finding = look(pair, "t", sample=1_000)
        assert finding.outcome is Outcome.IDENTICAL and 800 < finding.sampled < 1_200
        assert finding.upper_bound is not None and 0.002 < finding.upper_bound < 0.005
        pair.slave.execute("UPDATE public.t SET v = 'spoilt' WHERE id % 10 = 0")
        pair.slave.execute("DELETE FROM public.t WHERE id % 10 = 1")
        pair.slave.execute("INSERT INTO public.t SELECT 50000 + i, 'mine' FROM generate_series(1, 2000) i")
        finding = look(pair, "t", sample=1_000)
    assert finding.outcome is Outcome.DIFFERENT
    assert all(finding.found[kind].count > 50 for kind in Kind)
    assert finding.upper_bound is not None and 0.15 < finding.upper_bound < 0.3


def test_values_that_changed_rows_are_a_difference(rig: Callable[..., Rig]) -> None:
    pair = rig("CREATE TABLE public.s (id int PRIMARY KEY, a int, b numeric(10,2), c timestamptz, d text)")
    with pair.apply():
        pair.master.execute(
            "INSERT INTO public.s SELECT i, i, i, '2020-01-01'::timestamptz + i * interval '1 s', i "
            "FROM generate_series(1, 100) i"
        )
        pair.await_current()
        swap = (
            "UPDATE public.s SET {0} = o.{0} FROM public.s o WHERE s.id IN ({1}, {1} + 1) AND o.id = 2 * {1} + 1 - s.id"
        )
        for number, column in enumerate("abcd"):
            pair.slave.execute(swap.format(column, 10 * number + 1).encode())
        finding = look(pair, "s")
    assert counts(finding) == {"different": 8}
    assert finding.columns == {"a": 2, "b": 2, "c": 2, "d": 2}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("table", ["t", "Odd %t"])
def test_md5_replaces_differing_server_hashes_and_the_report_says_so(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    from sluice.vendors.postgres.vendor import POSTGRES

    true = POSTGRES.digests.probe
    monkeypatch.setattr(POSTGRES.digests, "probe", lambda c, method: None if method is Method.HASH else true(c, method))
    pair = rig(T + ";" + ODD)
    with pair.apply():
        pair.master.execute(FILL.format(rows=500))
        pair.master.execute("""INSERT INTO public."Odd %t" SELECT i, gen_random_uuid() FROM generate_series(1, 9) i""")
        pair.await_current()
        finding = look(pair, table)
        assert finding.outcome is Outcome.IDENTICAL and finding.method == "md5" and finding.fell_back
        pair.slave.execute("UPDATE public.t SET n = n + 0.01 WHERE id = 7")
        pair.slave.execute("""UPDATE public."Odd %t" SET x = '' WHERE "a""b" = '7'""")
        assert counts(look(pair, table)) == {"different": 1}
