"""The monitor inside Airflow.

| address | shows |
|---|---|
| `/sluice/` | every slave, grouped by its master |
| `/sluice/overview.json` | the same for programs |
| `/sluice/topology/` | the topology: masters, slaves, cascades |
| `/sluice/slaves/<prefix>/<slave>/` | one slave; `state.json` in it is the same as data |
| `/sluice/slaves/<prefix>/<slave>/waiting/` | the first changes that wait for it |
| `/sluice/masters/<prefix>/` | one master |
| `/sluice/masters/<prefix>/queries/` | the queries that all databases answered |
| `/sluice/masters/<prefix>/rehearsals/` | the rehearsals that are kept; its POST keeps another one; below it, each |
| `/sluice/actions/<name>` | the form of an action; its POST does it |
| `/sluice/new/` | a new replication: connections, tables, file |
| `/sluice/metrics` | metrics for Prometheus |
| `/sluice/reports/` | the latest runs of `resync` |
| `/sluice/reports/<run>/` | the report of one run; `report.json` in it is the same as data |

Every address needs the right to read (`access`). Nothing that may block runs on the event loop.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import FileResponse
from starlette.datastructures import URL
from starlette.responses import RedirectResponse

from sluice.airflow.pages import (
    action_pages,
    airflow_runs,
    master_pages,
    new_pages,
    overview_pages,
    refusals,
    rehearsal_pages,
    report_pages,
    slave_pages,
)
from sluice.airflow.pages.access import Visitor
from sluice.airflow.pages.databases import Databases
from sluice.airflow.pages.gathering import Watch
from sluice.airflow.pages.rendering import COMMON, Renderer
from sluice.airflow.pages.templates import STATIC
from sluice.operate.open_runs import Airflow

_NAME = re.compile(r"[\w-][\w.-]*")
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def application(
    folder: Callable[[], Path], guard: Callable[..., Visitor], airflow: Callable[[], Airflow] = airflow_runs.read
) -> FastAPI:
    """The pages. `folder` holds the reports, one folder a run; `guard` is a dependency that every page has; `airflow`
    says what runs."""
    # Without the three URLs: everybody could read the descriptions.
    app = FastAPI(dependencies=[Depends(guard)], docs_url=None, redoc_url=None, openapi_url=None)
    show, databases = Renderer(), Databases()
    watch = Watch(databases, airflow)
    refusals.add(app, show)
    overview_pages.add(app, guard, show, watch, databases)
    slave_pages.add(app, guard, show, watch, databases, folder)
    master_pages.add(app, guard, show, watch, databases)
    rehearsal_pages.add(app, guard, show, watch)
    action_pages.add(app, guard, show, watch)
    new_pages.add(app, guard, show, watch)
    report_pages.add(app, guard, show, folder)

    @app.get("/static/{name}")
    def static(name: str) -> FileResponse:
        kind = _KINDS.get(Path(name).suffix)
        if kind is None or not _NAME.fullmatch(name) or not (STATIC / name).is_file():
            raise HTTPException(404)
        headers = {**COMMON, "Cache-Control": "private, max-age=300"}
        return FileResponse(STATIC / name, media_type=kind, headers=headers)

    return app


# Redirects `/sluice` to `/sluice/`: Airflow would answer that there is no such page.


class TrailingSlash:
    """A middleware of Airflow. `mount`: where the pages are, such as `/sluice`."""

    def __init__(self, app: Any, mount: str):
        self.app, self.mount = app, mount

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].removeprefix(scope.get("root_path", "")) == self.mount:
            # Relative: a proxy may serve Airflow under another path.
            query = URL(scope=scope).query
            mount = f"{self.mount[1:]}/{'?' * bool(query)}{query}"
            await RedirectResponse(mount)(scope, receive, send)
        else:
            await self.app(scope, receive, send)
