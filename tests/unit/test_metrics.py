"""Metrics in the format of Prometheus, and the alerts and the dashboard that use them."""

import json
import re
from pathlib import Path

import pytest
import yaml

from sluice.airflow.pages import metrics
from sluice.airflow.pages.gathering import Gathered
from sluice.airflow.pages.metrics import Metric
from sluice.coordination.live_state import LiveMaster, LiveState
from sluice.coordination.records import MeasuredQueue
from sluice.coordination.redo_state import RedoStatus, ThreadStatus
from sluice.load.progress import Progress, TableLoad
from sluice.model.names import Prefix, TableName
from sluice.model.slave_state import SlaveState
from sluice.model.throttle_state import ThrottleState
from tests.unit.test_monitor import NOW, known, replication, said, survey

FOLDER = Path(__file__).resolve().parents[2] / "include" / "monitoring"
LINE = re.compile(r'(sluice_\w+)(\{(\w+="([^"\\\n]|\\["\\n])*"(,\w+="([^"\\\n]|\\["\\n])*")*)\})? (-?[0-9.e+-]+)')
SLAVE = '{prefix="DEMO_",slave="dr1"}'


def told(trouble: str = "") -> str:
    slaves = {(Prefix("DEMO_"), "dr1"): known(said(75, rate=12.5, changes=99, safe_mode="on after the start"))}
    thread = ThreadStatus("1_2", "failed", 7, 4711, NOW.timestamp() - 30, 4, "", 3)
    redo = RedoStatus("host", 3, NOW.timestamp(), (thread,))
    queue = MeasuredQueue(NOW.isoformat(), 7, 8192, ("dr9",))
    masters = {Prefix("DEMO_"): LiveMaster(queue=queue, redo=redo)}
    found = survey(replication())
    tables = tuple(TableLoad(TableName("public", name), 0, 0, 1, 50, 9, 2.0, estimate=50) for name in "ab")
    load = Progress(SlaveState.TRANSITION, "", tables, ThrottleState(paused=True))
    gathered = Gathered(found, LiveState(masters, slaves), NOW, trouble)
    return metrics.text(gathered, NOW, {("DEMO_", "dr1"): load})


def test_every_line_is_one_that_prometheus_reads() -> None:
    lines = told().splitlines()
    values = [line for line in lines if not line.startswith("#")]
    assert all(LINE.fullmatch(line) for line in values), values
    heads = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads)), "each metric once"
    assert {LINE.fullmatch(line)[1] for line in values} == set(heads)  # type: ignore[index]


@pytest.mark.parametrize(
    "line",
    [
        f"sluice_lag_seconds{SLAVE} 75",
        f"sluice_changes_per_second{SLAVE} 12.5",
        f"sluice_changes_total{SLAVE} 99",
        f"sluice_slave_level{SLAVE} 1",
        f"sluice_safe_mode{SLAVE} 1",
        f"sluice_apply_running{SLAVE} 1",
        'sluice_slave_state{prefix="DEMO_",slave="dr1",state="NORMAL"} 1',
        'sluice_slave_state{prefix="DEMO_",slave="dr1",state="INCONSISTENT"} 0',
        'sluice_queue_changes{prefix="DEMO_"} 7',
        'sluice_purge_held{prefix="DEMO_"} 1',
        'sluice_redo_lag_seconds{prefix="DEMO_",thread="1_2"} 30',
        'sluice_redo_thread_failed{prefix="DEMO_",thread="1_2"} 1',
        'sluice_redo_logs_behind{prefix="DEMO_",thread="1_2"} 3',
        'sluice_redo_log_sequence{prefix="DEMO_",thread="1_2"} 7',
        'sluice_redo_scn{prefix="DEMO_",thread="1_2"} 4711',
        'sluice_redo_restarts{prefix="DEMO_",thread="1_2"} 4',
        f'sluice_redo_heard_timestamp_seconds{{prefix="DEMO_"}} {NOW.timestamp():.10g}',
        "sluice_store_up 1",
        f"sluice_load_rows{SLAVE} 100",
        f"sluice_load_expected_rows{SLAVE} 100",
        f"sluice_load_tables_stored{SLAVE} 2",
        f"sluice_load_paused{SLAVE} 1",
        'sluice_lag_critical_seconds{prefix="DEMO_"} 600',
        'sluice_queue_warning_changes{prefix="DEMO_"} 10000000',
    ],
)
def test_known_values_are_exported(line: str) -> None:
    assert line in told().splitlines()


def test_an_unreachable_redis_is_exported() -> None:
    assert "sluice_store_up 0" in told("Redis does not answer").splitlines()


def test_a_label_may_hold_anything() -> None:
    (*_, line) = Metric("sluice_x", "gauge", "X.", [({"name": 'a"b\\c\nd'}, 1)]).lines()
    assert line == r'sluice_x{name="a\"b\\c\nd"} 1' and LINE.fullmatch(line)


def test_alerts_and_dashboard_name_only_metrics_that_there_are() -> None:
    there = set(re.findall(r"^# TYPE (\w+)", told(), re.MULTILINE))
    rules = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"][0]["rules"]
    dashboard = json.loads((FOLDER / "grafana.json").read_text())
    expressions = [rule["expr"] for rule in rules]
    expressions += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    expressions += [str(one["query"]) for one in dashboard["templating"]["list"]]
    named = {name for text in expressions for name in re.findall(r"\bsluice_\w+", text)}
    assert named <= there
    assert len(rules) == len({rule["alert"] for rule in rules}) > 10
    assert all(rule["labels"]["severity"] in ("warning", "critical") for rule in rules)
    assert all(rule["annotations"]["summary"] for rule in rules)
