"""Compares what no change says: tables that are captured, and definitions of master and slaves. Changes nothing."""

import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from sluice.database.registry import vendor_of
from sluice.domain.lack import Severity
from sluice.domain.names import TableName
from sluice.domain.table_state import how_to_capture
from sluice.errors import SluiceError
from sluice.orchestration import notify
from sluice.orchestration.runs import is_updated
from sluice.orchestration.work import Work
from sluice.pair import Pair
from sluice.stores.lacks import Lacks
from sluice.verify import lacking

log = logging.getLogger("sluice.orchestration")


def compare(work: Work, slaves: Iterable[str]) -> int | None:
    """Notes for pages and `notify.tell` what differs on the master and `slaves`; how many, None: nothing is installed.

    The log names each with what mends it. Raises what the master cannot do; of a slave that is logged.
    """
    vendor, schema = work.replication.master.vendor, work.replication.master.schema
    now = datetime.now(UTC).isoformat(timespec="seconds")
    if work.replication.master.stream:
        return None
    with work.master() as master:
        if vendor_of(vendor).capture.installed(master, work.prefix, schema) is None:
            return None
        captured = vendor_of(vendor).changes.captured(master, work.prefix, schema)
        existing = work.existing_tables(master)
        defined = lacking.Defined.read(vendor, master, sorted(captured))
    number = _compare_captured(work, existing, captured, now)
    for name in slaves:
        one = work.of_slave(name)
        try:
            found = lacking.of_slave(Pair.of(one.replication, name, one.connections), defined, is_updated)
        except SluiceError as failure:
            log.warning("%s: its definitions are not compared: %s", one, failure)
            continue
        if found is None:
            continue
        for lack in found:
            log.log(logging.INFO if lack.severity is Severity.NOTE else logging.WARNING, "%s: %s", work, lack)
        grave = [lack for lack in found if lack.severity is not Severity.NOTE]
        number += len(grave)
        facts = [(f"{lack.what}: {lack.why}", lack.statement or "") for lack in grave]
        Lacks(work.redis, work.prefix, name).write(facts, now)
    return number


def compare_and_tell(work: Work, slaves: Iterable[str]) -> None:
    """The same, and people are told what needs them, also where the comparison fails. Raises as `compare`."""
    try:
        compare(work, slaves)
    finally:
        notify.tell_of_run(work)


def _compare_captured(work: Work, existing: list[TableName], captured: Mapping[TableName, str | None], now: str) -> int:
    """Notes which tables are not captured; how many."""
    try:
        lost = lacking.not_captured(work.replication, existing, captured)
    except SluiceError as failure:
        log.warning("%s: which tables are not captured is not known: %s", work, failure)
        return 0
    found = [(f"{table}: {why}", "") for table, why in sorted(lost.items())]
    for what, _ in found:
        log.warning("%s: %s. %s", work, what, how_to_capture(work.prefix))
    Lacks(work.redis, work.prefix).write(found, now)
    return len(found)
