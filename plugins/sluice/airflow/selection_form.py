"""Reads and checks the selection in the form of an initial update, before anything is changed."""

import logging

from sluice.airflow import transfer_form
from sluice.airflow.task_context import TaskContext
from sluice.errors import Terminal
from sluice.load import partial_load
from sluice.load.selection import Selection
from sluice.load.update import Update, on_master, on_slave
from sluice.pair import Pair

log = logging.getLogger("sluice.airflow")


def update_of(task: TaskContext) -> Update:
    """The initial update of this run."""
    pair = Pair.of(task.replication, task.slave.name, task.connections)
    return Update.named(pair, task.update_id, Selection.from_dict(task.context["params"]))


def check_choice(task: TaskContext) -> None:
    """Raises `SelectionRefused`, `not-by-files`."""
    selection = Selection.from_dict(task.context["params"])
    if not selection.partial:
        return
    if selection.ranged and transfer_form.by_files(task.context):
        raise Terminal(
            "transfer is files, and where, key_from or key_to choose a part of a table: that part is loaded online "
            "only. Start again with transfer: online, or with whole tables. Nothing was touched.",
            code="not-by-files",
        )
    update = update_of(task)
    with on_master(update) as master, on_slave(update) as slave:
        partial_load.check(update, master, slave)
    log.info("%s: to be loaded, while the rest stays: %s", task, selection)
