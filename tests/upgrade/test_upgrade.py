"""What the oldest version left on a master and on a slave is taken over by this one."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from sluice.capture import resources
from sluice.capture.reconcile import reconcile
from sluice.load.transfer import transfer_steps
from sluice.load.transfer.importer import import_in_threads
from sluice.model.connection import ConnectionInfo
from sluice.model.location import Location, S3Access
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.source.queue import PostgresQueue
from sluice.vendors.postgres.source.resources import ResourcesOutdated
from tests.rig.rig import Rig

HERE = Path(__file__).resolve().parent
TABLES = """
CREATE TABLE public.account (id int PRIMARY KEY, owner text, balance numeric);
CREATE TABLE public.history (account int, delta numeric, note text);
INSERT INTO public.account SELECT g, 'o' || g, g FROM generate_series(1, 50) g;
INSERT INTO public.history SELECT g, -g, E'x\\n]]>&<' FROM generate_series(1, 20) g;
"""


def as_it_was_left(database: Callable[..., ConnectionInfo], redis_url: str, folder: Path) -> Rig:
    """A pair of version 1: the slave is NORMAL, and changes have been captured that it does not have."""
    rig = Rig.empty(database, redis_url, folder, interval=0.1)
    for connection, name in ((rig.master, "master_v1"), (rig.slave, "slave_v1")):
        connection.execute(TABLES)
        connection.execute((HERE / f"{name}.sql").read_bytes())
    rig.master.execute("INSERT INTO public.demo_info VALUES ('functions', 'of version 1')")
    for table in ("account", "history"):
        rig.master.execute(
            "INSERT INTO public.demo_tables (schemaname, tablename, trigger_name) VALUES ('public', %s, %s)",
            [table, f"demo_{table}"],
        )
        rig.master.execute("SELECT public.demo_create_trigger('public', %s)", [table])
    ((low, next_xid, snapshot, high, now),) = rig.master.execute(
        'SELECT low, next_xid, snapshot::text, high, "time"::text FROM public.demo_position()'
    ).fetchall()
    position = {
        "snapshot": snapshot,
        "low": low,
        "high": high,
        "next": next_xid,
        "floors": {},
        "gap_floor": 0,
        "time": now,
    }
    rig.slave.execute(
        "INSERT INTO public.demo_checkpoint (slave, state, position, position_time, epoch, changes) "
        "VALUES ('dr1', 'NORMAL', %s, now(), 7, 70)",
        [json.dumps(position, separators=(",", ":"))],
    )
    change(rig, 100)
    return rig


def change(rig: Rig, begin: int) -> None:
    rig.master.execute(f"INSERT INTO public.account SELECT g, 'late', g FROM generate_series({begin}, {begin} + 20) g")
    rig.master.execute("UPDATE public.account SET balance = balance + 1, owner = NULL WHERE id % 3 = 0")
    rig.master.execute("DELETE FROM public.account WHERE id % 7 = 0")
    rig.master.execute("DELETE FROM public.history WHERE account % 2 = 0")
    rig.master.execute("INSERT INTO public.history VALUES (NULL, 0, '')")


def test_a_master_and_its_slaves_of_version_1_go_on_where_they_were(
    database: Callable[..., ConnectionInfo], redis_url: str, tmp_path: Path
) -> None:
    rig = as_it_was_left(database, redis_url, tmp_path)
    assert rig.differences() != {}
    with pytest.raises(ResourcesOutdated, match="install_resources"):
        reconcile(rig.master, rig.pair.prefix, "public", [])
    with pytest.raises(ResourcesOutdated, match="install_resources"):  # what an apply does from time to time
        PostgresQueue(rig.master, rig.pair.prefix, "public").check_definitions()
    rig.capture()
    with rig.apply():
        rig.await_current()
        assert rig.differences() == {}, "what version 1 had captured"
        change(rig, 200)
        rig.master.execute("ALTER TABLE public.account ADD since date DEFAULT '2026-01-01'")
        rig.master.execute("INSERT INTO public.account VALUES (999, 'new', 1, NULL)")
        rig.await_current()
    assert rig.differences() == {}
    assert rig.checkpoint.epoch > 7, "the checkpoint is the one that was there"
    assert resources.install(rig.master, rig.pair.prefix, "public").files == ()


@pytest.mark.long
def test_statements_between_the_upgrade_and_the_next_comparison_succeed_and_are_captured(
    database: Callable[..., ConnectionInfo], redis_url: str, tmp_path: Path
) -> None:
    """Triggers of the application make another kind of capture necessary than version 1 chose: until its triggers are
    made anew, the functions of version 1 stay in force."""
    rig = as_it_was_left(database, redis_url, tmp_path)
    rig.master.execute(
        """
        CREATE FUNCTION public.total() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF pg_trigger_depth() = 1 THEN
                UPDATE public.account SET balance = (SELECT count(*) FROM public.account) WHERE id = 50;
            END IF;
            RETURN NULL;
        END $$;
        CREATE TRIGGER total AFTER INSERT OR UPDATE OR DELETE ON public.account EXECUTE FUNCTION public.total();
        """
    )
    rig.master.execute("SELECT public.demo_create_trigger('public', 'account')")
    (before,) = rig.master.execute("SELECT max(repl_key) FROM public.demo_items").fetchall()
    with psycopg.connect(**rig.master.info.get_parameters(), password=rig.master.info.password) as busy:  # type: ignore[arg-type]
        # So the comparison at the end of the upgrade cannot make its triggers anew.
        busy.execute(
            "SELECT FROM public.account WHERE id = 1 FOR UPDATE; LOCK TABLE public.account IN ROW EXCLUSIVE MODE"
        )
        resources.install(rig.master, rig.pair.prefix, "public")
    change(rig, 300)
    actions = rig.master.execute(
        "SELECT db_action, count(*) FROM public.demo_items WHERE repl_key > %s AND tablename = 'account'"
        " GROUP BY 1 ORDER BY 1",
        before,
    ).fetchall()
    assert [action for action, _ in actions] == ["DELETE", "INSERT", "UPDATE"]
    rig.capture()
    with rig.apply():
        rig.await_current()
        change(rig, 400)
        rig.await_current()
    assert rig.differences() == {}


def test_files_of_a_transfer_of_1_0_are_loaded(database: Callable[..., ConnectionInfo], tmp_path: Path) -> None:
    info = database()
    with connect(info, application="test", autocommit=True) as slave:
        slave.execute((HERE / "slave_waiting_1_0.sql").read_bytes())
    (kept,) = (HERE / "carried_1_0").iterdir()
    shutil.copytree(kept, tmp_path / kept.name)
    folder, update = transfer_steps.found_for(Location.parse(str(tmp_path / kept.name)), S3Access(), None, info, "dr1")
    report = import_in_threads(update, folder, transfer_steps.examine(update, folder), 2)
    assert (report.blocks, report.rows) == (4, 70)
    with connect(info, application="test", autocommit=True) as slave:
        account = slave.execute("SELECT * FROM public.account ORDER BY id").fetchall()
        history = slave.execute("SELECT * FROM public.history ORDER BY account").fetchall()
    assert account == [(number, f"o{number}", number) for number in range(1, 51)]
    assert history == [(number, -number, "x\n]]>&<") for number in range(1, 21)]
    assert transfer_steps.left_to_import(update) == 0
