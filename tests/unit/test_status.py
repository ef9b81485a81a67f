"""The sentences of `./sluice status` about a slave."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sluice import config
from sluice.airflow.pages.slave_row import row
from sluice.cli import status
from sluice.cli.status import Running, activity, elsewhere, folders, items, not_ready, state, unused
from sluice.config import Survey
from sluice.configuration.model import Endpoint, Replication, SlaveConfig
from sluice.coordination.live_state import LiveSlave
from sluice.coordination.records import ItemsFindings
from sluice.errors import RESTART_APPLY
from sluice.model.checkpoint import Checkpoint
from sluice.model.joining import StartedLoad
from sluice.model.names import Prefix, TableName
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableState, TableStates
from sluice.vendors.postgres.snapshot_position import SnapshotPosition

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def checkpoint(state: SlaveState, seconds: float | None = None, message: str = "") -> Checkpoint:
    time = (NOW - timedelta(seconds=seconds)).isoformat() if seconds is not None else ""
    return Checkpoint("dr1", state, message, SnapshotPosition(1, 1, time=time))


@pytest.mark.parametrize(
    ("found", "running", "said"),
    [
        (checkpoint(SlaveState.NORMAL, 3), None, "NORMAL, as the master was 3 s ago"),
        (checkpoint(SlaveState.NORMAL, 700), Running(False), "NORMAL, as the master was 12 min ago"),
        # An idle master: the apply has looked since, and wrote no checkpoint.
        (
            checkpoint(SlaveState.NORMAL, 700),
            Running(True, current_as_of=NOW - timedelta(seconds=1)),
            "NORMAL, as the master was 1 s ago",
        ),
        (checkpoint(SlaveState.NORMAL, 3, "stopped"), None, "NORMAL, as the master was 3 s ago: stopped"),
        (checkpoint(SlaveState.NORMAL), None, "NORMAL"),
        (checkpoint(SlaveState.INCONSISTENT, 3, "lost"), None, "INCONSISTENT: lost"),
    ],
)
def test_a_slave_in_a_line(found: Checkpoint, running: Running | None, said: str) -> None:
    assert state("SHOP_ → dr1", found, running, NOW) == f"SHOP_ → dr1: {said}"


def test_what_the_monitor_says_is_not_repeated_in_the_line_of_the_slave(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped apply: the whole reason stood there twice, since the monitor's has a beginning and a code."""
    stopped = checkpoint(SlaveState.NORMAL, 3, f"public.t, row id = '1' differs. Then {RESTART_APPLY}")
    monkeypatch.setattr(status, "_of_slave", lambda *_: (stopped, [], []))
    monkeypatch.setattr(status, "_running", lambda *_: (None, []))
    one = Replication(Prefix("SHOP_"), Endpoint("m"), {"dr1": SlaveConfig("dr1", "dr1")}, ())
    text = f"The apply has stopped: {stopped.message}. [drift]"
    said = {"level": "critical", "text": text, "remedy": "restart", "tables": "", "question": "", "failed": False}
    lines = status.slave(one, "dr1", lambda *_: None, "", {"messages": [said]})  # type: ignore[typeddict-item,arg-type,return-value]
    assert "\n".join(lines).count("row id = '1' differs") == 1
    assert lines[0].startswith("SHOP_ → dr1: NORMAL, as the master was")


def test_a_missing_apply_is_reported_with_the_command_that_starts_it() -> None:
    assert "start the DAG cdc_apply" in activity(SlaveState.NORMAL, Running(False))[0]
    assert activity(SlaveState.INCONSISTENT, Running(False)) == []
    assert activity(SlaveState.NORMAL, None) == [], "Redis is down, which a line of its own says"
    staging = activity(SlaveState.NORMAL, Running(True, "off", "Spark stages a large window, 3 of 8 tasks done"))
    assert staging[1].strip() == "Spark stages a large window, 3 of 8 tasks done"
    stopped = activity(SlaveState.NORMAL, Running(False, closures=("error (apply, 11:00 UTC): no row",)), "no row")
    assert stopped[1:] == ["    the gate is closed: error (apply, 11:00 UTC)"], "the line of the slave says why"
    held = activity(SlaveState.NORMAL, Running(True, "off", closures=("admin (ann, 11:00 UTC): backup",)))
    assert held == ["    an apply runs, safe mode off", "    the gate is closed: admin (ann, 11:00 UTC): backup"]


def test_tables_that_are_not_loaded_are_listed_with_what_loads_them() -> None:
    table = TableName("public", "Coupons")
    states = TableStates({table: TableState.ABSENT})
    lacking = replace(checkpoint(SlaveState.NORMAL), tables=states)
    assert not_ready(Prefix("SHOP_"), "dr1", lacking) == [
        "    1 table not loaded: what changes there is left out. Start the DAG initial_update with prefix SHOP_, "
        "slave dr1 "
        'and tables ["public.\\"Coupons\\""].',
        '        public."Coupons": absent',
    ]
    said = not_ready(Prefix("SHOP_"), "dr1", lacking, StartedLoad("new_tables_1", (table,)))
    assert said[0].endswith("left out. The run new_tables_1 of initial_update was started and loads them.")
    many = states.put_all([TableName("public", f"t{number}") for number in range(40)], TableState.ABSENT)
    said = not_ready(Prefix("SHOP_"), "dr1", replace(lacking, tables=many))
    assert "41 tables not loaded" in said[0] and said[-1] == "        and 21 more"
    assert not_ready(Prefix("SHOP_"), "dr1", checkpoint(SlaveState.NORMAL)) == []
    assert not_ready(Prefix("SHOP_"), "dr1", replace(lacking, state=SlaveState.TRANSITION)) == [], "they may be loading"


def test_the_size_of_items_and_the_next_slave_to_drop_are_shown() -> None:
    assert items(ItemsFindings()) == []
    found = ItemsFindings(
        "used to 60%: …", "2026-11-22", {"b": "It was dropped"}, {"c": "Slave c is SWITCHING. Abort it"}
    )
    assert items(found) == ["    used to 60%: …", "    c: Slave c is SWITCHING. Abort it", "    b: It was dropped"]


def test_ignored_files_of_the_default_folder_are_listed(tmp_path: Path) -> None:
    usual, other = tmp_path / "usual", tmp_path / "other"
    usual.mkdir()
    other.mkdir()
    assert unused([other], usual) == []
    (usual / "SHOP.yaml").write_text("prefix: SHOP_\n")
    (said,) = unused([other], usual)
    assert f"{usual}/SHOP.yaml is not in force" in said and f"./sluice up --replications {usual}" in said
    assert unused([other, usual], usual) == []
    hidden = {usual / "A.yaml": other / "A.yaml"}
    shown = folders([other, usual], Survey((), (), {}, (), hidden))
    assert [line.split()[-1] for line in shown[:2]] == [str(usual), str(other)]
    assert len(shown) == 3 and f"{usual}/A.yaml does not count" in shown[2]


def test_tables_that_a_slave_has_under_other_names_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "SHOP.yaml").write_text("""
prefix: SHOP_
master: {conn_id: m}
slaves:
  dr1: {conn_id: s}
  dr2: {conn_id: t, tables: {public.orders: {}, 'sales.*': {}}}
tables:
  public.*: {}
  public.orders: {target: {schema: archive, name: "of <shop>"}}
  sales.*: {target: {schema: sales_copy}}
""")
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    replication = config.load("SHOP_")
    names = 'public.orders is archive."of <shop>", sales.* is sales_copy.*'
    assert elsewhere(replication, "dr1") == [f"    names of tables on the slave: {names}"]
    assert row(replication, "dr1", LiveSlave(), NOW).places == names
    assert elsewhere(replication, "dr2") == []
