"""Progress from Spark's server, and servers that are refused."""

import pyspark
import pytest
from pyspark.sql.connect.shell.progress import StageInfo

from spark_jobs.executors import ServerDiffers, check_version
from spark_jobs.progress import TaskProgress


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


def test_a_server_of_another_release_is_refused_with_the_remedy() -> None:
    check_version("sc://spark:15002", pyspark.__version__)
    with pytest.raises(ServerDiffers, match=r"sc://spark:15002 is 3\.5\.1, .*server of 4\.\d+: docs/spark.md"):
        check_version("sc://spark:15002", "3.5.1")
    major, minor, _ = pyspark.__version__.split(".", 2)
    check_version("sc://spark:15002", f"{major}.{minor}.99")
