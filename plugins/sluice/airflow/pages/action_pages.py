"""The page of an action: description, fields, confirmation, and result.

A form is accepted only from a person who may do the action, and only with the key of its own page, which a page of
another site does not have. The action calls Airflow's public API with the person's own credentials.
"""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import parse_qs, quote

from fastapi import Depends, FastAPI, HTTPException, Request, Response

from sluice.airflow.pages import hidden
from sluice.airflow.pages.access import Visitor, may, missing_right
from sluice.airflow.pages.databases import in_thread
from sluice.airflow.pages.gathering import Gathered, Watch, configured
from sluice.airflow.pages.in_process_api import InProcessApi
from sluice.airflow.pages.overview import rows_of
from sluice.airflow.pages.rendering import Renderer
from sluice.airflow.pages.slave_row import SlaveRow
from sluice.configuration.model import Replication
from sluice.errors import SluiceError
from sluice.operate.actions import ACTIONS, MAY_LOSE, Action, Incomplete, loses, ordered
from sluice.operate.open_runs import Run
from sluice.operate.perform import Done, perform

LONGEST_FORM = 100_000
"""Bytes."""
OFFERED_TABLES = 200
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class _Wish:
    """An action with its target and the values of its form."""

    action: Action
    replication: Replication
    slaves: tuple[str, ...]
    given: Mapping[str, str]
    """Values of the form's fields."""
    gathered: Gathered

    @property
    def prefix(self) -> str:
        return str(self.replication.prefix)

    @property
    def why(self) -> str:
        return self.given.get("why", "")

    @property
    def rows(self) -> dict[str, SlaveRow]:
        """The chosen slaves."""
        rows = rows_of(self.gathered, self.replication, self.gathered.moment(datetime.now(UTC)))
        return {one.slave: one for one in rows if one.slave in self.slaves}

    @property
    def lost(self) -> str:
        """What the action empties or stops."""
        return loses(self.action, self.given, {name: one.word for name, one in self.rows.items()})

    @property
    def known_tables(self) -> list[str]:
        """Tables of the chosen slaves, or of all, to choose from; none if there are too many."""
        slaves = self.slaves or self.replication.slaves
        live = [self.gathered.live.slave(self.replication.prefix, slave) for slave in slaves]
        names = sorted({table for one in live for table in (*one.tables, *(one.status.get("not_ready") or ()))})
        return names if len(names) <= OFFERED_TABLES else []

    @property
    def run(self) -> Run | None:
        """The run that it is about."""
        runs = self.gathered.airflow.runs
        if question := self.given.get("question"):
            return next((run for run in runs if run.question and run.question.id == question), None)
        return next((run for run in runs if self.given.get("run") == run.id), None)


@dataclass(frozen=True)
class _Link:
    """The query of a link to an action: its target, and values for its fields."""

    prefix: str
    slave: str = ""
    tables: str = ""
    ids: str = ""
    question: str = ""
    dag: str = ""
    run: str = ""
    action: str = ""


def add(app: FastAPI, guard: Callable[..., Visitor], show: Renderer, watch: Watch) -> None:
    Who = Annotated[Visitor, Depends(guard)]  # noqa: N806

    async def wish(
        visitor: Visitor, name: str, prefix: str, slaves: tuple[str, ...], given: Mapping[str, str]
    ) -> _Wish:
        """Raises 403, 404."""
        action = ACTIONS.get(name)
        if action is None:
            raise HTTPException(404, f"There is no action {name!r}.")
        if not may(visitor, action):
            raise HTTPException(403, f"{action.label} needs the right to {missing_right(visitor, action)}.")
        gathered = await watch.state()
        for slave in slaves:
            configured(gathered, prefix, slave)
        gathered = hidden.shown_to(visitor, gathered)
        return _Wish(action, configured(gathered, prefix), slaves, given, gathered)

    def page(request: Request, visitor: Visitor, about: _Wish, problem: str = "", wrong: str = "") -> Response:
        """The form, with a problem of its former values, and the field that has it."""
        run, asked = about.run, None
        waiting = [one for slave in about.slaves for one in about.gathered.airflow.about(about.prefix, slave)]
        if about.action.name == "approve":
            asked = run.question if run else None
            if asked is None and about.given.get("question"):
                raise HTTPException(404, "This question waits no more: it was answered, or its run has ended.")
        return show(
            request, "action.html", visitor, 400 if problem else 200,
            **vars(about), why=about.why, problem=problem, wrong=wrong, here="action", asked=asked,
            lost=about.lost, known_tables=about.known_tables, run=run, may_lose=MAY_LOSE,
            waiting=[one for one in waiting if one.question],
        )  # fmt: skip

    @app.get("/actions/{name}")
    async def ask(request: Request, visitor: Who, name: str, link: Annotated[_Link, Depends()]) -> Response:
        slaves = (link.slave,) if link.slave else ()
        given = {name: value for name, value in vars(link).items() if name not in ("prefix", "slave") and value}
        return page(request, visitor, await wish(visitor, name, link.prefix, slaves, given))

    @app.post("/actions/{name}")
    async def do(request: Request, visitor: Who, name: str) -> Response:
        form = await form_of(request)
        given = {key: "\n".join(values) if key == "tables" else values[0] for key, values in form.items()}
        slaves = tuple(dict.fromkeys(form.get("slave", [])))
        about = await wish(visitor, name, given.get("prefix", ""), slaves, given)
        if not from_own_page(request, visitor, given.get("key", "")):
            problem = (
                "This page was too old, or came from elsewhere: nothing was done. Look again, then press once more."
            )
            return page(request, visitor, about, problem)
        api = InProcessApi.of(request)

        def work() -> Done:
            order = ordered(about.action, about.prefix, slaves, given, about.why, about.lost)
            return perform(api, order)

        try:
            done = await in_thread(work)
        except SluiceError as problem:
            return page(request, visitor, about, str(problem), problem.field if isinstance(problem, Incomplete) else "")
        watch.forget()
        return show(
            request, "done.html", visitor,
            action=about.action, replication=about.replication, slaves=slaves, done=done, here="action", quote=quote,
        )  # fmt: skip


def from_own_page(request: Request, visitor: Visitor, key: str) -> bool:
    """Whether the form comes from a page of this monitor for this person."""
    if request.headers.get("sec-fetch-site") == "cross-site":
        return False
    return hmac.compare_digest(key.encode(), visitor.form_key.encode())


async def form_of(request: Request) -> dict[str, list[str]]:
    """The fields of a form with their values. Raises 400, 413, 415."""
    if request.headers.get("content-type", "").split(";")[0].strip() != FORM:
        raise HTTPException(415, "An action needs the fields of its form.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_FORM:
            raise HTTPException(413, "The form is too long.")
    try:
        return parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=2000)
    except ValueError:
        raise HTTPException(400, "The form cannot be read.") from None
