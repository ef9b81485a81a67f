"""Tables that join with rows: announces them in the plan, and starts their loads.

Each NORMAL slave gets a run of `initial_update` for these tables alone. CHECKPOINT on the slave, together with the
changes in ITEMS that are not applied yet, tells which tables that are.
"""

import logging
from collections.abc import Iterable
from typing import Any, cast

from airflow.providers.standard.operators.trigger_dagrun import DagIsPaused, TriggerDagRunOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import DagRunTriggerException

from sluice.airflow.failure import as_airflow
from sluice.airflow.job import Owner
from sluice.airflow.runs import UPDATE_DAG, is_active
from sluice.airflow.step import RETRY, step
from sluice.airflow.task_context import TaskContext
from sluice.capture.plan import Add
from sluice.capture.reconcile import ReconcileReport
from sluice.coordination.gate import ERROR, Gate
from sluice.coordination.records import LoadStarted
from sluice.database.registry import master_of
from sluice.errors import SluiceError, Terminal
from sluice.load.selection import Selection
from sluice.model import joining
from sluice.model.joining import StartedLoad
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import how_to_load

log = logging.getLogger("sluice.airflow")


def announced(task: TaskContext, report: ReconcileReport) -> list[str]:
    """Lines about the tables that the planned steps of `report` add, and about what happens to them on each slave."""
    tables = [each.table for each in report.steps if isinstance(each, Add)]
    if not tables:
        return []
    # A run that loads all tables of a slave loads these, too.
    whole = () if Selection.from_dict(task.context["params"]).partial else task.slave_names
    slaves = [_slave(task, name) for name in task.replication.slaves if name not in whole]
    missing = [slave for slave in slaves if not slave.whole_later]
    if not missing:
        return []
    endpoint = task.replication.master
    with task.master() as master:
        rows = master_of(endpoint.vendor).queue(master, task.prefix, endpoint.schema).row_counts(tables)
    return joining.plan(task.prefix, rows, missing)


@step
def new_tables(task: TaskContext) -> list[dict[str, object]]:
    """Lists the loads of tables that joined with rows, one for each slave that is NORMAL. With `new_tables: wait` in
    the configuration of a slave it says what to start."""
    return _loads(task, [name for name in task.replication.slaves if name not in task.slave_names])


@step
def remaining_tables(task: TaskContext) -> list[dict[str, object]]:
    """The same for the slave of this update: tables that joined meanwhile, or that the form did not choose."""
    return _loads(task, task.slave_names)


def load_new_tables(entries: Any, task_id: str = "load_new_tables") -> object:
    """A task for each of `entries`, the result of the steps above."""
    return LoadNewTables.partial(task_id=task_id, map_index_template="{{ task.conf['slave'] }}", **RETRY).expand_kwargs(
        entries
    )


class LoadNewTables(TriggerDagRunOperator):
    """Starts the `initial_update` of tables that joined, unless it runs already. Does not wait for it."""

    def __init__(self, **kwargs: Any):
        super().__init__(trigger_dag_id=UPDATE_DAG, logical_date=None, fail_when_dag_is_paused=True, **kwargs)

    def execute(self, context: Context) -> None:
        with as_airflow(context):
            known = context["ti"].get_dr_count
            self.trigger_run_id, under_way = joining.next_run(
                str(self.trigger_run_id),
                lambda run: known(dag_id=UPDATE_DAG, run_ids=[run]) > 0,
                lambda run: is_active(Owner(UPDATE_DAG, run, "begin")),
            )
            if under_way:
                self.log.info("The run %s of %s is under way.", self.trigger_run_id, UPDATE_DAG)
                self._note(context)
                return
            self.log.info("Starting the run %s of %s: %s", self.trigger_run_id, UPDATE_DAG, self.conf)
            try:
                super().execute(context)
            except DagIsPaused:
                raise Terminal(
                    f"The DAG {UPDATE_DAG} is paused, so new tables cannot be loaded. Unpause it, then clear this "
                    "task.",
                    code="updates-paused",
                ) from None
            except DagRunTriggerException:  # the operator raises it to have Airflow start the run
                self._note(context)
                raise

    def _note(self, context: Context) -> None:
        """Stores that the load was started, for pages and notices."""
        conf = cast("dict[str, Any]", self.conf)
        load = StartedLoad(str(self.trigger_run_id), tuple(TableName.parse(table) for table in conf["tables"]))
        task = TaskContext.of(context)
        LoadStarted(task.redis, task.prefix, conf["slave"]).note(load)


def _slave(task: TaskContext, name: str) -> joining.Slave:
    config = task.replication.slave(name)
    try:
        checkpoint = task.checkpoint(config)
    except SluiceError as error:
        log.warning("%s → %s: its state is not known: %s", task.prefix, name, error)
        return joining.Slave(name, config.new_tables, None)
    return joining.Slave(name, config.new_tables, checkpoint.state if checkpoint else SlaveState.UNCONFIGURED)


def _loads(task: TaskContext, names: Iterable[str]) -> list[dict[str, object]]:
    loads: list[dict[str, object]] = []
    for name in names:
        try:
            tables = _to_load(task, name)
        except SluiceError as error:
            log.warning("%s → %s: which tables it lacks is not known: %s", task.prefix, name, error)
            continue
        if not tables:
            continue
        if task.replication.slave(name).new_tables == joining.WAIT:
            log.warning("%s → %s: new_tables is wait. %s", task.prefix, name, how_to_load(task.prefix, name, tables))
            continue
        stopped = next((each for each in Gate(task.redis, task.prefix, name).closures() if each.name == ERROR), None)
        if stopped is not None:
            # A load starts the apply, which would overwrite what a person must see first.
            remedy = how_to_load(task.prefix, name, tables)
            log.warning("%s → %s: the apply has stopped: %s Then: %s", task.prefix, name, stopped.with_remedy, remedy)
            continue
        conf = {"prefix": str(task.prefix), "slave": name, "tables": [str(table) for table in tables]}
        loads.append({"trigger_run_id": joining.run_id(task.prefix, name, tables), "conf": conf})
    return loads


def _to_load(task: TaskContext, name: str) -> list[TableName]:
    """The tables that a slave must load; none unless it is NORMAL. A stream contains the rows of joining tables."""
    if task.replication.master.stream:
        return []
    checkpoint = task.checkpoint(task.replication.slave(name))
    if checkpoint is None or checkpoint.state is not SlaveState.NORMAL or checkpoint.position is None:
        return []
    master_config = task.replication.master
    with task.master() as master:
        pending = (
            master_of(master_config.vendor)
            .queue(master, task.prefix, master_config.schema)
            .joining(checkpoint.position)
        )
        configured = [each.table for each in task.replication.resolve(task.existing_tables(master))]
    return joining.to_load(checkpoint.tables, pending, configured)
