"""The tasks of a broadcast: the master and its slaves answer one query at one position."""

import logging

from sluice.airflow.step import step
from sluice.airflow.task_context import TaskContext, listed
from sluice.counted import counted
from sluice.database.broadcasts import Query
from sluice.errors import Terminal
from sluice.model.broadcast import Answer, Broadcast
from sluice.operate import broadcast

log = logging.getLogger("sluice.airflow")

WAIT_SECONDS = 60.0
"""How long the task waits for slaves, in addition to the time limit of the query."""


@step
def queue(task: TaskContext) -> int:
    """The master answers the query, and ITEMS queues it among the changes."""
    params = task.context["params"]
    statement = str(params["statement"] or "").strip()
    if not statement:
        raise Terminal(
            "Write the query that all databases shall answer, with the schemas of its tables.", code="statement-missing"
        )
    person, seconds = task.person("the DAG broadcast"), float(params["seconds"])
    query = Query(statement, person, listed(params["slaves"]), seconds)
    return broadcast.ask(task.replication, task.info(task.replication.master), query)


@step
def collect(task: TaskContext) -> str:
    """Waits for the slaves, and logs each answer."""
    number = int(task.context["ti"].xcom_pull(task_ids="queue"))
    seconds = WAIT_SECONDS + float(task.context["params"]["seconds"])
    answered = broadcast.await_answers(task.replication, task.info(task.replication.master), number, seconds)
    text = "\n".join(lines(answered))
    log.info("%s: %s", task, text)
    return text


def lines(query: Broadcast) -> list[str]:
    """The query and its answers as lines of text."""
    assert query.master is not None
    text = [f"query {query.id}, asked by {query.asked_by} at {query.asked_at}: {query.statement}"]
    text.append(f"master: {_answer(query.master)}")
    for slave, answer in query.slaves.items():
        state = query.state(slave)
        differs = answer is not None and (answer.error or answer.digest != query.master.digest)
        text.append(f"{slave}: {state}" + (f", {_answer(answer)}" if answer is not None and differs else ""))
    return text


def _answer(answer: Answer) -> str:
    if answer.error:
        return answer.error
    rows = [" | ".join("NULL" if value is None else value for value in row) for row in answer.rows]
    more = ["…"] if answer.count > len(rows) and rows else []
    return "; ".join([counted(answer.count, "row"), *rows, *more])
