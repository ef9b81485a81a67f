"""Texts of notices about what needs a person. The key of a notice identifies the occasion, so that it is sent once."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sluice.airflow.pages.message import Level, Message
from sluice.airflow.pages.templates import environment
from sluice.coordination.gate import ERROR, Closure
from sluice.coordination.records import DefinitionGap, ItemsFindings
from sluice.coordination.verification_log import LastComparison
from sluice.counted import counted
from sluice.model.checkpoint import Checkpoint
from sluice.model.joining import StartedLoad, remaining
from sluice.model.names import Prefix
from sluice.model.reject import Reject
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import how_to_capture, how_to_load

LISTED = 20
"""Tables that a notice names at most."""


@dataclass(frozen=True)
class Notice:
    """A message to a person. Arguments of a notifier use it as `notice`: `{{ notice.subject }}`."""

    key: str
    subject: str
    """One line."""
    text: str
    """What was found, and what to do; several lines."""
    link: str = ""
    """Address of a page with more."""

    @property
    def html(self) -> str:
        """The notice as HTML, for e-mail."""
        return environment().get_template("notice.html").render(notice=self)


def of_test(prefix: Prefix, by: str) -> Notice:
    """A test that a person asked for."""
    text = (
        f"{by} asked for this test: notices about {prefix} arrive here. Nothing is wrong, and nothing has to be done."
    )
    return Notice(f"{prefix}: test", f"{prefix}: a test of notices", text)


def of_comparisons(pair: str, seen: Mapping[str, LastComparison], link: Callable[[str], str]) -> Iterator[Notice]:
    """Tables that differed in their last comparison or could not be compared; one notice a run and outcome.

    `seen`: content of `coordination.verification_log`. `link`: gives the address of a run's report.
    """
    for outcome, subject, remedy in (
        (
            "different",
            f"{pair} differs from its master",
            "Read the report. To fix the rows, approve the repair in Airflow (Required actions), or start the DAG "
            "resync with the action repair.",
        ),
        (
            "could not compare",
            f"{pair} could not be compared with its master",
            "Fix what the reason names, then start the DAG resync.",
        ),
    ):
        runs: dict[str, list[str]] = {}
        for table, one in seen.items():
            if one.get("outcome") == outcome:
                what = _rows(one.get("differ", 0)) if outcome == "different" else str(one.get("reason"))
                runs.setdefault(str(one.get("run")), []).append(f"{table}: {what}")
        for run, lines in runs.items():
            yield Notice(
                f"{pair}: {outcome}: {run}",
                f"{subject}: {counted(len(lines), 'table')}",
                "\n".join([*_listed(lines), remedy]),
                link(run),
            )


def of_age(pair: str, seen: Mapping[str, Mapping[str, object]], days: int, now: datetime) -> Iterator[Notice]:
    """Tables that were not found identical for `days` days; a new occasion every `days` days."""
    ages = {table: now - datetime.fromisoformat(last) for table, one in seen.items() if (last := _last(one))}
    old = {table: age for table, age in ages.items() if days and age > timedelta(days=days)}
    if not old:
        return
    eldest = max(old, key=lambda table: old[table])
    lines = [
        f"{table}: {'verified through ' + str(seen[table]['time']) if seen[table].get('time') else 'never verified'}"
        for table in sorted(old)
    ]
    yield Notice(
        f"{pair}: not verified: {_last(seen[eldest])}: {old[eldest] // timedelta(days=days)}",
        f"{pair} has not been verified for {counted(days, 'day')}: {counted(len(old), 'table')}",
        "\n".join([*_listed(lines), "See why the DAG resync does not run, or finds them other than identical."]),
    )


def of_state(pair: str, checkpoint: Checkpoint | None) -> Iterator[Notice]:
    """A slave that needs a new initial update."""
    if checkpoint is not None and checkpoint.state is SlaveState.INCONSISTENT:
        yield Notice(
            f"{pair}: {checkpoint.state}: {checkpoint.epoch}: {checkpoint.message}",
            f"{pair} is {checkpoint.state}",
            f"{checkpoint.message}\nStart the DAG initial_update for it.",
        )


def of_tables(
    pair: str, prefix: Prefix, slave: str, checkpoint: Checkpoint | None, started: StartedLoad | None = None
) -> Iterator[Notice]:
    """Tables that a slave has not loaded and that no run loads; a new occasion when the tables change."""
    if checkpoint is None or checkpoint.state is not SlaveState.NORMAL:
        return
    missing = remaining(checkpoint.tables, started)
    if not missing:
        return
    lines = [f"{table}: {checkpoint.tables.explain(table)}" for table in missing]
    left_out = "Its changes are" if len(lines) == 1 else "Their changes are"
    yield Notice(
        f"{pair}: not loaded: {lines}",
        f"{pair} has not loaded {counted(len(lines), 'table')}",
        "\n".join([*_listed(lines), f"{left_out} left out. {how_to_load(prefix, slave, missing)}"]),
    )


def of_differing(pair: str, rejects: Sequence[Reject]) -> Iterator[Notice]:
    """Tables that differ because the slave could not follow a change; a new occasion for each such change."""
    if rejects:
        yield Notice(
            f"{pair}: differs: {','.join(str(reject.id) for reject in rejects)}",
            f"{pair}: {counted(len({reject.table for reject in rejects}), 'table')} could not be kept equal",
            "\n".join(_listed([reject.reason for reject in rejects], "change")),
        )


def of_definitions(pair: str, issues: Sequence[DefinitionGap]) -> Iterator[Notice]:
    """Indexes and constraints that only the master or only the slave has; a new occasion when they change."""
    if issues:
        yield Notice(
            f"{pair}: definitions: {_occasion(issues)}",
            f"{pair}: {counted(len(issues), 'definition')} not as on its master",
            "\n".join(_listed([one.on_slave for one in issues], "definition")),
        )


def of_items(prefix: Prefix, items: ItemsFindings) -> Iterator[Notice]:
    """ITEMS near its limit, a new occasion each time; a slave that should be dropped and cannot be; dropped slaves."""
    if items.warning:
        near = f"{prefix}: changes that wait on the master come near items_limit"
        yield Notice(f"{prefix}: items: {items.since}", near, items.warning)
    for slave, reason in items.not_dropped.items():
        subject = f"{prefix} → {slave} fills the master's disk"
        yield Notice(f"{prefix} → {slave}: not dropped: {items.since}", subject, reason)
    for slave, reason in items.dropped.items():
        yield Notice(f"{prefix} → {slave}: dropped: {reason}", f"{prefix} → {slave} was dropped", reason)


def of_capture(prefix: Prefix, issues: Sequence[DefinitionGap]) -> Iterator[Notice]:
    """Tables of the master that are not captured; a new occasion when they change."""
    if issues:
        yield Notice(
            f"{prefix}: not captured: {_occasion(issues)}",
            f"{prefix}: {counted(len(issues), 'table')} not captured",
            "\n".join(
                [*_listed([one.what for one in issues]), f"No slave gets what changes. {how_to_capture(prefix)}"]
            ),
        )


def of_gate(pair: str, closures: Iterable[Closure]) -> Iterator[Notice]:
    """An apply that stopped at an error which a person must fix."""
    for closure in closures:
        if closure.name == ERROR:
            yield Notice(f"{pair}: stopped: {closure.at}", f"{pair}: the apply has stopped", closure.with_remedy)


LASTING = {
    "apply": "no apply runs",
    "lag": "the slave is far behind",
    "configuration": "the configuration has a mistake",
    "rejects": "changes are set aside",
    "queue": "the queue is long",
    "redo": "the master's log is not read, or soon cannot be",
}
"""Subjects of critical messages of the monitor that have no notice of their own. They are sent once until fixed."""
RESTART_SECONDS = 120.0
"""An apply that is silent for less may be restarting."""


def of_messages(name: str, messages: Iterable[Message], silent: float | None = None) -> Iterator[Notice]:
    """Critical messages of a slave or a master.

    `silent`: seconds since the apply's last status; None if it has none.
    """
    silent_too_long = silent is not None and silent >= RESTART_SECONDS
    for message in messages:
        lasting = message.lasting in LASTING and (message.lasting != "apply" or silent_too_long)
        if message.level is Level.CRITICAL and lasting:
            yield Notice(lasting_key(name, message.lasting), f"{name}: {LASTING[message.lasting]}", message.text)


def lasting_key(name: str, word: str) -> str:
    """The key of a notice that is forgotten when its cause is fixed, so that the next occasion is sent again."""
    return f"{name}: red: {word}"


def _last(seen: Mapping[str, object]) -> str:
    """When the table was found identical, else since when it is known, else empty."""
    return str(seen.get("time") or seen.get("since") or "")


def _rows(number: int) -> str:
    return f"{counted(number, 'row')} {'differs' if number == 1 else 'differ'}"


def _listed(lines: list[str], noun: str = "table") -> list[str]:
    rest = len(lines) - LISTED
    return lines if rest <= 0 else [*lines[:LISTED], f"and {counted(rest, noun)} more"]


def _occasion(issues: Iterable[DefinitionGap]) -> str:
    """A digest that changes when other things are lacking, or the same thing again."""
    text = "\n".join(sorted(f"{one.since} {one.what}" for one in issues))
    return hashlib.sha256(text.encode()).hexdigest()
