"""The page of an action: what it will do, what it wants to know, a confirmation, and what came of it.

A form is taken only from a person who may do the action, and only with the key of its own page: a page of another site
does not have it. The action goes over Airflow's public API with the person's own credentials.
"""

import hmac
from collections.abc import Callable, Mapping
from typing import Annotated
from urllib.parse import parse_qs, quote

from fastapi import Depends, FastAPI, HTTPException, Request, Response

from sluice.airflow.pages.access import Visitor, lacking_right, may
from sluice.airflow.pages.in_process_api import InProcessApi
from sluice.airflow.pages.known import Watch, configured, in_thread
from sluice.airflow.pages.rendering import Renderer
from sluice.config import Replication
from sluice.errors import SluiceError
from sluice.operate.actions import ACTIONS, Action, Scope, ordered
from sluice.operate.perform import Done, perform

LONGEST_FORM = 100_000
"""Bytes."""
FORM = "application/x-www-form-urlencoded"


def add(app: FastAPI, guard: Callable[..., Visitor], show: Renderer, watch: Watch) -> None:
    Who = Annotated[Visitor, Depends(guard)]  # noqa: N806

    async def asked(visitor: Visitor, name: str, prefix: str, *slaves: str) -> tuple[Action, Replication]:
        """The action and its replication. Raises 403, 404."""
        action = ACTIONS.get(name)
        if action is None:
            raise HTTPException(404, f"There is no action {name!r}.")
        if not may(visitor, action):
            raise HTTPException(403, f"{action.label} wants the right to {lacking_right(visitor, action)}.")
        gathered = await watch.state()
        for slave in slaves:
            configured(gathered, prefix, slave)
        return action, configured(gathered, prefix)

    @app.get("/actions/{name}")
    async def ask(
        request: Request, visitor: Who, name: str, prefix: str, slave: str = "", tables: str = "", ids: str = ""
    ) -> Response:
        slaves = (slave,) if slave else ()
        action, replication = await asked(visitor, name, prefix, *slaves)
        return _page(show, request, visitor, action, replication, slaves, {"tables": tables, "ids": ids})

    @app.post("/actions/{name}")
    async def do(request: Request, visitor: Who, name: str) -> Response:
        form = await _form(request)
        slaves = tuple(dict.fromkeys(form.get("slave", [])))
        action, replication = await asked(visitor, name, _first(form, "prefix"), *slaves)
        given = {key: values[0] for key, values in form.items()}
        why = given.get("why", "")
        if not _from_own_page(request, visitor, given.get("key", "")):
            problem = (
                "This page was too old, or came from elsewhere: nothing was done. Look again, then press once more."
            )
            return _page(show, request, visitor, action, replication, slaves, given, why, problem, 400)
        api = InProcessApi.of(request)

        def work() -> Done:
            return perform(api, ordered(action, str(replication.prefix), slaves, given, why))

        try:
            done = await in_thread(work)
        except SluiceError as problem:
            return _page(show, request, visitor, action, replication, slaves, given, why, str(problem), 400)
        watch.forget()
        return show(
            request, "done.html", visitor,
            action=action, replication=replication, slaves=slaves, done=done, here="action", quote=quote,
        )  # fmt: skip


def _page(
    show: Renderer,
    request: Request,
    visitor: Visitor,
    action: Action,
    replication: Replication,
    slaves: tuple[str, ...],
    given: Mapping[str, str],
    why: str = "",
    problem: str = "",
    status: int = 200,
) -> Response:
    values: dict[str, object] = {
        "action": action, "replication": replication, "slaves": slaves, "given": given, "why": why,
        "problem": problem, "here": "action", "about": Scope,
    }  # fmt: skip
    return show(request, "action.html", visitor, status, **values)


def _from_own_page(request: Request, visitor: Visitor, key: str) -> bool:
    """Whether the form was made by a page of this monitor for this person."""
    if request.headers.get("sec-fetch-site") == "cross-site":
        return False
    return hmac.compare_digest(key.encode(), visitor.form_key.encode())


async def _form(request: Request) -> dict[str, list[str]]:
    if request.headers.get("content-type", "").split(";")[0].strip() != FORM:
        raise HTTPException(415, "An action wants the fields of its form.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_FORM:
            raise HTTPException(413, "The form is too long.")
    try:
        return parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=2000)
    except ValueError:
        raise HTTPException(400, "The form cannot be read.") from None


def _first(form: Mapping[str, list[str]], name: str) -> str:
    return form.get(name, [""])[0]
