"""Whatever settings a MariaDB server and its clients have, a slave there is loaded, followed and compared as ever."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devstack.account import new_folder
from devstack.mariadb import MariaDBServer
from sluice.model.connection import ConnectionInfo
from sluice.verify.findings import Outcome
from tests.conftest import MARIADB_SETTINGS
from tests.scenarios.mariadb.definitions_alike import differing
from tests.scenarios.mariadb.rig import Rig
from tests.scenarios.mariadb.test_verify_and_repair import looked_at

MODES = (
    "ANSI",
    "ORACLE",
    "NO_BACKSLASH_ESCAPES",
    "PAD_CHAR_TO_FULL_LENGTH",
    "ONLY_FULL_GROUP_BY,IGNORE_SPACE",
    "TRADITIONAL",
    "EMPTY_STRING_IS_NULL,SIMULTANEOUS_ASSIGNMENT",
    "TIME_ROUND_FRACTIONAL,HIGH_NOT_PRECEDENCE,NO_UNSIGNED_SUBTRACTION",
    "",
)
SETTINGS = [
    *(f"sql_mode = '{mode}'" for mode in MODES),
    "default_storage_engine = MyISAM",
    "default_tmp_storage_engine = MEMORY",
    "enforce_storage_engine = InnoDB",
    "explicit_defaults_for_timestamp = OFF",
    "time_zone = '+05:30'",
    "max_allowed_packet = 1048576",
    "innodb_strict_mode = OFF",
    "innodb_default_row_format = REDUNDANT",
    "innodb_file_per_table = OFF",
    "foreign_key_checks = 0",
    "unique_checks = 0",
    "check_constraint_checks = 0",
    "sql_safe_updates = 1",
    "sql_select_limit = 3",
    "max_join_size = 5",
    "sql_auto_is_null = 1",
    "autocommit = 0",
    "completion_type = 'CHAIN'",
    "completion_type = 'RELEASE'",
    "tx_isolation = 'SERIALIZABLE'",
    "tx_isolation = 'READ-UNCOMMITTED'",
    "tx_read_only = 1",
    "event_scheduler = ON",
    "wait_timeout = 3",
    "idle_transaction_timeout = 2",
    "idle_write_transaction_timeout = 2",
    "max_statement_time = 0.05",
    "lock_wait_timeout = 1",
    "innodb_lock_wait_timeout = 1",
    "net_read_timeout = 1",
    "low_priority_updates = 1",
    "alter_algorithm = 'INSTANT'",
    "old_mode = 'NO_DUP_KEY_WARNINGS_WITH_IGNORE,NO_PROGRESS_INFO,ZERO_DATE_TIME_CAST'",
    "character_set_server = latin1; collation_server = latin1_swedish_ci",
    "character_set_client = latin1; character_set_connection = latin1; character_set_results = latin1",
    "character_set_database = utf8mb3; collation_database = utf8mb3_general_ci",
    "sql_if_exists = 1",
    "max_sort_length = 64",
    "max_length_for_sort_data = 4",
    "max_error_count = 0",
    "sql_notes = 0; sql_warnings = 1",
    "div_precision_increment = 0",
    "sql_quote_show_create = 0",
    "lc_messages = 'de_DE'; lc_time_names = 'de_DE'",
    "max_heap_table_size = 16384; tmp_memory_table_size = 0",
    "optimizer_switch = 'index_merge=off,derived_merge=off,semijoin=off,mrr=on,join_cache_incremental=off'",
    "sql_buffer_result = 1; big_tables = 1",
    "query_cache_type = 1; query_cache_size = 1048576",
    "init_connect = 'SET autocommit = 0, sql_mode = \"\", foreign_key_checks = 0, sql_select_limit = 2'",
    "max_recursive_iterations = 1",
    "standard_compliant_cte = 0",
    "group_concat_max_len = 4",
    "eq_range_index_dive_limit = 1",
    "default_week_format = 3",
    "updatable_views_with_limit = 0",
    "system_versioning_alter_history = KEEP",
    "innodb_snapshot_isolation = ON",
]  # fmt: skip
TABLES = """
CREATE TABLE public.parent (id int PRIMARY KEY, name varchar(40) UNIQUE);
CREATE TABLE public.t (
    id bigint PRIMARY KEY, parent int REFERENCES public.parent ON DELETE CASCADE, a text, b varchar(30), c char(5),
    d date, e timestamp, f timestamptz, g numeric(12,4), h float8, i bytea, j jsonb, k uuid, l time(3), m boolean,
    n varchar(300)
);
CREATE TABLE public."Log" (a int, b text);
CREATE TABLE public.pairs (a varchar(60), b text, c timestamp, v int, PRIMARY KEY (a, b));
INSERT INTO public.parent SELECT n, CASE n WHEN 1 THEN '' WHEN 2 THEN ' ' WHEN 3 THEN 'a ' ELSE 'a' || n END
FROM generate_series(0, 30) AS n;
INSERT INTO public.t
SELECT n, n % 30,
       E'back\\\\slash \\'quoted\\' "double" `tick` é 😀 ' || n, repeat(' ', n % 4), 'ab', '0001-01-01'::date + n,
       '2026-03-29 02:30:00.123456'::timestamp + n * interval '1 h',
       '1970-01-01 00:00:01+00'::timestamptz + n * interval '1 y',
       n / 7.0, n / 3.0, decode(lpad(to_hex(n), 6, '0') || '5c27', 'hex'), jsonb_build_object('k', '\\"' || n),
       gen_random_uuid(), '23:59:59.999'::time - n * interval '1 s', n % 2 = 0, repeat('ü', n % 300)
FROM generate_series(1, 300) AS n;
INSERT INTO public."Log" SELECT n % 4, CASE n % 3 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE ' ' END
FROM generate_series(1, 40) AS n;
INSERT INTO public.pairs SELECT repeat('x', 55) || n % 3, repeat('y', 100) || n, now(), n
FROM generate_series(1, 120) AS n;
"""
CHANGES = [
    "UPDATE public.t SET a = a || '\\', h = -h, f = f - interval '1 h' WHERE id % 3 = 0",
    "UPDATE public.t SET id = -id, b = '' WHERE id % 50 = 1",
    "DELETE FROM public.parent WHERE id = 7",
    "INSERT INTO public.t (id, a, i) SELECT n, repeat(E'\\\\', 1000), decode(repeat('27', 500), 'hex')"
    " FROM generate_series(1000, 1400) AS n",
    'INSERT INTO public."Log" SELECT 9, NULL; DELETE FROM public."Log" WHERE a = 2',
    "UPDATE public.pairs SET a = a || 'z', b = left(b, 90) || v WHERE v > 60",
    "ALTER TABLE public.t ADD COLUMN extra timestamp NOT NULL DEFAULT '2026-01-01', ALTER id TYPE numeric(20)",
    "ALTER TABLE public.t DROP COLUMN b; CREATE INDEX ON public.t (extra, d)",
    "ALTER TABLE public.pairs RENAME COLUMN c TO at; UPDATE public.pairs SET at = NULL WHERE v < 5",
    'TRUNCATE public."Log"',
    "INSERT INTO public.t (id, a) SELECT n, repeat('long', 50000) FROM generate_series(2000, 2010) AS n",
    "UPDATE public.t SET g = NULL WHERE id > 1100",
]


def course(pair: Rig, left_out: str = "") -> None:
    """A load, changes one by one and by stages, definitions, and a comparison. `left_out`: why the table with capital
    letters cannot be there."""
    update = pair.load()
    with pair.apply() as running:
        pair.await_current()
        pair.finish(update)
        running.await_normal_mode()
        for change in CHANGES:
            with pair.master.transaction():
                pair.master.execute(change.encode())
            pair.await_current()
        states = pair.checkpoint.tables
        assert set(pair.differences()) == set(map(str, states))
        assert all(left_out in states.explain(table) for table in states) and bool(left_out) is bool(states)
        assert pair.rejects.open() == []
        pair.await_that(lambda: not differing(pair))
        for table in ("parent", "t", "pairs", *(() if left_out else ("Log",))):
            assert looked_at(pair, table).outcome is Outcome.IDENTICAL, table


@pytest.mark.long
@pytest.mark.parametrize("setting", SETTINGS)
def test_no_setting_changes_what_a_slave_gets(
    rig: Callable[..., Rig], mariadb_server: MariaDBServer, setting: str
) -> None:
    values = dict(one.split(" = ", 1) for one in setting.split("; "))
    made = [rig(TABLES, stage=20)] if "tx_read_only" in values else []
    with mariadb_server.connect() as admin, admin.cursor() as cursor:
        cursor.execute("SELECT " + ", ".join(f"@@GLOBAL.{name}" for name in values))
        before = cursor.fetchone()
        assert before is not None
        cursor.execute("SET " + ", ".join(f"GLOBAL {name} = {value}" for name, value in values.items()))
        try:
            course(*made or [rig(TABLES, stage=20)])
        finally:
            for name, value in zip(values, before, strict=True):
                cursor.execute(f"SET GLOBAL {name} = %s", (value,))


AT_START = {
    "lower-case": {"lower-case-table-names": "1"},
    "lower-case kept": {"lower-case-table-names": "2"},
    "latin1": {"character-set-server": "latin1", "collation-server": "latin1_german1_ci",
               "skip-character-set-client-handshake": "ON"},
    "utf8mb3": {"character-set-server": "utf8mb3", "collation-server": "utf8mb3_unicode_ci", "innodb-page-size": "16k"},
    "large pages": {"innodb-page-size": "64k"},
    "binary log": {"log-bin": "binlog", "binlog-format": "ROW", "server-id": "1", "gtid-strict-mode": "ON"},
    "performance schema": {"performance-schema": "ON", "thread-handling": "pool-of-threads"},
}  # fmt: skip


@pytest.fixture
def server_with(tmp_path: Path) -> Iterator[Callable[[dict[str, str]], MariaDBServer]]:
    made: list[MariaDBServer] = []

    def make(settings: dict[str, str]) -> MariaDBServer:
        made.append(MariaDBServer(new_folder("sluice-test-mariadb-"), settings=MARIADB_SETTINGS | settings))
        made[-1].start(die_with_parent=True)
        return made[-1]

    yield make
    for server in made:
        server.stop()
        shutil.rmtree(server.directory, ignore_errors=True)


@pytest.mark.long
@pytest.mark.parametrize("settings", AT_START.values(), ids=AT_START)
def test_no_option_of_the_server_changes_what_a_slave_gets(
    database: Callable[..., ConnectionInfo],
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    server_with: Callable[[dict[str, str]], MariaDBServer],
    settings: dict[str, str],
) -> None:
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    server = server_with(settings)
    folds = settings.get("lower-case-table-names") == "1"
    server.create_account("slave", "slave_1")
    pair = Rig.build(database, lambda: server.info("slave_1", "slave"), redis_url, tmp_path, TABLES, stage=20)
    try:
        course(pair, "a name with capital letters" if folds else "")
    finally:
        pair.close()
