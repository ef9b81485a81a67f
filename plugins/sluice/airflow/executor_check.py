"""The part of the preflight that runs on Spark's executors: what they reach, and whether they have a free slot."""

from collections.abc import Sequence

from sluice.airflow import applies, connections
from sluice.airflow.task_context import TaskContext
from sluice.counted import duration
from sluice.errors import SluiceError
from sluice.model.lack import MASTER, Lack, Severity, slave_side

SPARK = "Spark"


def lacks(task: TaskContext, slaves: Sequence[str]) -> list[Lack]:
    """What executors of the endpoint lack; nothing without an endpoint."""
    endpoint = connections.endpoint()
    if not endpoint.remote:
        return []
    place = str(endpoint)
    if away := applies.why_no_spark():
        return [
            Lack(
                SPARK, "an executor that answers",
                f"{away.rstrip('.')}; loads and comparisons wait, and applies are processes meanwhile", None,
                Severity.WARNING, place=place, remedy="Look whether Spark runs and has free slots: docs/spark.md.",
            )
        ]  # fmt: skip
    on_spark = not applies.why_process(task.replication)
    found = []
    if on_spark and (short := applies.short_session(endpoint)) is not None:
        found.append(
            Lack(
                SPARK, "sessions that it keeps for a day",
                f"an apply ends when Airflow is away for {duration(short)}, and begins again when it is back", None,
                Severity.WARNING, place=place,
                remedy="Set spark.connect.session.manager.defaultSessionTimeout of its server to 1d or more.",
            )
        )  # fmt: skip
    from spark_jobs.reach import ENDPOINT, REDIS, ReachTask, unreached

    replication = task.replication
    sides = [(MASTER, task.info(replication.master))] if not replication.master.stream else []
    sides += [(slave_side(name), task.info(replication.slave(name))) for name in slaves]
    work = ReachTask(sides, connections.redis_url(), endpoint)
    try:
        missed = unreached(f"sluice {task}", work)
    except SluiceError as error:
        return [Lack(SPARK, "executors that can do the work", str(error).rstrip("."), None, place=place)]
    for one in missed:
        why = f"the executor on {one.host} does not reach it: {one.reason.rstrip('.')}"
        if one.side == ENDPOINT:
            found.append(
                Lack(
                    SPARK, "its endpoint, from executors", f"{why}; the apply works on large windows alone", None,
                    Severity.WARNING, place=one.place, remedy="Let spark_default name it as executors reach it.",
                )
            )  # fmt: skip
        elif one.side == REDIS:
            remedy = "Let executors reach it: they apply, and ask the apply for comparisons and repairs."
            severity = Severity.ERROR if on_spark else Severity.WARNING  # without it nothing is compared
            found.append(Lack(REDIS, "a way from executors", why, None, severity, place=one.place, remedy=remedy))
        else:
            remedy = "Let executors reach the database: they load and apply."
            found.append(Lack(one.side, "a way from executors", why, None, place=one.place, remedy=remedy))
    return found
