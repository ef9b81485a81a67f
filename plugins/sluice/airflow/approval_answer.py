"""The answer of a person to one of Airflow's required actions."""

import logging
from collections.abc import Mapping
from typing import Any

log = logging.getLogger("sluice.airflow")

APPROVE, REJECT = "Approve", "Reject"


def answered(event: Mapping[str, Any]) -> tuple[str, bool]:
    """Person, and whether they approved; logs both. `event`: the event of the operator's trigger."""
    user = event.get("responded_by_user") or {}
    who = str(user.get("name") or user.get("id") or "somebody")
    (chosen,) = event["chosen_options"]
    log.info("%s by %s at %s", chosen, who, event["responded_at"])
    return who, chosen == APPROVE
