"""The pages of one master: its state, and the queries of all databases."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response

from sluice.airflow import kept_rehearsals
from sluice.airflow.pages import hidden
from sluice.airflow.pages.access import Visitor
from sluice.airflow.pages.databases import Databases, in_thread
from sluice.airflow.pages.gathering import Watch, configured
from sluice.airflow.pages.overview import rows_of, source_of
from sluice.airflow.pages.rendering import POLL_SECONDS, Renderer
from sluice.airflow.pages.slave_row import master_messages, queue_level
from sluice.configuration.options import NotifierConfig
from sluice.model.mask import HIDDEN, SECRET
from sluice.operate.actions import Scope, of
from sluice.verify.rehearsal import rehearsable


def shown_arguments(notifier: NotifierConfig) -> str:
    """The recipients that a notifier's arguments name; what sounds like a secret is hidden."""
    return ", ".join(f"{name}: {_shown(name, value)}" for name, value in notifier.arguments.items())


def _shown(name: str, value: object) -> str:
    if SECRET.search(name) or isinstance(value, Mapping):
        return HIDDEN
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_shown("", one) for one in value)
    scheme, url, rest = str(value).partition("://")
    # The path of a web hook is its secret.
    return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}/{HIDDEN}" if url else str(value)


def add(app: FastAPI, guard: Callable[..., Visitor], show: Renderer, watch: Watch, databases: Databases) -> None:
    Who = Annotated[Visitor, Depends(guard)]  # noqa: N806

    @app.get("/masters/{prefix}/")
    async def master(request: Request, visitor: Who, prefix: str) -> Response:
        state_now = await watch.state()
        replication = configured(state_now, prefix)
        looked = await databases.master(replication)

        def render() -> Response:
            gathered = hidden.shown_to(visitor, state_now)
            now = gathered.moment(datetime.now(UTC))
            live = gathered.live.master(replication.prefix)
            rows = rows_of(gathered, replication, now)
            values: dict[str, Any] = {
                "gathered": gathered, "replication": replication, "live": live, "looked": looked, "rows": rows,
                "source": source_of(replication),
                "messages": master_messages(replication, live, now, gathered.airflow),
                "notifiers": [(one.path, shown_arguments(one)) for one in replication.notify],
                "queue_level": queue_level(replication, live), "actions": of(Scope.MASTER),
                "rehearsed": kept_rehearsals.latest(replication.prefix, 1) if rehearsable(replication) else None,
            }  # fmt: skip
            return show(request, "master.html", visitor, here="master", poll=POLL_SECONDS, **values)

        return await in_thread(render)

    @app.get("/masters/{prefix}/queries/")
    async def queries(request: Request, visitor: Who, prefix: str) -> Response:
        gathered = await watch.state()
        replication = configured(gathered, prefix)
        looked = await databases.queries(replication)
        return show(
            request, "queries.html", visitor, here="master", poll=POLL_SECONDS,
            gathered=gathered, replication=replication, looked=looked, visible=visitor.sees_values,
        )  # fmt: skip
