"""The pages of all slaves."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse

from sluice.airflow.pages import as_data, hidden, metrics
from sluice.airflow.pages.access import Visitor
from sluice.airflow.pages.databases import Databases, in_thread
from sluice.airflow.pages.gathering import MANY, Gathered, Watch
from sluice.airflow.pages.overview import Choice, overview, rows_of, source_of
from sluice.airflow.pages.rendering import HEADERS, POLL_SECONDS, Renderer
from sluice.airflow.pages.slave_row import SlaveRow, state_of
from sluice.configuration.model import Replication
from sluice.coordination.live_state import LiveSlave
from sluice.load.progress import Progress
from sluice.model.slave_state import SlaveState

# The topology: masters, their slaves, and the slaves of those, which are masters themselves. Pure.
#
# A slave of one replication is the master of another one if both use the same connection.


@dataclass(frozen=True)
class Fed:
    """A slave with what it feeds itself."""

    row: SlaveRow
    conn_id: str
    feeds: "tuple[Feeder, ...]"


@dataclass(frozen=True)
class Feeder:
    """A replication, from its master to its slaves."""

    prefix: str
    source: str
    """Vendor and connection, or folder."""
    slaves: tuple[Fed, ...]
    again: bool = False
    """Whether it is shown above already, because it feeds itself in a circle."""


def roots(gathered: Gathered, now: datetime) -> tuple[Feeder, ...]:
    """The masters that nobody feeds, with all that they feed; then those that feed each other in a circle."""
    replications = gathered.survey.replications
    fed = {slave.conn_id for one in replications for slave in one.slaves.values()}
    rows = {str(one.prefix): rows_of(gathered, one, now) for one in replications}
    first = [one for one in replications if one.master.conn_id not in fed]
    feeders = [_feeder(one, replications, rows, ()) for one in first]
    shown = {prefix for one in feeders for prefix in _prefixes(one)}
    for one in replications:
        if str(one.prefix) not in shown:
            feeders.append(_feeder(one, replications, rows, ()))
            shown |= set(_prefixes(feeders[-1]))
    return tuple(feeders)


def _feeder(
    one: Replication, every: Sequence[Replication], rows: dict[str, list[SlaveRow]], above: tuple[str, ...]
) -> Feeder:
    prefix = str(one.prefix)
    if prefix in above:
        return Feeder(prefix, source_of(one), (), again=True)
    slaves = []
    for row in rows[prefix]:
        conn_id = one.slaves[row.slave].conn_id
        masters = [each for each in every if each.master.conn_id == conn_id]
        feeds = tuple(_feeder(each, every, rows, (*above, prefix)) for each in masters)
        slaves.append(Fed(row, conn_id, feeds))
    return Feeder(prefix, source_of(one), tuple(slaves))


def _prefixes(one: Feeder) -> Iterator[str]:
    yield one.prefix
    for slave in one.slaves:
        for feeder in slave.feeds:
            yield from _prefixes(feeder)


MANY_POLL_SECONDS = 10
"""How often a page of many slaves refreshes itself."""
ATTENTION_SHOWN = 8


def add(app: FastAPI, guard: Callable[..., Visitor], show: Renderer, watch: Watch, databases: Databases) -> None:
    Who = Annotated[Visitor, Depends(guard)]  # noqa: N806

    @app.get("/")
    async def index(
        request: Request, visitor: Who, find: str = "", state: str = "", level: str = "", sort: str = ""
    ) -> Response:
        choice = Choice(find.strip(), state, level, sort)
        state_now = await watch.state()

        def render() -> Response:
            now, gathered = datetime.now(UTC), hidden.shown_to(visitor, state_now)
            page = overview(gathered, choice, now)
            return show(
                request,
                "overview.html",
                visitor,
                page=page,
                gathered=gathered,
                link=lambda **other: link(choice, **other),
                here="overview",
                poll=POLL_SECONDS if page.shown <= MANY else MANY_POLL_SECONDS,
                attention_shown=ATTENTION_SHOWN,
            )

        return await in_thread(render)

    @app.get("/topology/")
    async def topology_page(request: Request, visitor: Who) -> Response:
        state_now = await watch.state()

        def render() -> Response:
            gathered = hidden.shown_to(visitor, state_now)
            found = roots(gathered, gathered.moment(datetime.now(UTC)))
            return show(
                request, "topology.html", visitor, roots=found, gathered=gathered, here="topology", poll=POLL_SECONDS
            )

        return await in_thread(render)

    @app.get("/overview.json")
    async def index_data(visitor: Who) -> Response:
        gathered = await watch.state()
        data = await in_thread(lambda: as_data.overview(hidden.shown_to(visitor, gathered), datetime.now(UTC)))
        return JSONResponse(data, headers=HEADERS)

    @app.get("/metrics")
    async def measured(visitor: Who) -> Response:
        gathered = await watch.state()
        loads = await loads_of(gathered, databases)
        text = await in_thread(lambda: metrics.text(gathered, datetime.now(UTC), loads))
        return Response(text, media_type=metrics.CONTENT_TYPE, headers=HEADERS)


async def loads_of(gathered: Gathered, databases: Databases) -> dict[tuple[str, str], Progress]:
    """The progress of each slave that is being loaded and whose database answers."""
    loading = [
        (one, slave)
        for one in gathered.survey.replications
        for slave in one.slaves
        if is_loading(gathered.live.slave(one.prefix, slave))
    ]
    answers = await asyncio.gather(*(databases.slave(one, slave) for one, slave in loading))
    return {
        (str(one.prefix), slave): looked.seen.progress
        for (one, slave), looked in zip(loading, answers, strict=True)
        if looked.seen and looked.seen.progress and not looked.trouble
    }


def is_loading(live: LiveSlave) -> bool:
    """Whether a load of the slave is running: of all tables, or of some while it is NORMAL."""
    return bool(live.status.get("loading")) or state_of(live) in (SlaveState.INITIAL, SlaveState.TRANSITION)


def link(choice: Choice, **other: str) -> str:
    """The query of the overview with another choice."""
    values = {**vars(choice), **other}
    return "?" + urlencode({name: value for name, value in values.items() if value})
