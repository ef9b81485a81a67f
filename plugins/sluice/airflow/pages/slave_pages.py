"""The page of one slave."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse

from sluice.airflow import applies, connections
from sluice.airflow.job import Job, Owner
from sluice.airflow.pages import as_data, hidden
from sluice.airflow.pages.access import Visitor
from sluice.airflow.pages.databases import (
    Databases,
    LastAnswer,
    SlaveData,
    images,
    in_thread,
    waiting,
    waiting_images,
)
from sluice.airflow.pages.gathering import Gathered, Watch, configured
from sluice.airflow.pages.past_reports import latest
from sluice.airflow.pages.rendering import HEADERS, POLL_SECONDS, Renderer
from sluice.airflow.pages.run_messages import Beside
from sluice.airflow.pages.slave_row import completed, row
from sluice.configuration.model import Replication
from sluice.coordination import redis_store
from sluice.coordination.live_state import HOUR, LiveSlave, Past
from sluice.errors import SluiceError
from sluice.model.mask import Mask, without_values
from sluice.model.names import TableName
from sluice.operate.actions import Scope, of

DAY = 24 * HOUR
PAST_SHOWN = 10
LOG_LINES = 200


def add(
    app: FastAPI,
    guard: Callable[..., Visitor],
    show: Renderer,
    watch: Watch,
    databases: Databases,
    folder: Callable[[], Path],
) -> None:
    """`folder` holds the reports."""
    Who = Annotated[Visitor, Depends(guard)]  # noqa: N806

    @app.get("/slaves/{prefix}/{slave}/")
    async def slave(request: Request, visitor: Who, prefix: str, slave: str, hours: int = 1) -> Response:
        state_now = await watch.state()
        replication = configured(state_now, prefix, slave)
        seen = await databases.slave(replication, slave)
        minutes = DAY if hours > 1 else HOUR

        def render() -> Response:
            gathered, visible = hidden.shown_to(visitor, state_now), visitor.sees_values
            now = gathered.moment(datetime.now(UTC))
            live = gathered.live.slave(replication.prefix, slave)
            past = watch.past(replication.prefix, slave, minutes)
            looked, past = (seen, past) if visible else (hidden.answer(seen), hidden.past(past))
            slave_row = row(replication, slave, live, now, beside(gathered, replication, slave, looked))
            live = completed(live, beside(gathered, replication, slave, looked))
            mask = Mask(replication.verify.mask)
            job, log, why_process = applied_by(str(replication.prefix), slave)
            values: dict[str, Any] = {
                "gathered": gathered, "one": slave_row, "live": live, "looked": looked, "replication": replication,
                "place": replication.slave(slave), "minutes": minutes, "visible": visible, "job": job,
                "why_process": why_process,
                "log": log if visible else [], "reports": latest(folder(), slave_row.pair, PAST_SHOWN),
                "past": past, "spark": str(live.status.get("spark") or connections.spark_pages()),
                "images": lambda reject: images(reject, mask, visible=visible), "actions": of(Scope.SLAVE),
                "redo": gathered.live.master(replication.prefix).redo,
                "takes_over": replication.fails_over(replication.slave(slave)),
                "former": former(replication, live, looked, past),
            }  # fmt: skip
            return show(request, "slave.html", visitor, here="slave", poll=POLL_SECONDS, **values)

        return await in_thread(render)

    @app.get("/slaves/{prefix}/{slave}/waiting/")
    async def waits(request: Request, visitor: Who, prefix: str, slave: str) -> Response:
        replication = configured(await watch.state(), prefix, slave)
        mask, visible = Mask(replication.verify.mask), visitor.sees_values

        def render() -> Response:
            found, trouble = None, ""
            try:
                found = waiting(replication, slave, redis_store.connect(redis_store.url()))
            except SluiceError as failure:
                trouble = str(failure) if visible else without_values(str(failure))
            values: dict[str, Any] = {
                "replication": replication, "slave": slave, "waiting": found, "trouble": trouble, "visible": visible,
                "most": replication.slave(slave).most_changes(replication.apply),
                "images": lambda change: waiting_images(change, mask, visible=visible),
            }  # fmt: skip
            return show(request, "waiting.html", visitor, here="slave", **values)

        return await in_thread(render)

    @app.get("/slaves/{prefix}/{slave}/state.json")
    async def slave_data(visitor: Who, prefix: str, slave: str) -> Response:
        state_now = await watch.state()
        replication = configured(state_now, prefix, slave)
        looked = await databases.slave(replication, slave)
        gathered, looked = hidden.shown_to(visitor, state_now), looked if visitor.sees_values else hidden.answer(looked)
        past = await in_thread(lambda: watch.past(replication.prefix, slave, HOUR))
        past = past if visitor.sees_values else hidden.past(past)
        live, now = gathered.live.slave(replication.prefix, slave), gathered.moment(datetime.now(UTC))
        slave_row = row(replication, slave, live, now, beside(gathered, replication, slave, looked))
        return JSONResponse(as_data.whole_slave(gathered, slave_row, looked, past), headers=HEADERS)


def beside(gathered: Gathered, replication: Replication, slave: str, looked: LastAnswer[SlaveData]) -> Beside:
    """What is known of a slave beside Redis's content, with what its database has just said."""
    checkpoint = looked.seen.checkpoint if looked.seen else None
    return replace(
        gathered.beside(replication.prefix, slave),
        checkpoint=checkpoint,
        answered=looked.at,
        unanswered=looked.trouble,
    )


def former(replication: Replication, live: LiveSlave, looked: LastAnswer[SlaveData], past: Past) -> frozenset[str]:
    """Tables that are not replicated any more: the slave keeps them, or changes of them were seen."""
    checkpoint = looked.seen.checkpoint if looked.seen else None
    kept = {str(table) for table in checkpoint.tables.former} if checkpoint else set()
    lost = (
        {name for name in past.changed.keys() - live.tables.keys() if replication.verify.covers(TableName.parse(name))}
        if live.tables
        else set()
    )
    loading = {str(table) for table in live.status.get("loading") or ()}
    return frozenset((kept | lost) - loading - set(live.status.get("not_ready") or ()))


@dataclass(frozen=True)
class ShownJob:
    """The last apply of a slave."""

    id: str
    state: str
    owner: Owner
    attempt: int
    runs_on: str
    """Where it runs; empty for a process."""
    short_session: float | None
    """The seconds without Airflow after which Spark ends it, if that is less than a day."""
    standby: str
    """The machine of another Airflow that takes over if this one dies; empty if there is none."""


def applied_by(prefix: str, slave: str) -> tuple[ShownJob | None, list[str], str]:
    """The last apply, its last lines, and why it is a process and no query of Spark; empty while Redis is away."""
    try:
        job = applies.last(prefix, slave)
        if job is None:
            return None, [], ""
        runs_on, short = ("", None) if isinstance(job, Job) else (job.runs_on, job.record.short_session)
        noted = applies.of_pair(prefix, slave).state()
        shown = ShownJob(job.id, str(job.state()).lower(), job.owner, job.attempt, runs_on, short, noted.standby)
        why_process = noted.why_process if isinstance(job, Job) else ""
        return shown, job.last_lines(LOG_LINES), why_process
    except SluiceError:
        return None, [], ""
