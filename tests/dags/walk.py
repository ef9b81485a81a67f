"""A run of `initial_update` on real databases, task by task, with a stand-in for Airflow."""

from types import SimpleNamespace
from typing import Any

from sluice.airflow import multi_slave, transfer_form
from sluice.airflow.selection_form import update_of
from sluice.airflow.steps_master import check, install_resources, reconcile
from sluice.airflow.steps_update import begin, create_tables, make_folder, plan
from sluice.airflow.task_context import TaskContext
from sluice.load.load_job import LoadJob
from sluice.load.transfer import transfer_steps
from sluice.load.transfer.exporter import export_worker
from sluice.load.transfer.transfer_folder import TransferFolder

RUN = "manual__2026"


class Ti:
    """The part of a task instance that tasks use."""

    dag_id, run_id, try_number, task_id = "initial_update", RUN, 1, "begin"

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Any] = {}
        self.states: dict[str, str] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.kept[self.task_id, key] = value

    def xcom_pull(self, task_ids: str, key: str = "return_value") -> Any:
        return self.kept.get((task_ids, key))

    def get_task_states(self, **_: Any) -> dict[str, dict[str, str]]:
        return {self.run_id: self.states}


class Walk:
    """A run of the DAG, task by task."""

    def __init__(self, **params: Any):
        self.ti = Ti()
        self.params = {"prefix": "DEMO_", "transfer": "files", "location": None, **params}

    @property
    def context(self) -> dict[str, Any]:
        dag = SimpleNamespace(dag_id="initial_update")
        return {"ti": self.ti, "run_id": self.ti.run_id, "params": self.params, "dag": dag}

    @property
    def work(self) -> TaskContext:
        return TaskContext.of(self.context)

    def do(self, task: Any, name: str) -> Any:
        self.ti.task_id = name
        answer = task.body(self.work)
        self.ti.xcom_push("return_value", answer)
        return answer

    def prepare(self) -> None:
        for task, name in ((check, "check"), (install_resources, "install_resources"), (reconcile, "reconcile"),
                           (begin, "begin"), (create_tables, "create_tables"), (plan, "plan"),
                           (make_folder, "make_folder")):  # fmt: skip
            self.do(task, name)

    def export(self) -> None:
        """Does what the load job does for the leading slave."""
        names = multi_slave.members(self.context)
        updates = [update_of(self.work.of_slave(name)) for name in names]
        carried = TransferFolder(transfer_form.written(self.context))
        with LoadJob(updates[0]) as job:
            export_worker(updates[0], job.loader(1), carried)
        transfer_steps.seal(updates[0], carried, updates[1:])
