"""Rehearsals of a replication's migrations: the command, an upload of its report, and the reports that are kept.

Nothing is rehearsed here: a script may run anything as the system's user. An upload is data of a stranger: its size is
limited, it is read strictly (`sluice.verify.rehearsal`), and shown by our own page alone.
"""

import logging
from collections.abc import AsyncGenerator, Callable
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from sluice.airflow import kept_rehearsals
from sluice.airflow.pages.access import READ_DAG, Visitor
from sluice.airflow.pages.action_pages import from_own_page
from sluice.airflow.pages.databases import in_thread
from sluice.airflow.pages.gathering import Watch, configured
from sluice.airflow.pages.rendering import REPORT_HEADERS, Renderer
from sluice.configuration.model import Replication
from sluice.errors import SluiceError
from sluice.verify.rehearsal import Report, page, read, rehearsable, without_rows

log = logging.getLogger("sluice.airflow")

LARGEST_UPLOAD = 4_000_000
"""Bytes. The report of a hundred statements has some ten thousands."""
DISCARDED = 50_000_000
"""So much more is read and thrown away: browsers show an answer only after they have sent everything."""


def may_keep(visitor: Visitor) -> bool:
    """Whether the person may keep a report: those who may trigger `resync`, whose reports are kept beside."""
    return READ_DAG in visitor.may_trigger


def add(app: FastAPI, guard: Callable[..., Visitor], show: Renderer, watch: Watch) -> None:
    Who = Annotated[Visitor, Depends(guard)]  # noqa: N806

    async def of(prefix: str) -> Replication:
        """Raises 404."""
        replication = configured(await watch.state(), prefix)
        if not rehearsable(replication):
            why = "a master of this kind cannot be rehearsed; docs/rehearse.md says which can"
            raise HTTPException(404, f"{replication.prefix}: {why}.")
        return replication

    async def listed(request: Request, visitor: Visitor, replication: Replication, problem: str = "") -> Response:
        past = await in_thread(lambda: kept_rehearsals.latest(replication.prefix))
        return show(
            request, "rehearsals.html", visitor, 400 if problem else 200, here="master", replication=replication,
            past=past, problem=problem, may_keep=may_keep(visitor), days=replication.verify.keep_reports_days,
            megabytes=LARGEST_UPLOAD // 1_000_000,
        )  # fmt: skip

    @app.get("/masters/{prefix}/rehearsals/")
    async def rehearsals(request: Request, visitor: Who, prefix: str) -> Response:
        return await listed(request, visitor, await of(prefix))

    @app.post("/masters/{prefix}/rehearsals/")
    async def keep(request: Request, visitor: Who, prefix: str) -> Response:
        replication = await of(prefix)
        if not may_keep(visitor):
            raise HTTPException(403, f"Keeping a report wants the right to trigger the DAG {READ_DAG}.")
        key, upload = await _upload_of(request)
        if not from_own_page(request, visitor, key):
            problem = "This page was too old, or came from elsewhere: nothing was kept. Choose the file once more."
            return await listed(request, visitor, replication, problem)
        try:
            name = await in_thread(lambda: kept_rehearsals.keep(read(Report, upload), replication, visitor.name))
        except SluiceError as refusal:
            return await listed(request, visitor, replication, str(refusal))
        except OSError as failure:
            problem = f"The report could not be kept in Airflow's state folder (SLUICE_HOME): {failure.strerror}."
            return await listed(request, visitor, replication, problem)
        log.info("%s: %s has kept the rehearsal %s", replication.prefix, visitor.name, name)
        # Relative: a proxy may serve Airflow under another path. Loaded again, the page sends nothing again.
        return RedirectResponse("./", 303)

    @app.get("/masters/{prefix}/rehearsals/{name}/")
    async def rehearsal(visitor: Who, prefix: str, name: str) -> Response:
        replication = await of(prefix)

        def render() -> Response:
            kept = kept_rehearsals.kept_under(replication.prefix, name)
            if kept is None:
                raise HTTPException(
                    404, "There is no such rehearsal: keep_reports_days are over, or another release kept it."
                )
            report = kept.report if visitor.sees_values else without_rows(kept.report)
            return HTMLResponse(page(report, kept), headers=REPORT_HEADERS)

        return await in_thread(render)


async def _upload_of(request: Request) -> tuple[str, bytes]:
    """The key and the file of the form. Raises 400, 413, 415."""
    if request.headers.get("content-type", "").split(";")[0].strip() != "multipart/form-data":
        raise HTTPException(415, "A report is kept by the form of its page, as multipart/form-data.")
    size = 0

    async def limited() -> AsyncGenerator[bytes, None]:
        nonlocal size
        async for part in request.stream():
            size += len(part)
            if size <= LARGEST_UPLOAD:
                yield part
            elif size > LARGEST_UPLOAD + DISCARDED:
                break
        if size > LARGEST_UPLOAD:
            raise HTTPException(
                413,
                f"The file has more than {LARGEST_UPLOAD // 1_000_000} MB. Rehearse fewer scripts at once, or keep the "
                "report where it is made, with --keep.",
            )

    try:
        form = await MultiPartParser(request.headers, limited(), max_files=1, max_fields=2).parse()
    except MultiPartException:
        raise HTTPException(400, "The form cannot be read. Choose one file, on the page of the rehearsals.") from None
    key, file = form.get("key"), form.get("report")
    try:
        return key if isinstance(key, str) else "", await file.read() if isinstance(file, UploadFile) else b""
    finally:
        await form.close()
