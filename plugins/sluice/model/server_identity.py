"""The server on which a position was taken, and whether another server continues from there.

A master that is restored from a backup, or fails over to a standby that lagged, loses commits. Its transaction IDs are
used again, so an earlier position would cover new transactions. The write-ahead log shows this: a promoted server
begins a new timeline, and continues the former one up to a certain place.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sluice.errors import RESTART_APPLY, DataLost, Terminal

_PAGE, _HEADERS = 8192, (24, 40)
"""The page size of the log, and the sizes of a page header. After a full page, one function reports the place behind
the next page's header, another one the place before it."""


def master_replaced(former: "Origin", now: "Origin", reason: str) -> DataLost:
    """The master is another server, or a copy of it that lacks commits which were seen."""
    return DataLost(
        f"The master at {now} does not continue the one at {former}: {reason}. Start an initial update of this slave.",
        code="master-replaced",
    )


@dataclass(frozen=True)
class Origin:
    """A place in the write-ahead log of one server."""

    system: str
    """The identifier from `initdb`; copies of the server have the same."""
    timeline: int
    lsn: int

    @classmethod
    def parse(cls, text: str) -> "Origin":
        """Reads a text of `str`."""
        system, timeline, lsn = text.split(" ")
        return cls(system, int(timeline), offset(lsn))

    def __str__(self) -> str:
        return f"{self.system} {self.timeline} {self.lsn >> 32:X}/{self.lsn & 0xFFFFFFFF:X}"


def offset(lsn: str) -> int:
    """Bytes from the text of a `pg_lsn`."""
    high, low = lsn.split("/")
    return int(high, 16) << 32 | int(low, 16)


def switches(history: str) -> dict[int, int]:
    """The end of each former timeline, from a timeline's history file."""
    lines = (line.split() for line in history.splitlines() if line.strip() and not line.startswith("#"))
    return {int(words[0]): offset(words[1]) for words in lines}


def same_server(former: Origin, now: Origin) -> bool:
    """Whether nothing has to be proved. Raises `master-replaced` if nothing could prove it."""
    if former.system != now.system:
        raise master_replaced(former, now, "it is another database cluster")
    if now.timeline < former.timeline:
        raise master_replaced(former, now, "it is an older copy, of before a fail-over")
    if now.timeline == former.timeline and now.lsn < _bare(former.lsn):
        raise master_replaced(former, now, "its log ends earlier, as after a restore of its files")
    return now.timeline == former.timeline


def prove(former: Origin, now: Origin, left: Mapping[int, int] | None, replayed: int | None) -> None:
    """Tests a promoted server. Raises `master-replaced`, `failover-unproven`.

    `left`: `switches` of the present timeline; None: unknown. `replayed`: the place up to which the server followed
    another one before its promotion; None if it was restarted since.
    """
    reached = replayed if now.timeline == former.timeline + 1 else None
    if left is not None:
        if former.timeline not in left:
            raise master_replaced(former, now, "its timeline does not descend from that one")
        reached = left[former.timeline]
    if reached is None:
        raise Terminal(
            f"The master failed over, from {former} to {now}, and this account cannot see whether commits were lost. "
            "GRANT EXECUTE ON FUNCTION pg_catalog.pg_read_file(text, bigint, bigint, boolean) TO it on the master, so "
            f"that it can read the timeline's history, and {RESTART_APPLY}; or start the DAG initial_update.",
            code="failover-unproven",
        )
    if reached < _bare(former.lsn):
        lost = former.lsn - reached
        raise master_replaced(
            former, now, f"it was promoted {lost} bytes of the log short, and what these held is lost"
        )


def _bare(lsn: int) -> int:
    return lsn - lsn % _PAGE if lsn % _PAGE in _HEADERS else lsn
