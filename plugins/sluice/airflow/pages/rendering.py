"""Renders a template as an answer with the headers of every page."""

from datetime import UTC, datetime

from fastapi import Request
from fastapi.responses import HTMLResponse

from sluice.airflow.pages.access import Visitor
from sluice.airflow.pages.templates import environment

POLL_SECONDS = 3
"""How often a page refreshes its live part."""
COMMON = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store"}
HEADERS = {
    **COMMON,
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'",
}
REPORT_HEADERS = {
    **COMMON,
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'",
}


def root_of(request: Request) -> str:
    """The path of the pages in Airflow, without a trailing slash."""
    return str(request.scope.get("root_path", "")).rstrip("/")


class Renderer:
    """Renders a page, or only its live part (`?part=live`)."""

    def __init__(self) -> None:
        self._templates = environment()

    def __call__(
        self, request: Request, template: str, visitor: Visitor | None, status: int = 200, **values: object
    ) -> HTMLResponse:
        root = root_of(request)
        made = {
            "root": root,
            "airflow": root.rsplit("/", 1)[0],
            "part": request.query_params.get("part") == "live",
            "visitor": visitor,
            "now": datetime.now(UTC),
            "poll": None,
            **values,
        }
        text = self._templates.get_template(template).render(made)
        return HTMLResponse(text, status, headers=HEADERS)
