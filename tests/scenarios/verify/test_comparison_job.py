"""A comparison is a process of its own, which ends with its task and reports why it has no result."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import pytest

from sluice.airflow import comparison_job
from sluice.coordination.lease import Lease
from tests.rig.loaders import Background
from tests.rig.rig import Rig
from tests.waiting import until


def given(pair: Rig, **other: Any) -> dict[str, Any]:
    infos = {"m": pair.master_info, "s": pair.slave_info}
    return {
        "prefix": "DEMO_", "slave": "dr1", "redis_url": pair.redis_url,
        "connections": {name: info.to_dict() for name, info in infos.items()}, "table": ["public", "log"],
        "actions": "IUD", "action": "verify", "limit": 1, "sample": 0, "started": "", "report": "/dev/null/none",
    } | other  # fmt: skip


def processes() -> list[psutil.Process]:
    """The processes of comparisons that this one has started."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if "spark_jobs.resync" in " ".join(child.cmdline())]


@contextmanager
def interrupted(met: Callable[[], object]) -> Iterator[None]:
    """Interrupts the block as soon as `met` holds, as Airflow ends a task."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def send() -> None:
        until(met)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    sender = Background(send)
    try:
        yield
    finally:
        assert sender.end() is None
        signal.signal(signal.SIGUSR1, before)


def test_it_says_why_it_has_no_result_and_ends_with_its_task(
    rig: Callable[..., Rig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    pair = rig("CREATE TABLE public.log (line text)")
    report = tmp_path / "part.json"
    comparison_job.run(given(pair, report=str(report)))
    assert json.loads(report.read_text())["outcome"] == "identical" and report.stat().st_mode & 0o077 == 0
    with pytest.raises(comparison_job.ComparisonRefused, match="NOPE_"):
        comparison_job.run(given(pair, prefix="NOPE_"))
    with pytest.raises(comparison_job.ComparisonEnded, match=r"ended with status 75: .*/dev/null"):
        comparison_job.run(given(pair))  # the report cannot be written
    lease = Lease(pair.store, pair.pair.prefix, "dr1", 60.0)
    lease.acquire()
    seen: list[psutil.Process] = []

    def waits() -> bool:
        """Whether a comparison runs and waits for an apply, which never answers."""
        seen[:] = processes()
        return bool(seen) and any("request" in key for key in map(str, pair.store.keys("sluice:DEMO_:dr1:*")))

    try:
        with pytest.raises(KeyboardInterrupt), interrupted(waits):
            comparison_job.run(given(pair))
    finally:
        lease.release()
    assert not any(process.is_running() for process in seen)
