"""What the form of an initial update chooses, checked before anything is changed."""

import logging

from sluice.airflow import transfer_form
from sluice.airflow.task_context import TaskContext
from sluice.errors import Terminal
from sluice.load import partial_load
from sluice.load.selection import Selection
from sluice.load.update import Update
from sluice.pair import Pair

log = logging.getLogger("sluice.airflow")


class NotByFiles(Terminal):
    """Parts of a table do not travel as files."""

    def __init__(self) -> None:
        super().__init__(
            "transfer is files, and where, key_from or key_to choose a part of a table: that part is loaded online "
            "only. Start again with transfer: online, or with whole tables. Nothing was touched."
        )


def update_of(work: TaskContext) -> Update:
    """The initial update that this run is."""
    pair = Pair.of(work.replication, work.slave.name, work.connections)
    return Update.named(pair, work.update_id, Selection.from_dict(work.context["params"]))


def check_choice(work: TaskContext) -> None:
    """Raises `SelectionRefused`, `NotByFiles`."""
    selection = Selection.from_dict(work.context["params"])
    if not selection.partial:
        return
    if selection.ranged and transfer_form.by_files(work.context):
        raise NotByFiles
    with work.master() as master, work.at(work.slave) as slave:
        partial_load.check(update_of(work), master, slave)
    log.info("%s: to be loaded, while the rest stays: %s", work, selection)
