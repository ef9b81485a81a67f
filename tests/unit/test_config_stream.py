"""The configuration of a master whose changes are recorded in files."""

from pathlib import Path

import pytest

from sluice import config
from sluice.configuration.mistakes import ConfigError
from sluice.configuration.model import Replication
from sluice.database.registry import reach
from sluice.load.update import Update
from sluice.model.connection import ConnectionInfo
from sluice.pair import Pair
from tests.errors import raises_code

SLAVE = ConnectionInfo("postgres", "h", 5432, "d", "u", "")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))


def load(folder: Path, master: str, more: str = "") -> Replication:
    text = f"prefix: REC_\nmaster: {{{master}}}\nslaves: {{dr1: {{conn_id: s}}}}\ntables: {{public.*: {{}}}}\n{more}"
    (folder / "REC.yaml").write_text(text)
    return config.load("REC_")


def test_a_stream_needs_a_folder_and_no_connection(tmp_path: Path) -> None:
    found = load(tmp_path, "capture: stream, location: /srv/shop, after: 41200")
    master = found.master
    assert (master.capture, master.location, master.after, master.vendor) == ("stream", "/srv/shop", 41200, "postgres")
    assert found.slave("dr1").vendor == "postgres"
    pair = Pair.of(found, "dr1", {"s": SLAVE})
    assert (pair.master_info.vendor, pair.master_info.server) == ("stream", "/srv/shop")
    assert (found.verify.schedule, found.verify.max_age_days) == ("never", 0), "there is nothing to compare with"
    with raises_code("no-database", match="no database to read rows from"), reach(pair.master_info, "test"):
        pass


def test_property_files_name_a_stream_as_well(tmp_path: Path) -> None:
    master = "sluice.master.capture=stream\nsluice.master.location=/srv/shop\n"
    (tmp_path / "x.properties").write_text(f"replication.prefix=REC_\n{master}table.S.*=\n")
    found = config.load("REC_").master.stream
    assert found is not None and found.server == "/srv/shop"


def test_a_database_is_captured_by_triggers(tmp_path: Path) -> None:
    assert load(tmp_path, "conn_id: m").master.stream is None
    assert load(tmp_path, "conn_id: m, capture: trigger").master.capture == "trigger"


@pytest.mark.parametrize(
    ("master", "more", "mistake"),
    [
        ("capture: stream", "", "master.location: is missing"),
        ("capture: stream, location: relative/folder", "", "is no absolute folder"),
        ("capture: stream, location: /srv/../etc", "", "is no absolute folder"),
        ("capture: stream, location: s3://bucket/key", "", "is a place in S3"),
        ("capture: stream, location: /srv, conn_id: m", "", "master.conn_id: is not known"),
        ("capture: stream, location: /srv, after: -1", "", "master.after: -1 is out of range"),
        ("capture: strem, location: /srv", "", "did you mean stream?"),
        ("conn_id: m, location: /srv", "", "master.location: is not known"),
        ("capture: stream, location: /srv", "initial: {parallel: 2}", "initial: means nothing with capture: stream"),
        ("capture: stream, location: /srv", "items_limit: {rows: 5}", "items_limit: means nothing"),
        ("capture: binlog, location: /srv, conn_id: m", "", "master.vendor: is missing"),
        ("capture: binlog, location: /srv, vendor: mysql", "", "master.conn_id: is missing"),
        ("capture: binlog, vendor: mysql, conn_id: m", "", "master.location: is missing"),
        ("capture: binlog, location: /srv, vendor: oracle, conn_id: m", "", "master.vendor"),
        ("vendor: mysql, conn_id: m", "", "master.vendor"),
        ("capture: stream, location: /srv", "feeds: lake", "feeds: contradicts capture: stream"),
    ],
)
def test_options_that_a_stream_cannot_have_are_mistakes(tmp_path: Path, master: str, more: str, mistake: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, master, more)
    assert mistake in str(refused.value)


REDO = "redo: {program: /olr, schema: /s-chkpt-60.json, exact_names: EXACT}\ninitial: {parallel: 2}\n"


def test_beside_a_stream_of_redo_rows_may_be_read_from_the_master(tmp_path: Path) -> None:
    found = load(tmp_path, "capture: redo, location: /srv/shop, conn_id: m", REDO.replace("EXACT", "true"))
    master = ConnectionInfo("oracle", "h", 1521, "PDB", "u", "")
    pair = Pair.of(found, "dr1", {"s": SLAVE, "m": master})
    assert (pair.master_info.vendor, pair.master_info.server) == ("stream", "/srv/shop/stream")
    update = Update.named(pair, "update 1")
    assert (update.master_info, update.master_info.stream) == (master, "/srv/shop/stream")
    assert ConnectionInfo.from_dict(update.master_info.to_dict()).stream == "/srv/shop/stream"


def test_beside_a_recorded_binary_log_rows_are_read_from_the_master_and_compared(tmp_path: Path) -> None:
    found = load(tmp_path, "capture: binlog, location: /srv/shop, vendor: mysql, conn_id: m", "initial: {parallel: 2}")
    master = ConnectionInfo("mysql", "h", 3306, "shop", "u", "")
    pair = Pair.of(found, "dr1", {"s": SLAVE, "m": master})
    assert (pair.master_info.vendor, pair.master_info.server) == ("stream", "/srv/shop")
    assert Update.named(pair, "update 1").master_info.stream == "/srv/shop"
    assert pair.beside_whole_log and found.comparable and found.verify.schedule == "daily"


def test_rows_have_the_names_that_changes_have(tmp_path: Path) -> None:
    found = load(tmp_path, "capture: redo, location: /srv/shop, conn_id: m", REDO.replace("EXACT", "false"))
    pair = Pair.of(found, "dr1", {"s": SLAVE, "m": ConnectionInfo("oracle", "h", 1521, "PDB", "u", "")})
    with raises_code("names-differ", match="exact_names: true"):
        Update.named(pair, "update 1")


@pytest.mark.parametrize(("connection", "exact", "scheduled"), [(", conn_id: m", "true", True), ("", "true", False),
                                                                (", conn_id: m", "false", False)])  # fmt: skip
def test_slaves_of_redo_are_compared_where_rows_can_be_read(
    connection: str, exact: str, scheduled: bool, tmp_path: Path
) -> None:
    redo = "redo: {program: /p, schema: /s, exact_names: EXACT}".replace("EXACT", exact)
    found = load(tmp_path, f"capture: redo, location: /srv/shop{connection}", redo)
    assert (found.verify.schedule, found.verify.max_age_days > 0) == (
        ("daily", True) if scheduled else ("never", False)
    )


def test_without_a_connection_a_stream_of_redo_is_not_loaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="initial: means nothing"):
        load(tmp_path, "capture: redo, location: /srv/shop", REDO.replace("EXACT", "true"))
