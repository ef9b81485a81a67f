"""An initial update into MariaDB as files that a person carries, and in parts."""

import base64
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.coordination import redis_store
from sluice.database.addresses import BadAddress, PasswordShown
from sluice.load import steps
from sluice.load.transfer import transfer_steps
from sluice.model.location import S3Access
from sluice.vendors.mysql.vendor import MYSQL
from tests.library import command, copied
from tests.scenarios.initial_files.carrying import KEY, export, location, moved
from tests.scenarios.mariadb.rig import Rig
from tests.scenarios.mariadb.test_whole_way import CHANGES, FILL, TABLES

SHOP = """
CREATE TABLE public.orders (id int PRIMARY KEY, note text);
CREATE TABLE public.lines (
    order_id int REFERENCES public.orders ON DELETE CASCADE, line int, amount numeric(10,2),
    PRIMARY KEY (order_id, line)
);
INSERT INTO public.orders SELECT n, 'order ' || n FROM generate_series(1, 400) AS n;
INSERT INTO public.lines SELECT n % 400 + 1, n, n / 7.0 FROM generate_series(1, 900) AS n;
"""
FOREIGN_KEYS = (
    "SELECT table_name, referenced_table_name FROM information_schema.referential_constraints"
    " WHERE constraint_schema = DATABASE()"
)


@pytest.mark.long
def test_files_carried_to_the_slaves_machine_are_checked_loaded_once_and_followed_by_what_changed(
    rig: Callable[..., Rig], tmp_path: Path
) -> None:
    pair = rig(TABLES, block_rows=700)
    pair.master.execute(FILL)
    update, store = pair.update(), redis_store.connect(pair.redis_url)
    steps.begin(update, store)
    steps.create_tables(update)
    steps.plan(update, store, transfer_steps.QUEUEING)
    carried = transfer_steps.folder_of(update, location(tmp_path / "out"), S3Access(), KEY)
    export(update, carried)
    manifest = transfer_steps.seal(update, carried)
    pair.master.execute(CHANGES)
    there = moved(carried, tmp_path / "in")
    key = tmp_path / "key"
    key.write_text(base64.b64encode(KEY).decode())
    info = pair.pair.slave_info
    library = copied(tmp_path)

    def run(*options: str) -> "subprocess.CompletedProcess[str]":
        url = f"mysql://{info.user}@{info.host}:{info.port}/{info.database}"
        given = (
            "import",
            "--location",
            str(there.location.parent),
            "--database",
            url,
            "--key-file",
            str(key),
            *options,
        )
        environment = {"MYSQL_PWD": info.password, "SLUICE_REPLICATIONS": "/nowhere"}
        return subprocess.run(
            **command(library, *given, *options, **environment), capture_output=True, text=True, timeout=120
        )

    checked = run("--check")
    assert checked.returncode == 0, checked.stderr
    assert transfer_steps.left_to_import(update) == len(manifest.blocks) > 2
    done = run()
    assert done.returncode == 0, done.stderr
    assert "approve the transfer in Airflow" in done.stdout
    assert transfer_steps.left_to_import(update) == 0
    again = run()
    assert again.returncode == 0 and "0 rows of 0 files loaded" in again.stdout, again.stdout
    assert info.password not in done.stdout + done.stderr
    with pair.apply():
        steps.open_gate(update, store)
        pair.await_current()
        assert pair.finish(update).left_out == []
    assert pair.differences() == {}


@pytest.mark.long
@pytest.mark.parametrize(
    ("choice", "changed_here", "lacking"),
    [
        pytest.param({"tables": ["public.orders"]}, set(), True, marks=pytest.mark.long),
        ({"tables": ["public.lines"], "where": "line BETWEEN 895 AND 899"}, {50, 150}, False),
        pytest.param(
            {"tables": ["public.orders"], "key_from": "100", "key_to": "200"}, {50}, True, marks=pytest.mark.long
        ),
    ],
    ids=["a table", "rows that meet a condition", "a range of keys"],
)
def test_a_part_is_loaded_again_and_the_rest_stays_as_it_is(
    rig: Callable[..., Rig], choice: dict[str, object], changed_here: set[int], lacking: bool
) -> None:
    pair = rig(SHOP, where=True)
    pair.load()
    with pair.apply():
        pair.await_current()
        pair.slave.run("UPDATE orders SET note = 'mine' WHERE id IN (50, 150)")
        pair.slave.run('DELETE FROM "lines" WHERE line = 899')
        pair.load(pair.begin_load(**choice))
        pair.await_current()
        assert {key for (key,) in pair.slave.run("SELECT id FROM orders WHERE note = 'mine'")} == changed_here
        assert (pair.slave.run('SELECT COUNT(*) FROM "lines" WHERE line = 899').fetchone() == (0,)) is lacking


@pytest.mark.long
def test_foreign_keys_come_after_the_load_and_rows_that_violate_one_are_followed(rig: Callable[..., Rig]) -> None:
    pair = rig(SHOP)
    update = pair.load()
    assert pair.slave.run(FOREIGN_KEYS).fetchall() == []
    with pair.apply():
        pair.await_current()
        assert pair.finish(update).left_out == []
        assert pair.slave.run(FOREIGN_KEYS).fetchall() == [("lines", "orders")]
        # The children go by the master's own cascade, and come as changes; parent and child in any order.
        pair.master.execute("DELETE FROM public.orders WHERE id <= 20")
        with pair.master.transaction():
            pair.master.execute("INSERT INTO public.orders VALUES (1, 'again')")
            pair.master.execute("INSERT INTO public.lines VALUES (1, 1, 1)")
        pair.await_current()
    assert pair.differences() == {}


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("mysql://a:secret@h/db", PasswordShown),
        ("mysql://a@h/db?password=secret", PasswordShown),
        ("mysql://a@h:secret/db", BadAddress),
        ("mysql://a@h", BadAddress),
        ("mysql:///db", BadAddress),
        ("mysql://a@h/db?charset=latin1", BadAddress),
        ("mysql://a@h/db?connect_timeout=soon", BadAddress),
    ],
)
def test_a_url_that_leads_nowhere_is_refused_without_what_may_be_a_password(url: str, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        MYSQL.located(url)
    assert "secret" not in str(caught.value)


def test_a_url_may_hold_any_character(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYSQL_PWD", "p w")
    found = MYSQL.located("mysql://us%40er@db2.example/my%2Fshop?sslmode=verify-full")
    assert (found.user, found.host, found.port, found.database) == ("us@er", "db2.example", 3306, "my/shop")
    assert found.password == "p w" and found.options == {"sslmode": "verify-full"}
