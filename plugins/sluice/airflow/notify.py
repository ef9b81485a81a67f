"""Sends notices with the notifiers of the configuration, once an occasion.

The next run of `housekeeping` repeats what failed. Without notifiers the notices are in the task's log only.
"""

import inspect
import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import import_module
from itertools import product
from typing import Any

from airflow.sdk import Context

from sluice.airflow import notices, state_paths
from sluice.airflow.notices import Notice
from sluice.airflow.pages.slave_row import master_messages, row
from sluice.airflow.step import step
from sluice.airflow.task_context import TaskContext
from sluice.configuration.model import SlaveConfig
from sluice.configuration.options import NotifierConfig
from sluice.control.rejects import RejectStore
from sluice.coordination import lease, live_state
from sluice.coordination.gate import Gate
from sluice.coordination.records import Issues, ItemsState, Notified, Status
from sluice.coordination.verification_log import VerificationLog
from sluice.counted import counted, listed
from sluice.errors import SluiceError, Terminal, Transient
from sluice.model.reject import Reject

log = logging.getLogger("sluice.airflow")

DEFAULTS = {
    "subject": "{{ notice.subject }}",
    "html_content": "{{ notice.html }}",
    "text": "{{ notice.subject }}\n{{ notice.text }}\n{{ notice.link }}",
    "message": "{{ notice.subject }}\n{{ notice.text }}\n{{ notice.link }}",
    "summary": "{{ notice.subject }}",
}
"""Defaults of the arguments that take a notifier's text, unless the configuration sets them."""


def send_notices(task: TaskContext) -> str:
    """Sends the notices of a replication; returns how many in words. Raises `notifiers-failed` if a notifier fails."""
    notices = list(needs(task))
    notified = Notified(task.redis, task.prefix)
    failures = []
    sent = 0
    for notice in notices:
        log.warning("%s. %s", notice.subject, notice.text)
        for notifier in task.replication.notify:
            key = f"{notifier.path} {notice.key}"
            if notified.of(key).noted():
                continue
            try:
                _send(notifier, notice, task.context)
            except Exception as failure:  # a notifier is foreign code
                log.exception("%s: %s did not send the notice", task, notifier.path)
                failures.append(f"{notifier.path}: {failure}")
                continue
            notified.of(key).note()
            sent += 1
    _forget_fixed(task, notified, {notice.key for notice in notices})
    if failures:
        raise Transient(
            f"{task}: {counted(len(failures), 'notice')} could not be told: {'; '.join(failures[:5])}",
            code="notifiers-failed",
        )
    need = "needs" if len(notices) == 1 else "need"
    return f"{counted(len(notices), 'thing')} {need} a person, {counted(sent, 'notice')} sent"


@step
def send_test(task: TaskContext) -> str:
    """Sends a test through each notifier of the configuration; tries all, then fails if one did not take it."""
    if not task.replication.notify:
        raise Terminal(
            f"{task}: {task.replication.source} names no notifier under notify: notices are in the log of housekeeping "
            "only. Add one, then start this again.",
            code="no-notifier",
        )
    notice = notices.of_test(task.prefix, task.person("the DAG notify"))
    sent, failures = list[str](), list[str]()
    for notifier in task.replication.notify:
        try:
            _send(notifier, notice, task.context)
            sent.append(notifier.path)
        except Exception as failure:  # a notifier is foreign code
            log.exception("%s: %s did not send the test", task, notifier.path)
            failures.append(f"{notifier.path}: {failure}")
    if failures:
        taken = f" It was sent through {listed(sent)}." if sent else ""
        raise Terminal(f"{task}: the test could not be sent: {'; '.join(failures)}.{taken}", code="test-notice-failed")
    return f"sent through {listed(sent)}"


def _forget_fixed(task: TaskContext, notified: Notified, occasions: set[str]) -> None:
    names = [str(task.prefix), *(f"{task.prefix} → {slave}" for slave in task.replication.slaves)]
    for name, word in product(names, notices.LASTING):
        if (key := notices.lasting_key(name, word)) not in occasions:
            for notifier in task.replication.notify:
                notified.of(f"{notifier.path} {key}").forget()


def send_notices_of_run(task: TaskContext) -> None:
    """The same at the end of a run, without raising: a failing notifier must not hide what the run found."""
    try:
        send_notices(task)
    except SluiceError as failure:
        log.warning("%s", failure)


def needs(task: TaskContext) -> Iterable[Notice]:
    """Everything that needs a person; for a slave that does not answer, from Redis. Raises `StoreUnreachable`."""
    options, now = task.replication.verify, datetime.now(UTC)
    live = live_state.read(task.redis, {task.prefix: list(task.replication.slaves)})
    yield from notices.of_messages(str(task.prefix), master_messages(task.replication, live.master(task.prefix), now))
    for name in task.replication.slaves:
        shown = row(task.replication, name, live.slave(task.prefix, name), now)
        silent = (now - shown.last_status).total_seconds() if shown.last_status else None
        yield from notices.of_messages(shown.pair, shown.messages, silent)
    yield from notices.of_capture(task.prefix, Issues(task.redis, task.prefix).read())
    yield from notices.of_items(task.prefix, ItemsState(task.redis, task.prefix).read())
    for slave in task.replication.slaves.values():
        pair = f"{task.prefix} → {slave.name}"
        try:
            checkpoint = task.checkpoint(slave)
        except SluiceError as failure:
            log.warning("%s: its state is not known: %s", pair, failure)
            checkpoint = None
        if checkpoint is not None and not lease.taken(task.redis, task.prefix, slave.name):
            Status(task.redis, task.prefix, slave.name).note(checkpoint.state, checkpoint.message)
        started = live.slave(task.prefix, slave.name).started
        yield from notices.of_state(pair, checkpoint)
        yield from notices.of_differing(pair, _differing(task, slave))
        yield from notices.of_definitions(pair, Issues(task.redis, task.prefix, slave.name).read())
        yield from notices.of_tables(pair, task.prefix, slave.name, checkpoint, started)
        yield from notices.of_gate(pair, Gate(task.redis, task.prefix, slave.name).closures())
        seen = VerificationLog(task.redis, task.prefix, slave.name).read()
        reported = {table: one for table, one in seen.items() if not state_paths.is_unreported(str(one.get("run")))}
        yield from notices.of_comparisons(pair, reported, state_paths.report_link)
        yield from notices.of_age(pair, seen, options.max_age_days, datetime.now(UTC))


def _differing(task: TaskContext, slave: SlaveConfig) -> list[Reject]:
    """Rejects of the slave that make tables differ; none if the slave does not answer."""
    try:
        with task.at(slave) as session:
            rejects: list[Reject] = RejectStore(session, task.prefix, slave.schema, slave.name).differing()
    except SluiceError as failure:
        log.warning("%s → %s: what differs is not known: %s", task.prefix, slave.name, failure)
        return []
    return rejects


def made(notifier: NotifierConfig) -> Any:
    """Creates the Airflow notifier of the configuration. Raises `notifier-unusable`."""
    module, _, name = notifier.path.rpartition(".")
    try:
        kind = getattr(import_module(module), name)
        parameters = inspect.signature(kind).parameters
        defaults = {name: text for name, text in DEFAULTS.items() if name in parameters}
        return kind(**{**defaults, **notifier.arguments})
    except Exception as error:
        raise Terminal(
            f"The notifier {notifier.path} of the configuration cannot be used: "
            f"{(str(error) or type(error).__name__)}. Correct notify.",
            code="notifier-unusable",
        ) from error


def _send(notifier: NotifierConfig, notice: Notice, context: Context) -> None:
    made(notifier)({**context, "notice": notice})
