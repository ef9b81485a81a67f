"""The task of the DAG `gate`: a person holds a slave back, or lets it continue."""

import logging

from sluice.airflow.step import step
from sluice.airflow.task_context import ReasonMissing, TaskContext
from sluice.apply.admin_closure import AdminClosure
from sluice.errors import Terminal

log = logging.getLogger("sluice.airflow")


@step
def decide(task: TaskContext) -> str:
    """Closes the slave's gate, opens it, or shows who keeps it closed."""
    params = task.context["params"]
    action, reason = str(params["action"]), str(params["reason"] or "").strip()
    slave = task.slave
    hold = AdminClosure(task.redis, task.prefix, slave, task.info(slave))
    if action == "close":
        if not reason:
            raise ReasonMissing(
                "Give a reason for closing the gate: it is shown to everybody who asks why the slave does not follow."
            )
        if task.checkpoint(slave) is None:
            raise Terminal(
                f"{task}: there is nothing to hold back before the slave's first initial update.",
                code="nothing-to-hold",
            )
        hold.close(task.person("the DAG gate"), reason)
    elif action == "open" and not hold.open():
        log.info("%s: no person had closed the gate", task)
    closures = hold.gate.closures()
    state = "closed: " + "; ".join(map(str, closures)) if closures else "open"
    log.info("%s: the gate is %s", task, state)
    return f"{task}: the gate is {state}"
