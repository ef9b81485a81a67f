"""How long a deferred task must stay with the triggerer.

Airflow's executor notices up to a heartbeat interval later that a task left its worker. A task
that is back by then is taken for one that was killed: "reported that the task instance finished
with state success, but the task instance's state attribute is queued" (Airflow 3.3). So no
trigger fires before that has passed.
"""

import asyncio
import time

from airflow.sdk import conf

SCHEDULER_SECONDS = 3.0
"""Until the scheduler has dealt with what the executor reported."""


def earliest_resume() -> float:
    """When a task that defers now may come back, in seconds since the epoch."""
    return time.time() + float(conf.getint("workers", "min_heartbeat_interval", fallback=5)) + SCHEDULER_SECONDS


async def wait_until(until: float) -> None:
    """Returns at that time; never waits longer than a minute, should the clock be set back."""
    await asyncio.sleep(min(60.0, max(0.0, until - time.time())))
