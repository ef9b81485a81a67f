"""A real Prometheus reads the metrics of a real Airflow: alerts fire when they should, the dashboard shows data."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.airflow_home import ROOT
from tests.browser import npm_package, prometheus
from tests.browser.rig import Monitor
from tests.waiting import until

pytestmark = pytest.mark.long
MONITORING = ROOT / "include" / "monitoring"
ALERTS = MONITORING / "alerts.yaml"
GRAFANA = (
    "@grafana/schema",
    "13.2.3",
    "rk8FEO7yuFfRTK/JD39747SZFQ+iCTQbpm6Mh2OjnqGx/g/uQQFx56t64eCLXWEyoR68ru4cigcGKrXk+ozrLg==",
)
TYPESCRIPT = (
    "typescript",
    "5.9.3",
    "jl1vZzPDinLr9eUt3J/t7V6FgNEw9QjvBPdysz9KfQDD41fQrC2Y4vKQdiaUpFT4bXlb1RHhLpp8wtm6M5TgSw==",
)
LABELS = {"prefix": "DEMO_", "slave": "dr1"}


def of_slave(metric: str, **more: str) -> str:
    named = ",".join(f'{name}="{value}"' for name, value in {**LABELS, **more}.items())
    return f"sluice_{metric}{{{named}}}"


def of_master(metric: str) -> str:
    return f'sluice_{metric}{{prefix="DEMO_"}}'


NORMAL, INCONSISTENT = (of_slave("slave_state", state=state) for state in ("NORMAL", "INCONSISTENT"))
VERIFIED = of_slave("verified_timestamp_seconds")
LATE = "SluiceNotVerified"
CASES: dict[str, tuple[str, dict[str, int], dict[str, int]]] = {
    # alert: after how long it fires; the series with which it does; what of them is otherwise, so that it does not
    "SluiceMonitorSilent": ("6m", {}, {"sluice_store_up": 1}),
    "SluiceRedisDown": ("2m", {"sluice_store_up": 0}, {"sluice_store_up": 1}),
    "SluiceSlaveInconsistent": ("0m", {INCONSISTENT: 1}, {INCONSISTENT: 0}),
    "SluiceApplyNotRunning": ("3m", {of_slave("apply_running"): 0, NORMAL: 1}, {NORMAL: 0}),
    "SluiceLag": (
        "3m",
        {of_slave("lag_seconds"): 30, of_master("lag_critical_seconds"): 30, NORMAL: 1},
        {of_master("lag_critical_seconds"): 60},
    ),
    "SluiceCritical": ("11m", {of_slave("slave_level"): 2}, {of_slave("slave_level"): 1}),
    "SluiceGateClosed": ("61m", {of_slave("gate_closures"): 1, NORMAL: 1}, {of_slave("gate_closures"): 0}),
    "SluiceRejects": ("0m", {of_slave("tables_with_rejects"): 1}, {of_slave("tables_with_rejects"): 0}),
    "SluiceTablesNotReady": ("16m", {of_slave("tables_not_ready"): 1}, {of_slave("tables_not_ready"): 0}),
    "SluiceNotEqual": ("0m", {of_slave("tables_not_equal"): 1}, {of_slave("tables_not_equal"): 0}),
    LATE: ("193h", {VERIFIED: 1}, {VERIFIED: 0}),
    "SluiceQueueGrows": (
        "31m",
        {of_master("queue_changes"): 9, of_master("queue_warning_changes"): 9, of_master("purge_held"): 1},
        {of_master("purge_held"): 0},
    ),
    "SluiceNotCaptured": ("16m", {of_master("tables_not_captured"): 1}, {of_master("tables_not_captured"): 0}),
    "SluiceRedoSilent": (
        "5m",
        {of_master("redo_heard_timestamp_seconds"): 1},
        {of_master("redo_heard_timestamp_seconds"): 0},
    ),
    "SluiceRedoThreadFailed": ("6m", {of_master("redo_thread_failed"): 1}, {of_master("redo_thread_failed"): 0}),
    "SluiceConfigurationBroken": ("6m", {"sluice_broken_replications": 1}, {"sluice_broken_replications": 0}),
}
ALIVE = {"sluice_store_up": "1x3000", "sluice_read_timestamp_seconds": "0+240x3000"}
DEAD = ("SluiceMonitorSilent", "SluiceRedisDown")


def tool(*words: str | Path) -> None:
    done = subprocess.run([prometheus.program("promtool"), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    return found


def test_prometheus_accepts_the_alert_rules() -> None:
    tool("check", "rules", ALERTS)


@pytest.mark.parametrize(("pace", "alerts"), [("1m", CASES.keys() - {LATE}), ("1h", {LATE})])
def test_each_alert_fires_after_its_time_and_not_without_reason(tmp_path: Path, pace: str, alerts: set[str]) -> None:
    """`pace`: the interval at which the rules are evaluated."""
    assert set(CASES) == {rule["alert"] for rule in rules()}
    tests = []
    for rule in rules():
        after, wrong, right = CASES[rule["alert"]]
        for series, fires in ((wrong, True), ({**wrong, **right}, False)):
            if rule["alert"] in alerts:
                alive = ALIVE if not (fires and rule["alert"] in DEAD) else {}
                values = {**alive, **{name: f"{value}x3000" for name, value in series.items()}}
                tests.append(case(rule, after, values, next(iter(series), ""), fires=fires))
    (tmp_path / "test.yaml").write_text(
        json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": pace, "tests": tests})
    )
    tool("test", "rules", tmp_path / "test.yaml")


def case(rule: dict[str, Any], after: str, series: dict[str, str], kept: str, *, fires: bool) -> dict[str, Any]:
    """A case of promtool; `kept`: the series with the labels of the alert."""
    named = dict(part.split("=") for part in kept.partition("{")[2].rstrip("}").split(",") if part)
    labels = {name: value.strip('"') for name, value in named.items()} | rule["labels"]
    labels |= {"alertname": rule["alert"], "alertstate": "firing"}
    shown = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
    return {
        "interval": "4m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f'ALERTS{{alertname="{rule["alert"]}",alertstate="firing"}}',
                "eval_time": after,
                "exp_samples": [{"labels": f"ALERTS{{{shown}}}", "value": 1}] if fires else [],
            }
        ],
    }


def test_the_dashboard_fits_grafanas_published_types(tmp_path: Path) -> None:
    schema, compiler = (npm_package.unpacked(*package) for package in (GRAFANA, TYPESCRIPT))
    # To TypeScript no text is a member of an enumeration.
    dashboard = (MONITORING / "grafana.json").read_text().replace('"absolute"', "types.ThresholdsMode.Absolute")
    (tmp_path / "types.d.ts").symlink_to(schema / "dist/types/raw/dashboard/x/types.gen.d.ts")
    head = "import * as types from './types';\nexport const dashboard: types.Dashboard = "

    def checked(text: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "dashboard.ts").write_text(head + text)
        command = ["node", compiler / "bin/tsc", "--noEmit", "--strict", tmp_path / "dashboard.ts"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = checked(dashboard)
    assert done.returncode == 0, done.stdout
    wrong = checked(dashboard.replace('"gridPos"', '"place"'))
    assert wrong.returncode != 0 and "'Panel'" in wrong.stdout, "it looks at panels"


def test_prometheus_has_data_for_each_panel_of_the_dashboard(monitor: Monitor, tmp_path: Path) -> None:
    token = monitor.token("anna")
    dashboard = json.loads((MONITORING / "grafana.json").read_text())
    panels = [
        (panel["title"], target["expr"].replace("$prefix", ".*").replace("$slave", ".*"))
        for panel in dashboard["panels"]
        for target in panel["targets"]
    ]
    assert len(panels) >= 10
    with prometheus.scraping(monitor.url.removeprefix("http://"), token, ALERTS, tmp_path) as server:
        until(lambda: len(server.values("sluice_slave_level")) == 7)
        # A rate wants two samples.
        until(lambda: not [title for title, expression in panels if not server.values(expression)])
        groups = server.ask("rules")["groups"]
        until(lambda: all(rule["health"] == "ok" for rule in server.ask("rules")["groups"][0]["rules"]))
        assert len(groups[0]["rules"]) == len(rules())
        firing = 'ALERTS{alertname="SluiceSlaveInconsistent",alertstate="firing",slave="dr2"}'
        until(lambda: bool(server.values(firing)))
        listed = server.ask("label/prefix/values")
        assert {"SHOP_", "STOCK_"} <= set(listed), "what the dashboard's drop-downs offer"
