"""Answers if a page does not exist, is forbidden or fails: a page for people, data for programs."""

import logging
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from sluice.airflow.pages.rendering import HEADERS, Renderer, root_of

log = logging.getLogger("sluice.airflow")

HEADINGS = {
    401: "You are not logged in",
    403: "You may not see or do that",
    404: "There is no such page",
    500: "The monitor has failed",
}
"""Headings by status; others get a general one."""
LOGGED_OUT = {
    False: "These pages need a log-in to Airflow.",
    True: "Nothing was done. Log in, which opens another tab; then reload this page: the browser sends the form again.",
}
"""Replaces Airflow's text; True: of a form that was sent."""
BARE = {404: "The monitor has no page at this address.", 405: "This address does not take such a request."}
"""Replaces the framework's text, which is only the name of the status."""


def add(app: FastAPI, show: Renderer) -> None:

    def answer(request: Request, status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return JSONResponse({"detail": detail}, status, headers={**HEADERS, **(headers or {})})
        heading = HEADINGS.get(status, "This cannot be done")
        log_in, typed = "", request.method == "POST"
        if status == HTTPStatus.UNAUTHORIZED:
            # The address of a form's page alone would lose what was typed into it.
            asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            log_in, detail = f"{root_of(request)}/" if typed else asked, LOGGED_OUT[typed]
        return show(
            request, "refused.html", None, status,
            heading=heading, detail=detail, log_in=log_in, typed=typed, here="refused",
        )  # fmt: skip

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
