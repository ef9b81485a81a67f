"""The reports of `resync`."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse

from sluice.airflow.pages import hidden
from sluice.airflow.pages.access import Visitor
from sluice.airflow.pages.databases import in_thread
from sluice.airflow.pages.past_reports import latest
from sluice.airflow.pages.rendering import REPORT_HEADERS, Renderer
from sluice.verify.page import page as report_page
from sluice.verify.report_types import Report

_NAME = re.compile(r"[\w-][\w.-]*")


def add(app: FastAPI, guard: Callable[..., Visitor], show: Renderer, folder: Callable[[], Path]) -> None:
    """`folder` holds the reports, one folder a run."""
    Who = Annotated[Visitor, Depends(guard)]  # noqa: N806

    @app.get("/reports/")
    async def reports(request: Request, visitor: Who) -> Response:
        past = await in_thread(lambda: latest(folder()))
        return show(request, "reports.html", visitor, past=past, here="reports")

    @app.get("/reports/{name}/")
    def report(visitor: Who, name: str) -> Response:
        if visitor.sees_values:
            return _file(folder(), name, "report.html", "text/html; charset=utf-8")
        return HTMLResponse(report_page(_without_values(folder(), name)), headers=REPORT_HEADERS)

    @app.get("/reports/{name}/report.json")
    def data(visitor: Who, name: str) -> Response:
        if visitor.sees_values:
            return _file(folder(), name, "report.json", "application/json")
        return JSONResponse(_without_values(folder(), name), headers=REPORT_HEADERS)


def _file(folder: Path, name: str, file: str, kind: str) -> FileResponse:
    return FileResponse(_path(folder, name, file), media_type=kind, headers=REPORT_HEADERS)


def _without_values(folder: Path, name: str) -> list[Report]:
    report: list[Report] = hidden.report(json.loads(_path(folder, name, "report.json").read_text()))
    return report


def _path(folder: Path, name: str, file: str) -> Path:
    path = folder / name / file
    if not _NAME.fullmatch(name) or not path.is_file():
        raise HTTPException(404, "There is no such report: its run wrote none, or keep_reports_days are over.")
    return path
