"""Metrics in the text format of Prometheus, which collectors of OpenTelemetry read, too."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sluice.airflow.pages.gathering import Gathered
from sluice.airflow.pages.overview import Choice, MasterGroup, overview
from sluice.airflow.pages.slave_row import SlaveRow, moment
from sluice.configuration.model import Replication
from sluice.load.progress import Progress
from sluice.model.slave_state import SlaveState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


@dataclass
class Metric:
    """One metric with its samples, in Prometheus's terms."""

    name: str
    kind: str
    """`gauge` or `counter`."""
    help: str
    values: list[tuple[Labels, float]] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for labels, value in self.values:
            named = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            yield f"{self.name}{{{named}}} {value:.10g}" if named else f"{self.name} {value:.10g}"


Loads = Mapping[tuple[str, str], Progress]
"""Progress of running loads, by prefix and slave."""


def text(gathered: Gathered, now: datetime, loads: Loads | None = None) -> str:
    """`now`: with a time zone."""
    page = overview(gathered, Choice(), now)
    rows = [one for group in page.groups for one in group.rows]
    changes = {
        (str(prefix), slave): live.status.get("changes") for (prefix, slave), live in gathered.live.slaves.items()
    }
    metrics = [
        *_own(gathered, len(page.broken)), *_of_slaves(rows, changes), *_of_masters(page.groups, now),
        *_of_loads(loads or {}), *_thresholds(gathered.survey.replications),
    ]  # fmt: skip
    return "\n".join(line for metric in metrics for line in metric.lines()) + "\n"


def _own(gathered: Gathered, broken: int) -> Iterator[Metric]:
    yield Metric("sluice_store_up", "gauge", "Whether Redis answers.", [({}, not gathered.trouble)])
    yield Metric("sluice_read_timestamp_seconds", "gauge", "When the state was read.", [({}, gathered.at.timestamp())])
    yield Metric("sluice_broken_replications", "gauge", "Replications with mistakes in their files.", [({}, broken)])


def _of_slaves(rows: Iterable[SlaveRow], changes: Mapping[tuple[str, str], object]) -> list[Metric]:
    lag = Metric("sluice_lag_seconds", "gauge", "Seconds by which a slave is behind its master.")
    state = Metric("sluice_slave_state", "gauge", "1 for the state that a slave is in.")
    level = Metric("sluice_slave_level", "gauge", "0 fine, 1 warning, 2 critical: the worst message of a slave.")
    running = Metric("sluice_apply_running", "gauge", "Whether an apply holds the lease.")
    rate = Metric("sluice_changes_per_second", "gauge", "Changes applied a second, of the last seconds.")
    total = Metric("sluice_changes_total", "counter", "Changes applied since the slave was created.")
    safe = Metric("sluice_safe_mode", "gauge", "Whether the apply is in safe mode.")
    closed = Metric("sluice_gate_closures", "gauge", "Closures of the gate of a slave.")
    tables = Metric("sluice_tables", "gauge", "Tables of a slave.")
    lacking = Metric("sluice_tables_not_ready", "gauge", "Tables whose changes are left out.")
    loading = Metric("sluice_tables_loading", "gauge", "Tables that are loaded while the slave is NORMAL.")
    rejects = Metric("sluice_tables_with_rejects", "gauge", "Tables with changes that are set aside in REJECTS.")
    unequal = Metric("sluice_tables_not_equal", "gauge", "Tables whose last comparison did not find them equal.")
    verified = Metric(
        "sluice_verified_timestamp_seconds", "gauge", "Through when all tables are verified; 0 for never."
    )
    for one in rows:
        labels = {"prefix": one.prefix, "slave": one.slave}
        if one.lag is not None:
            lag.values.append((labels, one.lag))
        state.values += [({**labels, "state": str(each)}, one.state is each) for each in SlaveState]
        level.values.append((labels, one.level))
        running.values.append((labels, one.applying))
        rate.values.append((labels, one.rate))
        done = changes.get((one.prefix, one.slave))
        if isinstance(done, int):
            total.values.append((labels, done))
        safe.values.append((labels, one.safe_mode.startswith("on")))
        closed.values.append((labels, len(one.closures)))
        tables.values.append((labels, one.tables))
        lacking.values.append((labels, len(one.not_ready)))
        loading.values.append((labels, len(one.loading)))
        rejects.values.append((labels, len(one.rejects)))
        unequal.values.append((labels, one.different))
        verified.values.append((labels, one.verified.timestamp() if one.verified else 0))
    return [
        lag, state, level, running, rate, total, safe, closed, tables, lacking, loading, rejects, unequal, verified,
    ]  # fmt: skip


def _of_masters(groups: Iterable[MasterGroup], now: datetime) -> list[Metric]:
    changes = Metric("sluice_queue_changes", "gauge", "Changes in ITEMS, delivered ones until the next purge included.")
    size = Metric("sluice_queue_bytes", "gauge", "Bytes of ITEMS, indexes included.")
    measured = Metric("sluice_queue_measured_timestamp_seconds", "gauge", "When ITEMS was measured last.")
    holders = Metric("sluice_purge_held", "gauge", "Slaves that hold the purge of ITEMS.")
    lost = Metric("sluice_tables_not_captured", "gauge", "Tables of the configuration whose changes are lost.")
    lag = Metric("sluice_redo_lag_seconds", "gauge", "Seconds by which a redo thread is behind, by its last SCN.")
    failed = Metric("sluice_redo_thread_failed", "gauge", "Whether the program of a redo thread has failed.")
    heard = Metric("sluice_redo_heard_timestamp_seconds", "gauge", "When the redo capture last wrote its status.")
    logs = Metric("sluice_redo_logs_behind", "gauge", "Archived logs of a redo thread that are not received yet.")
    log = Metric("sluice_redo_log_sequence", "gauge", "The log of a redo thread up to which everything is received.")
    scn = Metric("sluice_redo_scn", "gauge", "The SCN of a redo thread up to which everything is received.")
    restarts = Metric("sluice_redo_restarts", "gauge", "Starts of a redo thread's program since its supervisor began.")
    for group in groups:
        labels, queue = {"prefix": group.prefix}, group.live.queue
        if group.live.redo:
            heard.values.append((labels, group.live.redo.written))
        for thread in group.live.redo.threads if group.live.redo else ():
            named = {**labels, "thread": thread.thread}
            failed.values.append((named, thread.state == "failed"))
            restarts.values.append((named, thread.restarts))
            if thread.time:
                lag.values.append((named, max(0.0, now.timestamp() - thread.time)))
            if thread.scn:
                scn.values.append((named, thread.scn))
            if thread.sequence:
                log.values.append((named, thread.sequence))
            if thread.logs_behind is not None:
                logs.values.append((named, thread.logs_behind))
        lost.values.append((labels, len(group.live.issues)))
        if queue is not None:
            changes.values.append((labels, queue.changes))
            size.values.append((labels, queue.bytes))
            measured.values.append((labels, (moment(queue.at) or datetime.fromtimestamp(0, UTC)).timestamp()))
            holders.values.append((labels, len(queue.held_by)))
    return [changes, size, measured, holders, lost, lag, failed, heard, logs, log, scn, restarts]


def _of_loads(loads: Loads) -> list[Metric]:
    rows = Metric("sluice_load_rows", "gauge", "Rows that a load has stored; only while it is running.")
    expected = Metric("sluice_load_expected_rows", "gauge", "Rows that it will have stored, by statistics.")
    done = Metric("sluice_load_tables_stored", "gauge", "Tables that it has stored.")
    tables = Metric("sluice_load_tables", "gauge", "Tables that it loads.")
    paused = Metric("sluice_load_paused", "gauge", "Whether the throttle has paused it.")
    for (prefix, slave), load in loads.items():
        labels = {"prefix": prefix, "slave": slave}
        rows.values.append((labels, load.rows))
        if load.expected is not None:
            expected.values.append((labels, load.expected))
        done.values.append((labels, load.stored_tables))
        tables.values.append((labels, len(load.tables)))
        paused.values.append((labels, load.throttle.paused))
    return [rows, expected, done, tables, paused]


def _thresholds(replications: Iterable[Replication]) -> list[Metric]:
    """The configured limits, for alerts to compare with."""
    thresholds = {
        "sluice_lag_warning_seconds": ("a lag is a warning", "lag_warning"),
        "sluice_lag_critical_seconds": ("a lag is critical", "lag_critical"),
        "sluice_queue_warning_changes": ("a queue is a warning", "queue_warning"),
        "sluice_queue_critical_changes": ("a queue is critical", "queue_critical"),
    }
    listed = list(replications)
    return [
        Metric(name, "gauge", f"From which value on {what}, by the configuration.",
               [({"prefix": str(one.prefix)}, getattr(one.monitor, option)) for one in listed])
        for name, (what, option) in thresholds.items()
    ]  # fmt: skip


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
