"""The monitor inside Airflow.

| address | shows |
|---|---|
| `/sluice/` | every slave, grouped by its master |
| `/sluice/overview.json` | the same for programs |
| `/sluice/slaves/<prefix>/<slave>/` | one slave; `state.json` in it is the same as data |
| `/sluice/masters/<prefix>/` | one master |
| `/sluice/masters/<prefix>/queries/` | what was asked of all databases, and their answers |
| `/sluice/actions/<name>` | what an action would do, and does it |
| `/sluice/metrics` | metrics for Prometheus |
| `/sluice/reports/` | the latest runs of `resync` |
| `/sluice/reports/<run>/` | the report of one run; `report.json` in it is the same as data |

Every address wants what `access` says. Nothing that may wait is done on the event loop.
"""

import asyncio
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse

from sluice.airflow import connections, jobs
from sluice.airflow.job import Job, Kind
from sluice.airflow.pages import action_pages, as_data, hidden, metrics, refusals
from sluice.airflow.pages.access import Visitor
from sluice.airflow.pages.known import Gathered, Watch, configured, in_thread
from sluice.airflow.pages.look import Looks, images
from sluice.airflow.pages.overview import Choice, overview, place_of
from sluice.airflow.pages.past_reports import latest
from sluice.airflow.pages.rendering import COMMON, HEADERS, REPORT_HEADERS, Renderer
from sluice.airflow.pages.slave_row import master_messages, queue_level, row, state_of
from sluice.airflow.pages.templates import STATIC
from sluice.coordination.known_pairs import HOUR, KnownSlave
from sluice.load.progress import Progress
from sluice.model.mask import Mask
from sluice.model.slave_state import SlaveState
from sluice.operate.actions import Scope, of
from sluice.operate.api import REJECTS
from sluice.verify.page import page as report_page
from sluice.verify.report_types import Report

POLL_SECONDS = 3
MANY, MANY_POLL_SECONDS = 100, 10
"""A page with more slaves than that is asked for less often."""
ATTENTION_SHOWN = 8
DAY = 24 * HOUR
PAST_SHOWN = 10
LOG_BYTES, LOG_LINES = 64_000, 200
_NAME = re.compile(r"[\w-][\w.-]*")
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def application(folder: Callable[[], Path], guard: Callable[..., Visitor]) -> FastAPI:
    """The pages. `folder` holds the reports, one folder a run; `guard` is a dependency that every page has."""
    # Without the three: the descriptions would be open to anybody.
    app = FastAPI(dependencies=[Depends(guard)], docs_url=None, redoc_url=None, openapi_url=None)
    show, watch, looks = Renderer(), Watch(), Looks()
    Who = Annotated[Visitor, Depends(guard)]  # noqa: N806

    refusals.add(app, show)

    @app.get("/")
    async def index(
        request: Request, visitor: Who, find: str = "", state: str = "", level: str = "", sort: str = ""
    ) -> Response:
        """Every slave."""
        choice = Choice(find.strip(), state, level, sort)
        state_now = await watch.state()

        def made() -> Response:
            now, gathered = datetime.now(UTC), shown_to(visitor, state_now)
            page = overview(gathered.survey, gathered.known, choice, now)
            return show(
                request,
                "overview.html",
                visitor,
                page=page,
                gathered=gathered,
                link=lambda **other: link(choice, **other),
                here="overview",
                poll=POLL_SECONDS if page.shown <= MANY else MANY_POLL_SECONDS,
                attention_shown=ATTENTION_SHOWN,
            )

        return await in_thread(made)

    @app.get("/overview.json")
    async def index_data(visitor: Who) -> Response:
        """The same for programs."""
        gathered = await watch.state()
        data = await in_thread(lambda: as_data.overview(shown_to(visitor, gathered), datetime.now(UTC)))
        return JSONResponse(data, headers=HEADERS)

    @app.get("/metrics")
    async def measured(visitor: Who) -> Response:
        """Metrics for Prometheus."""
        gathered = await watch.state()
        loads = await loads_of(gathered, looks)
        text = await in_thread(lambda: metrics.text(gathered, datetime.now(UTC), loads))
        return Response(text, media_type=metrics.CONTENT_TYPE, headers=HEADERS)

    @app.get("/reports/")
    async def reports(request: Request, visitor: Who) -> Response:
        """The latest runs of `resync`."""
        past = await in_thread(lambda: latest(folder()))
        return show(request, "reports.html", visitor, past=past, here="reports")

    @app.get("/slaves/{prefix}/{slave}/")
    async def slave(request: Request, visitor: Who, prefix: str, slave: str, hours: int = 1) -> Response:
        """One slave in detail."""
        state_now = await watch.state()
        replication = configured(state_now, prefix, slave)
        seen = await looks.slave(replication, slave)
        minutes = DAY if hours > 1 else HOUR

        def made() -> Response:
            now, gathered, visible = datetime.now(UTC), shown_to(visitor, state_now), sees_values(visitor)
            known = gathered.known.slave(replication.prefix, slave)
            past = watch.past(replication.prefix, slave, minutes)
            looked, past = (seen, past) if visible else (hidden.looked(seen), hidden.past(past))
            found = row(replication, slave, known, now)
            mask = Mask(replication.verify.mask)
            job = jobs.last(Kind.APPLY, str(replication.prefix), slave)
            values: dict[str, Any] = {
                "gathered": gathered, "one": found, "known": known, "looked": looked, "replication": replication,
                "place": replication.slave(slave), "minutes": minutes, "visible": visible, "job": job,
                "log": log_tail(job) if visible else [], "reports": latest(folder(), found.pair, PAST_SHOWN),
                "past": past, "spark": str(known.status.get("spark") or connections.spark_pages()),
                "images": lambda reject: images(reject, mask, visible=visible), "actions": of(Scope.SLAVE),
                "redo": gathered.known.master(replication.prefix).redo,
            }  # fmt: skip
            return show(request, "slave.html", visitor, here="slave", poll=POLL_SECONDS, **values)

        return await in_thread(made)

    @app.get("/slaves/{prefix}/{slave}/state.json")
    async def slave_data(visitor: Who, prefix: str, slave: str) -> Response:
        """The same for programs."""
        state_now = await watch.state()
        replication = configured(state_now, prefix, slave)
        looked = await looks.slave(replication, slave)
        gathered, looked = shown_to(visitor, state_now), looked if sees_values(visitor) else hidden.looked(looked)
        past = await in_thread(lambda: watch.past(replication.prefix, slave, HOUR))
        past = past if sees_values(visitor) else hidden.past(past)
        found = row(replication, slave, gathered.known.slave(replication.prefix, slave), datetime.now(UTC))
        return JSONResponse(as_data.whole_slave(gathered, found, looked, past), headers=HEADERS)

    @app.get("/masters/{prefix}/")
    async def master(request: Request, visitor: Who, prefix: str) -> Response:
        """One master in detail."""
        state_now = await watch.state()
        replication = configured(state_now, prefix)
        looked = await looks.master(replication)

        def made() -> Response:
            now, gathered = datetime.now(UTC), shown_to(visitor, state_now)
            known = gathered.known.master(replication.prefix)
            rows = [row(replication, name, gathered.known.slave(replication.prefix, name), now)
                    for name in replication.slaves]  # fmt: skip
            values: dict[str, Any] = {
                "gathered": gathered, "replication": replication, "known": known, "looked": looked, "rows": rows,
                "place": place_of(replication), "messages": master_messages(replication, known),
                "queue_level": queue_level(replication, known), "actions": of(Scope.MASTER),
            }  # fmt: skip
            return show(request, "master.html", visitor, here="master", poll=POLL_SECONDS, **values)

        return await in_thread(made)

    @app.get("/masters/{prefix}/queries/")
    async def queries(request: Request, visitor: Who, prefix: str) -> Response:
        """What was asked of all databases, and what they answered."""
        gathered = await watch.state()
        replication = configured(gathered, prefix)
        looked = await looks.queries(replication)
        return show(
            request, "queries.html", visitor, here="master", poll=POLL_SECONDS,
            gathered=gathered, replication=replication, looked=looked, visible=sees_values(visitor),
        )  # fmt: skip

    action_pages.add(app, guard, show, watch)

    @app.get("/reports/{name}/")
    def report(visitor: Who, name: str) -> Response:
        """The report of one run."""
        if sees_values(visitor):
            return _file(folder(), name, "report.html", "text/html; charset=utf-8")
        return HTMLResponse(report_page(_without_values(folder(), name)), headers=REPORT_HEADERS)

    @app.get("/reports/{name}/report.json")
    def data(visitor: Who, name: str) -> Response:
        """The same for programs."""
        if sees_values(visitor):
            return _file(folder(), name, "report.json", "application/json")
        return JSONResponse(_without_values(folder(), name), headers=REPORT_HEADERS)

    @app.get("/static/{name}")
    def static(name: str) -> FileResponse:
        """Style, script and icons."""
        kind = _KINDS.get(Path(name).suffix)
        if kind is None or not _NAME.fullmatch(name) or not (STATIC / name).is_file():
            raise HTTPException(404)
        headers = {**COMMON, "Cache-Control": "private, max-age=300"}
        return FileResponse(STATIC / name, media_type=kind, headers=headers)

    return app


def sees_values(visitor: Visitor) -> bool:
    """Whether this person may see values of rows: who may settle rejects has to."""
    return REJECTS in visitor.may_trigger


def shown_to(visitor: Visitor, gathered: Gathered) -> Gathered:
    """What is known, without values of rows for those who may not see them."""
    return gathered if sees_values(visitor) else replace(gathered, known=hidden.known(gathered.known))


async def loads_of(gathered: Gathered, looks: Looks) -> dict[tuple[str, str], Progress]:
    """How far the slaves are that are being loaded, of those whose databases answer."""
    loading = [
        (one, slave)
        for one in gathered.survey.replications
        for slave in one.slaves
        if is_loading(gathered.known.slave(one.prefix, slave))
    ]
    found = await asyncio.gather(*(looks.slave(one, slave) for one, slave in loading))
    return {
        (str(one.prefix), slave): looked.seen.progress
        for (one, slave), looked in zip(loading, found, strict=True)
        if looked.seen and looked.seen.progress and not looked.trouble
    }


def is_loading(known: KnownSlave) -> bool:
    """Whether tables of the slave are loaded: all of them, or some while it is NORMAL."""
    return bool(known.status.get("loading")) or state_of(known) in (SlaveState.INITIAL, SlaveState.TRANSITION)


def link(choice: Choice, **other: str) -> str:
    """The overview with another choice."""
    values = {**vars(choice), **other}
    return "?" + urlencode({name: value for name, value in values.items() if value})


def log_tail(job: Job | None) -> list[str]:
    """The last lines of what a job says; none where there is no job, or its log is on another host."""
    if job is None:
        return []
    try:
        with open(jobs.log_of(job.id), "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - LOG_BYTES))
            return file.read().decode(errors="replace").splitlines()[-LOG_LINES:]
    except OSError:
        return []


def _file(folder: Path, name: str, file: str, kind: str) -> FileResponse:
    return FileResponse(_path(folder, name, file), media_type=kind, headers=REPORT_HEADERS)


def _without_values(folder: Path, name: str) -> list[Report]:
    found: list[Report] = hidden.report(json.loads(_path(folder, name, "report.json").read_text()))
    return found


def _path(folder: Path, name: str, file: str) -> Path:
    path = folder / name / file
    if not _NAME.fullmatch(name) or not path.is_file():
        raise HTTPException(404, "There is no such report: its run wrote none, or keep_reports_days are over.")
    return path
