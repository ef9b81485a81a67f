"""Who feeds whom: masters, their slaves, and the slaves of those, which are masters themselves. Pure.

A slave of one replication is the master of another one if both use the same connection.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sluice.airflow.pages.known import Gathered
from sluice.airflow.pages.overview import place_of, rows_of
from sluice.airflow.pages.slave_row import SlaveRow
from sluice.config import Replication


@dataclass(frozen=True)
class Fed:
    """A slave with what it feeds itself."""

    row: SlaveRow
    conn_id: str
    feeds: "tuple[Feeder, ...]"


@dataclass(frozen=True)
class Feeder:
    """A replication, from its master's place to its slaves."""

    prefix: str
    place: str
    """Vendor and connection, or folder."""
    slaves: tuple[Fed, ...]
    again: bool = False
    """Whether it is shown above already, because it feeds itself in a circle."""


def roots(gathered: Gathered, now: datetime) -> tuple[Feeder, ...]:
    """The masters that nobody feeds, with all that they feed; then those that feed each other in a circle."""
    replications = gathered.survey.replications
    fed = {place.conn_id for one in replications for place in one.slaves.values()}
    rows = {str(one.prefix): rows_of(gathered, one, now) for one in replications}
    first = [one for one in replications if one.master.conn_id not in fed]
    made = [_feeder(one, replications, rows, ()) for one in first]
    shown = {prefix for one in made for prefix in _prefixes(one)}
    for one in replications:
        if str(one.prefix) not in shown:
            made.append(_feeder(one, replications, rows, ()))
            shown |= set(_prefixes(made[-1]))
    return tuple(made)


def _feeder(
    one: Replication, every: Sequence[Replication], rows: dict[str, list[SlaveRow]], above: tuple[str, ...]
) -> Feeder:
    prefix = str(one.prefix)
    if prefix in above:
        return Feeder(prefix, place_of(one), (), again=True)
    slaves = []
    for row in rows[prefix]:
        conn_id = one.slaves[row.slave].conn_id
        masters = [each for each in every if each.master.conn_id == conn_id]
        feeds = tuple(_feeder(each, every, rows, (*above, prefix)) for each in masters)
        slaves.append(Fed(row, conn_id, feeds))
    return Feeder(prefix, place_of(one), tuple(slaves))


def _prefixes(one: Feeder) -> Iterator[str]:
    yield one.prefix
    for slave in one.slaves:
        for feeder in slave.feeds:
            yield from _prefixes(feeder)
