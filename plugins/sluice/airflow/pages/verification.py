"""The pages about verification inside Airflow: what is verified through when, and the reports of all runs.

| address | shows |
|---|---|
| `/sluice/` | each pair with its state, its safe mode and its tables, and the latest reports |
| `/sluice/reports/<run>/` | the report of one run |
| `/sluice/reports/<run>/report.json` | the same as data |
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException
from fastapi.responses import FileResponse, HTMLResponse

from sluice import config
from sluice.airflow.pages.overview import Broken, Past, Shown, overview
from sluice.coordination import lease, redis_store
from sluice.coordination.gate import Gate
from sluice.coordination.items_state import ItemsState
from sluice.coordination.lacks import Lacks
from sluice.coordination.status import Status
from sluice.coordination.verification_log import VerificationLog
from sluice.errors import SluiceError

LATEST = 30
"""Reports that are listed."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_NAME = re.compile(r"[\w-][\w.-]*")


def application(folder: Callable[[], Path], guard: Any) -> FastAPI:
    """The pages. `folder` holds the reports, one folder a run; `guard` is a dependency that every page has."""
    # Without the three: the descriptions would be open to anybody.
    app = FastAPI(dependencies=[guard], docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/")
    def index() -> HTMLResponse:
        """What is verified."""
        found, trouble = _survey()
        pairs: list[Shown] = []
        if found is not None:
            pairs, trouble = _pairs(found)
        broken = _broken(found) if found is not None else []
        return HTMLResponse(overview(pairs, _past(folder()), datetime.now(UTC), trouble, broken), headers=HEADERS)

    @app.get("/reports/{name}/")
    def report(name: str) -> FileResponse:
        """The report of one run."""
        return _file(folder(), name, "report.html", "text/html; charset=utf-8")

    @app.get("/reports/{name}/report.json")
    def data(name: str) -> FileResponse:
        """The same for programs."""
        return _file(folder(), name, "report.json", "application/json")

    return app


def _file(folder: Path, name: str, file: str, kind: str) -> FileResponse:
    path = folder / name / file
    if not _NAME.fullmatch(name) or not path.is_file():
        raise HTTPException(404, "There is no such report: its run wrote none, or keep_reports_days are over.")
    return FileResponse(path, media_type=kind, headers=HEADERS)


def _survey() -> tuple[config.Survey | None, str]:
    """What is configured; or why that is not known."""
    try:
        return config.survey(), ""
    except SluiceError as failure:
        return None, str(failure)


def _broken(found: config.Survey) -> list[Broken]:
    """Replications with mistakes, and files in which no prefix was found."""
    named = [Broken(prefix, [str(each) for each in mistakes]) for prefix, mistakes in found.broken.items()]
    known = {each for mistakes in found.broken.values() for each in mistakes}
    rest = [str(each) for each in found.mistakes if each not in known]
    return [*named, *([Broken("", rest)] if rest else [])]


def _pairs(found: config.Survey) -> tuple[list[Shown], str]:
    """The configured pairs; and why nothing is known of them, where that is so."""
    try:
        store = redis_store.connect()
        return [
            Shown(
                str(one.prefix),
                slave,
                Status(store, one.prefix, slave).read(),
                VerificationLog(store, one.prefix, slave).read(),
                lease.held(store, one.prefix, slave),
                Gate(store, one.prefix, slave).closures(),
                Lacks(store, one.prefix, slave).read(),
                Lacks(store, one.prefix).read(),
                ItemsState(store, one.prefix).read(),
            )
            for one in found.replications
            for slave in one.slaves
        ], ""
    except SluiceError as failure:
        return [], str(failure)


def _past(folder: Path) -> list[Past]:
    """The latest reports, newest first."""
    found = []
    folders = [one for one in folder.iterdir() if _NAME.fullmatch(one.name) and (one / "report.json").is_file()]
    for one in sorted(folders, key=lambda one: (one / "report.json").stat().st_mtime, reverse=True)[:LATEST]:
        try:
            pairs = json.loads((one / "report.json").read_text())
            outcomes = [(f"{pair['prefix']} → {pair['slave']}", pair["outcome"], pair["started"]) for pair in pairs]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # of another release, or half removed
        if outcomes:
            found.append(Past(one.name, outcomes))
    return found
