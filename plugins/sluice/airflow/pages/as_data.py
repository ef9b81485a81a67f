"""The pages as data, for programs: `./sluice status`, scripts, other monitors."""

from datetime import datetime

from sluice.airflow.pages.databases import LastAnswer, SlaveData
from sluice.airflow.pages.gathering import Gathered
from sluice.airflow.pages.message import Message
from sluice.airflow.pages.overview import Choice, MasterGroup
from sluice.airflow.pages.overview import overview as made
from sluice.airflow.pages.slave_row import SlaveRow
from sluice.coordination.live_state import Past
from sluice.model.monitor_data import MasterOverview, MessageData, Overview, QueueData, SlaveOverview, WholeSlave


def overview(gathered: Gathered, now: datetime) -> Overview:
    page = made(gathered, Choice(), now)
    return {
        "at": _time(gathered.at),
        "trouble": gathered.trouble,
        "messages": [_message(message) for message in page.messages],
        "masters": [_master(group) for group in page.groups],
        "broken": [{"prefix": one.prefix, "mistakes": list(one.mistakes)} for one in page.broken],
    }


def _master(group: MasterGroup) -> MasterOverview:
    return {
        "prefix": group.prefix,
        "from": group.source,
        "queue": _queue(group),
        "messages": [_message(message) for message in group.messages],
        "slaves": [slave(one) for one in group.rows],
    }


def _queue(group: MasterGroup) -> QueueData | None:
    queue = group.live.queue
    if queue is None:
        return None
    return {
        "at": queue.at,
        "changes": queue.changes,
        "bytes": queue.bytes,
        "held_by": list(queue.held_by),
        "oldest": _time(group.oldest),
        "resources": queue.resources,
    }


def slave(one: SlaveRow) -> SlaveOverview:
    return {
        "slave": one.slave,
        "state": one.word,
        "level": one.level.word,
        "sentence": one.sentence,
        "current_as_of": _time(one.as_of),
        "lag_seconds": one.lag,
        "changes_per_second": one.rate,
        "applying": one.applying,
        "connection": one.connection,
        "applied_by": one.holder,
        "since": _time(one.since),
        "safe_mode": one.safe_mode,
        "tables": one.tables,
        "not_ready": dict(one.not_ready),
        "loading": list(one.loading),
        "rejects": list(one.rejects),
        "verified_through": _time(one.verified),
        "not_equal": one.different,
        "closures": list(one.closures),
        "messages": [_message(message) for message in one.messages],
    }


def whole_slave(gathered: Gathered, one: SlaveRow, looked: LastAnswer[SlaveData], past: Past) -> WholeSlave:
    """A slave, the content of its database, and its events."""
    seen = looked.seen or SlaveData()
    return {
        "at": _time(gathered.at),
        "trouble": gathered.trouble or looked.trouble,
        "prefix": one.prefix,
        **slave(one),
        "changes": seen.checkpoint.changes if seen.checkpoint else None,
        "load": seen.progress.lines() if seen.progress else [],
        "rejected": seen.rejected,
        "rejected_changes": [str(reject) for reject in seen.rejects],
        "database": seen.who,
        "switches": [one.to_dict() for one in seen.switches],
        "events": [{"at": round(event.at, 3), "kind": event.kind, "text": event.text} for event in past.events],
    }


def _message(message: Message) -> MessageData:
    return {
        "level": message.level.word, "text": message.text, "remedy": message.remedy, "tables": message.table,
        "dag": message.dag, "run": message.run, "failed": message.failed, "question": message.question,
        "details": message.details,
    }  # fmt: skip


def _time(time: datetime | None) -> str | None:
    return time.isoformat(timespec="milliseconds") if time else None
