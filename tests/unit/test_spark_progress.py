"""What Spark's server says: progress, how long it keeps sessions, its release."""

from dataclasses import replace

import pyspark
from pyspark.sql.connect.shell.progress import StageInfo

from sluice.coordination.apply_query import QueryRecord
from spark_jobs.apply_query import kept_seconds
from spark_jobs.executors import check_version
from spark_jobs.job_name import TaskProgress
from tests.errors import raises_code


def stage(ended: int, tasks: int) -> StageInfo:
    return StageInfo(stage_id=1, num_tasks=tasks, num_completed_tasks=ended, num_bytes_read=0, done=ended == tasks)


def test_progress_adds_up_what_runs_and_forgets_what_has_ended() -> None:
    progress = TaskProgress()
    assert str(progress) == ""
    progress([stage(0, 8)], 2, "one", False)
    progress([], 0, "two", False)
    progress([stage(4, 4), stage(1, 4)], 2, "two", False)
    assert str(progress) == "5 of 16 tasks"
    progress([stage(3, 8)], 2, "one", False)
    progress(None, 0, "two", True)
    assert str(progress) == "3 of 8 tasks"
    progress([stage(8, 8)], 0, "one", True)
    assert str(progress) == ""


def test_work_of_which_no_task_runs_for_some_seconds_waits_for_a_slot() -> None:
    now = [0.0]
    progress = TaskProgress(lambda: now[0])
    progress([stage(1, 8)], 1, "runs", False)
    progress([stage(0, 2)], 0, "waits", False)
    assert not progress.waits
    now[0] = 60.0
    assert progress.waits
    progress([stage(0, 2)], 1, "waits", False)
    assert not progress.waits
    progress([stage(1, 2)], 0, "waits", False)
    now[0] = 61.0
    assert not progress.waits
    now[0] = 70.0
    assert progress.waits
    progress(None, 0, "waits", True)
    assert not progress.waits


def test_session_timeouts_are_read_as_spark_writes_them() -> None:
    texts = ("60m", "5min", "86400s", "2 h", "60d", "3600000", "-1", "soon")
    assert [kept_seconds(text) for text in texts] == [3_600, 300, 86_400, 7_200, 5_184_000, 3_600, None, None]
    record = QueryRecord("", {}, 0.0, "", "")
    shown = [replace(record, session_seconds=kept_seconds(text)).short_session for text in texts[:5]]
    assert shown == [3_600, 300, None, 7_200, None]


def test_a_server_of_another_release_is_refused_with_the_remedy() -> None:
    check_version("sc://spark:15002", pyspark.__version__)
    with raises_code("spark-release-differs", match=r"sc://spark:15002 is 3\.5\.1, .*server of 4\.\d+: docs/spark.md"):
        check_version("sc://spark:15002", "3.5.1")
    major, minor, _ = pyspark.__version__.split(".", 2)
    check_version("sc://spark:15002", f"{major}.{minor}.99")
