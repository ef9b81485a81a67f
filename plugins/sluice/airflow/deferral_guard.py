"""How long a deferred task must stay with the triggerer.

Airflow's executor notices up to one heartbeat interval late that a task has deferred. It takes a task that resumes
earlier for killed: "reported that the task instance finished with state success, but the task instance's state
attribute is queued" (Airflow 3.3). So no trigger fires before that interval has passed.
"""

import asyncio
import time

from airflow.sdk import conf

SCHEDULER_SECONDS = 3.0
"""Time for the scheduler to process the executor's report."""


def earliest_resume() -> float:
    """When a task that defers now may resume, in seconds since the epoch."""
    return time.time() + float(conf.getint("workers", "min_heartbeat_interval", fallback=5)) + SCHEDULER_SECONDS


async def wait_until(until: float) -> None:
    """Returns at that time, or after a minute in case the clock is set back."""
    await asyncio.sleep(min(60.0, max(0.0, until - time.time())))
