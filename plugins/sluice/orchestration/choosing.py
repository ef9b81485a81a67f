"""What the form of an initial update chooses, checked before anything is changed."""

import logging

from sluice.errors import Terminal
from sluice.initial import chosen
from sluice.initial.choice import Choice
from sluice.initial.update import Update
from sluice.orchestration import files
from sluice.orchestration.work import Work
from sluice.pair import Pair

log = logging.getLogger("sluice.orchestration")


class NotByFiles(Terminal):
    """Parts of a table do not travel as files."""

    def __init__(self) -> None:
        super().__init__(
            "transfer is files, and where, key_from or key_to choose a part of a table: that part is loaded online "
            "only. Start again with transfer: online, or with whole tables. Nothing was touched."
        )


def update_of(work: Work) -> Update:
    """The initial update that this run is."""
    pair = Pair.of(work.replication, work.slave.name, work.connections)
    return Update.named(pair, work.update_id, Choice.from_dict(work.context["params"]))


def check_choice(work: Work) -> None:
    """Raises `CannotChoose`, `NotByFiles`."""
    choice = Choice.from_dict(work.context["params"])
    if not choice.partial:
        return
    if choice.ranged and files.by_files(work.context):
        raise NotByFiles
    with work.master() as master, work.at(work.slave) as slave:
        chosen.check(update_of(work), master, slave)
    log.info("%s: to be loaded, while the rest stays: %s", work, choice)
