"""The tasks of a failover: a slave becomes the master."""

import logging
from typing import Any

from sluice.domain.failover import Action
from sluice.failover import survey
from sluice.failover.attempt import Failover
from sluice.orchestration.step import step
from sluice.orchestration.work import Work
from sluice.pair import Pair

log = logging.getLogger("sluice.orchestration")


def failover_of(work: Work) -> Failover:
    """The failover that this run is."""
    params = work.context["params"]
    return Failover.named(
        Pair.of(work.replication, work.slave.name, work.connections),
        str(work.context["run_id"]),
        Action(params["action"]),
        by=work.person("the DAG failover"),
    )


@step
def check(work: Work) -> Any:
    """Lists whether the slave could take over now, and how its definitions differ from the master's. Keeps the latter
    on the slave, for a failover without the master; changes nothing else."""
    failover = failover_of(work)
    facts = survey.look(failover, work.redis)
    text = survey.said(facts)
    if not facts.silent and facts.sheet is not None:
        survey.keep_sheet(failover, facts.sheet)
    for line in text.splitlines():
        log.info("%s", line)
    return text
