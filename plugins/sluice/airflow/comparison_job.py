"""Runs a comparison in its own process, which has it done by a task of Spark if there is an endpoint."""

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sluice.airflow import connections, jobs, state_paths
from sluice.airflow.task_context import TaskContext
from sluice.errors import Terminal, Transient
from sluice.exit_status import DONE, TERMINAL
from sluice.model.names import TableName
from sluice.verify.report_types import Report
from sluice.verify.resync import Action
from sluice.with_parent import with_parent

log = logging.getLogger("sluice.verify")

GRACE_SECONDS = 10.0
"""How long the process has to end after SIGTERM."""
LOG_LINE = re.compile(r"\S+Z (?P<level>[A-Z]+) (?P<text>.*)")


def comparison_process_ended(status: int, last_line: str) -> Transient:
    """The process ended without a result."""
    how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    return Transient(
        f"The process that compares {how}: {last_line or 'it said nothing'}", code="comparison-process-ended"
    )


@dataclass(frozen=True)
class Comparison:
    """Tables to compare, in turn. `sluice.verify.resync` explains `limit`, `sample` and `started`."""

    tables: Mapping[TableName, Iterable[str]]
    """With the captured actions: I, U, D."""
    action: Action = Action.VERIFY
    limit: int | None = None
    sample: int = 0
    started: str = ""


def compare(task: TaskContext, comparison: Comparison, report: Path) -> Report:
    """Compares tables; returns the report, which the process writes to the file `report`.

    Raises `comparison-process-ended`, `comparison-failed`.
    """
    run({
        "prefix": str(task.prefix), "slave": task.slave.name, "redis_url": connections.redis_url(),
        "connections": {name: info.to_dict() for name, info in task.connections.items()},
        "spark": connections.spark(),
        "tables": [[table.schema, table.name, "".join(sorted(of))] for table, of in comparison.tables.items()],
        "action": str(comparison.action), "limit": comparison.limit, "sample": comparison.sample,
        "started": comparison.started, "report": str(report),
    })  # fmt: skip
    compared: Report = json.loads(report.read_text())
    return compared


def run(payload: Mapping[str, object]) -> None:
    """Runs `spark_jobs.resync` to its end and copies its log into this process's. It dies with this process.

    Raises `comparison-process-ended`, `comparison-failed`.
    """
    process = subprocess.Popen(
        with_parent([sys.executable, "-m", "spark_jobs.resync"]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
        cwd=state_paths.jobs_folder(),
        env=jobs.environment(),
        umask=0o077,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    last_line = ""
    try:
        with suppress(BrokenPipeError), process.stdin as stdin:
            stdin.write(json.dumps(payload))
        for line in process.stdout:
            last_line = _forward(line.rstrip()) or last_line
        status = process.wait()
    finally:
        _end(process)
    if status == TERMINAL:
        raise Terminal(last_line, code="comparison-failed")
    if status != DONE:
        raise comparison_process_ended(status, last_line)


def _forward(line: str) -> str:
    """Logs a line of the process under the line's own level; returns its text."""
    matched = LOG_LINE.fullmatch(line)
    level = logging.getLevelName(matched["level"]) if matched else logging.INFO
    text = matched["text"] if matched else line
    log.log(level if isinstance(level, int) else logging.INFO, "%s", text)
    return text


def _end(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
