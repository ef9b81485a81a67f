"""Calls Airflow's public API inside the API server, as the person whose request is being answered.

Airflow itself checks the rights and writes its audit log, as for any client. No network is involved, so it works behind
any proxy.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
from fastapi import Request

from sluice.errors import Terminal, Transient
from sluice.operate.api import detail_of

ROOT = "sluice.root"
"""Key of Airflow's own application in the scope of a request."""
ANSWER_SECONDS = 60.0
_CREDENTIALS = ("authorization", "cookie")


class ApiRefused(Terminal):
    """Airflow refused the request."""

    def __init__(self, status: int, detail: str):
        self.status = status
        super().__init__(f"Airflow refuses that ({status}): {detail}")


class KeepRoot:
    """A middleware of Airflow: stores Airflow's application under `ROOT`, where plugins' applications find it."""

    def __init__(self, app: Any):
        self.app = app

    async def __call__(self, scope: dict[str, object], receive: object, send: object) -> None:
        if scope["type"] == "http":
            scope.setdefault(ROOT, scope.get("app"))
        await self.app(scope, receive, send)


class InProcessApi:
    """See `sluice.operate.api.Api`. Call it from a thread, while the event loop of `of` runs."""

    def __init__(self, app: Any, credentials: Mapping[str, str], loop: asyncio.AbstractEventLoop):
        self._app, self._credentials, self._loop = app, dict(credentials), loop

    @classmethod
    def of(cls, request: Request) -> "InProcessApi":
        """With the credentials of a request. Call it on the event loop."""
        given = {name: request.headers[name] for name in _CREDENTIALS if name in request.headers}
        return cls(request.scope[ROOT], given, asyncio.get_running_loop())

    def get(self, path: str, **query: object) -> object:
        return self._send("GET", path, params=query)

    def call(self, method: str, path: str, body: object = None) -> object:
        return self._send(method, path, json=body)

    def _send(self, method: str, path: str, **options: object) -> object:
        assert self._loop is not _running(), "would wait for itself"
        future = asyncio.run_coroutine_threadsafe(self._request(method, path, options), self._loop)
        try:
            answer = future.result(ANSWER_SECONDS)
        except TimeoutError as late:
            raise Transient(
                f"Airflow has not answered for {ANSWER_SECONDS:.0f} s. Look whether it was done.",
                code="airflow-api-failed",
            ) from late
        if answer.status_code >= 500:
            raise Transient(
                f"Airflow failed ({answer.status_code}). Its log says why; look whether it was done.",
                code="airflow-api-failed",
            )
        if answer.status_code >= 400:
            raise ApiRefused(answer.status_code, detail_of(answer.text))
        return answer.json() if answer.content else None

    async def _request(self, method: str, path: str, options: Mapping[str, Any]) -> httpx.Response:
        transport = httpx.ASGITransport(app=self._app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://airflow") as client:
            return await client.request(method, f"/api/v2/{path}", headers=self._credentials, **options)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
