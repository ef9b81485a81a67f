"""Answers if a page does not exist, is forbidden or fails: a page for people, data for programs."""

import logging
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from sluice.airflow.pages.rendering import HEADERS, Renderer

log = logging.getLogger("sluice.airflow")

HEADINGS = {
    401: "You are not logged in",
    403: "You may not see or do that",
    404: "That is not here",
    500: "The monitor has failed",
}
"""Headings by status; others get a general one."""
BARE = {404: "The monitor has no page at this address.", 405: "This address does not take such a request."}
"""Replaces the framework's text, which is only the name of the status."""


def add(app: FastAPI, show: Renderer) -> None:

    def answer(request: Request, status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return JSONResponse({"detail": detail}, status, headers={**HEADERS, **(headers or {})})
        heading = HEADINGS.get(status, "That cannot be answered")
        log_in = request.url.path if status == HTTPStatus.UNAUTHORIZED else ""
        return show(
            request, "refused.html", None, status, heading=heading, detail=detail, log_in=log_in, here="refused"
        )

    @app.exception_handler(HTTPException)
    async def refused(request: Request, refusal: HTTPException) -> Response:
        bare = refusal.detail == HTTPStatus(refusal.status_code).phrase
        detail = BARE.get(refusal.status_code, refusal.detail) if bare else refusal.detail
        return answer(request, refusal.status_code, detail, dict(refusal.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def misspelt(request: Request, fault: RequestValidationError) -> Response:
        named = [f"{error['loc'][-1]}: {error['msg'].lower()}" for error in fault.errors()]
        return answer(request, 422, f"The address is not complete. {'; '.join(named)}.")

    @app.exception_handler(Exception)
    async def failed(request: Request, fault: Exception) -> Response:
        log.error("%s could not be shown", request.url.path, exc_info=fault)
        detail = f"{type(fault).__name__} at {request.url.path}. The log of Airflow's API server has the rest."
        return answer(request, 500, detail)
