"""The tasks of housekeeping: they remove what nobody needs any more, compare definitions, and send notices."""

import inspect
import json
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from airflow.sdk import Context, get_current_context, task

from sluice import config
from sluice.airflow import (
    applies,
    definition_comparison,
    expected_tables,
    forms,
    jobs,
    kept_rehearsals,
    notify,
    state_paths,
    steps_master,
    transfer_form,
)
from sluice.airflow.failure import as_airflow
from sluice.airflow.job import Job, JobState, Kind
from sluice.airflow.purging import Purge
from sluice.airflow.runs import is_active, is_known
from sluice.airflow.task_context import TaskContext
from sluice.airflow.verified_file import VerifiedFile
from sluice.configuration.model import SlaveConfig
from sluice.configuration.options import VerifyOptions
from sluice.control.blocks import BlockStore
from sluice.control.checkpoint import CheckpointStore
from sluice.control.own_tables import LoadOwner
from sluice.control.rejects import RejectStore
from sluice.coordination import apply_query, redis_store
from sluice.coordination.records import UsedLocations
from sluice.coordination.verification_log import VerificationLog
from sluice.counted import counted, listed
from sluice.database.control import Owner
from sluice.database.registry import master_of
from sluice.database.session import Session
from sluice.errors import SluiceError, Transient
from sluice.failover import survey
from sluice.failover.attempt import Failover
from sluice.load import clearing
from sluice.model.failover import Action, Sheet
from sluice.model.location import Location
from sluice.model.slave_state import SlaveState
from sluice.pair import Pair
from sluice.storage.opening import allowed_location

log = logging.getLogger("sluice.airflow")

NO_DATABASE = "a recorded stream: there is no database"
"""Result of a task on the master, if the master is a recorded stream."""

RETRY: dict[str, Any] = {"retries": 2, "retry_delay": timedelta(seconds=20)}
"""Few retries: the next scheduled run comes soon."""
GROUPS = 8
"""Tasks of a kind in one run, for any number of replications."""
KEPT_SECONDS = 7 * 24 * 3600.0
"""How long the record and the log of an ended job are kept."""


class PrefixTask(Protocol):
    """A task that is mapped over groups of prefixes: `purge_items.expand(prefixes=configured())`."""

    body: Callable[[TaskContext], object]
    """Works on one prefix."""

    def expand(self, *, prefixes: object) -> object: ...


def per_prefix(trigger_rule: str = "all_success") -> Callable[[Callable[[TaskContext], object]], PrefixTask]:
    """Makes a task that is mapped over groups of prefixes. A replication that fails keeps none of its group waiting."""

    def make(body: Callable[[TaskContext], object]) -> PrefixTask:
        @task(
            task_id=body.__name__,
            doc_md=inspect.getdoc(body),
            map_index_template="{{ prefixes | join(', ') }}",
            trigger_rule=trigger_rule,
            **RETRY,
        )
        def run(prefixes: list[str]) -> dict[str, object]:
            context = get_current_context()
            context["prefixes"] = prefixes  # type: ignore[typeddict-unknown-key]
            with as_airflow(context):
                return each_alone(body, prefixes, context)

        mapped_task: Any = run
        mapped_task.body = body
        mapped: PrefixTask = mapped_task
        return mapped

    return make


def each_alone(body: Callable[[TaskContext], object], prefixes: Sequence[str], context: Context) -> dict[str, object]:
    """Runs `body` for each prefix; returns the results. Raises the only error, or `replications-failed`."""
    results: dict[str, object] = {}
    failures: list[Exception] = []
    for prefix in prefixes:
        try:
            results[prefix] = body(TaskContext.of_prefix(prefix, context))
        except Exception as failure:  # of any kind: the others are looked after
            log.error("%s: %s", prefix, failure, exc_info=None if isinstance(failure, SluiceError) else failure)
            failures.append(failure)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise Transient(
            f"{counted(len(failures), 'replication')} failed: " + "; ".join(map(str, failures)),
            code="replications-failed",
        )
    return results


@task(**RETRY)  # type: ignore[untyped-decorator]
def configured() -> list[list[str]]:
    """Lists the replications whose configuration can be used, in a few groups, so that many of them do not fill
    Airflow's queue."""
    replications, mistakes = forms.survey()
    for mistake in mistakes:
        log.warning("%s", mistake)
    return groups([str(one.prefix) for one in replications])


def groups(prefixes: Sequence[str]) -> list[list[str]]:
    """`GROUPS` groups at most, of about the same size."""
    return [list(prefixes[number::GROUPS]) for number in range(min(GROUPS, len(prefixes)))]


@per_prefix()
def purge_items(task: TaskContext) -> str:
    """Deletes changes from ITEMS that **every** slave has applied. A slave that cannot be reached holds the purge: the
    log says which, since when, and how much waits. Removing it from the configuration releases the purge; past
    `items_limit` the slave that is furthest behind is dropped."""
    if task.replication.master.stream:
        return NO_DATABASE
    with task.master() as master:
        if not _installed(task, master):
            return "not installed"
        return Purge.of(task, master).run()


@per_prefix()
def check_structure(task: TaskContext) -> str:
    """Finds changed tables on the master that no event trigger reports, and queues their DDL in ITEMS. Ends the
    debugging of tables that a person wanted for an hour."""
    if task.replication.master.stream:
        return NO_DATABASE
    with task.master() as master:
        if not _installed(task, master):
            return "not installed"
        if over := steps_master.end_debugging(task, master):
            log.info("%s: not debugged any more: %s", task, listed(over))
        endpoint = task.replication.master
        changed = master_of(endpoint.vendor).queue(master, task.prefix, endpoint.schema).check_definitions()
    found = counted(len(changed), "change of structure", "changes of structure")
    text = f"{found}: {listed(changed)}" if changed else found
    log.info("%s: found by comparison: %s", task, text)
    return text


@per_prefix()
def keep_definitions(task: TaskContext) -> str:
    """Stores the master's triggers, constraints, privileges and sequences on each slave, for a failover without the
    master. A former master that is back after one is made to refuse writes."""
    if task.replication.master.stream:
        return NO_DATABASE
    kept = []
    sheet: Sheet | None = None
    for name, slave in task.replication.slaves.items():
        if not task.replication.fails_over(slave):
            continue
        one = task.of_slave(name)
        try:
            failover = Failover.named(
                Pair.of(one.replication, name, one.connections), str(task.context["run_id"]), Action.CHECK
            )
            if sheet is None:
                with failover.on_master() as master:
                    if not _installed(task, master):
                        return "not installed"
                    sheet = survey.read_sheet(failover, master)
            kept += [name] if survey.keep_sheet(failover, sheet) else []
            if text := survey.keep_apart(failover):
                log.error("%s: %s", one, text)
        except SluiceError as failure:
            log.warning("%s: the master's definitions are not kept there: %s", one, failure)
    return f"kept on {', '.join(kept) or 'no slave'}"


@per_prefix()
def compare_definitions(task: TaskContext) -> str:
    """Finds configured tables that are not captured; indexes, constraints and checks of domains that the master has and
    a slave lacks; constraints that only a slave has. Changes nothing. The log, the page and `tell_people` name each
    with its remedy. A running apply asks for the same comparison when a definition changes."""
    number = definition_comparison.compare(task, task.replication.slaves)
    return "not installed" if number is None else f"{counted(number, 'difference')} found"


@per_prefix(trigger_rule="all_done")
def tell_people(task: TaskContext) -> str:
    """Sends notices through `notify` of the configuration: a slave differs, could not be compared, was not verified for
    `max_age_days` or is INCONSISTENT; an apply stopped; tables are not loaded or not captured; a slave lacks
    definitions. Each occasion once.
    """
    _expect(task)
    return notify.send_notices(task)


@task(**RETRY)  # type: ignore[untyped-decorator]
def forget_reports() -> int:
    """Removes reports of `resync` and of rehearsals after `verify.keep_reports_days`; of several replications the
    longest counts."""
    replications, _ = forms.survey()
    kept = {str(one.prefix): one.verify.keep_reports_days for one in replications}
    forgotten = kept_rehearsals.forget(kept)
    for folder in sorted(state_paths.reports_folder().iterdir()):
        days = report_days(_reported(folder), kept)
        if days and time.time() - folder.stat().st_mtime > days * 24 * 3600:
            shutil.rmtree(folder, ignore_errors=True)
            forgotten += 1
    log.info("%s forgotten", counted(forgotten, "report"))
    return forgotten


def report_days(prefixes: Iterable[str], kept: dict[str, int]) -> int:
    """How many days a report about `prefixes` is kept, 0: forever. `kept`: days by prefix."""
    days = [kept.get(prefix, VerifyOptions.keep_reports_days) for prefix in prefixes]
    return 0 if 0 in days else max(days, default=VerifyOptions.keep_reports_days)


@per_prefix()
def forget_rejects(task: TaskContext) -> str:
    """Removes changes from REJECTS on the slaves `housekeeping.keep_rejects_days` after they were settled."""
    days = task.replication.housekeeping.keep_rejects_days
    forgotten = 0
    for slave in task.replication.slaves.values() if days else ():
        try:
            with task.at(slave) as session:
                rejects = RejectStore(session, task.prefix, slave.schema, slave.name)
                forgotten += rejects.forget(days) if rejects.ready() else 0
        except SluiceError as failure:
            log.warning("%s → %s: settled changes stay in REJECTS: %s", task, slave.name, failure)
    log.info("%s: %s forgotten", task, counted(forgotten, "settled change"))
    return f"{counted(forgotten, 'settled change')} forgotten"


@per_prefix()
def clear_files(task: TaskContext) -> str:
    """Removes folders of carried files `housekeeping.keep_files_days` after their initial update began, unless a slave
    still waits for one. The log names each."""
    days = task.replication.housekeeping.keep_files_days
    if not days:
        return "0 folders removed"
    try:
        awaited = {_awaited(task, slave) for slave in task.replication.slaves.values()}
    except SluiceError as failure:
        log.warning("%s: all folders of carried files stay, a slave may wait for one: %s", task, failure)
        return "held"
    before = datetime.now(UTC) - timedelta(days=days)
    one, removed = task.replication, 0
    for text in (*one.locations, *UsedLocations(task.redis, task.prefix).read()):
        try:
            location = allowed_location(Location.parse(text), one.locations, one.source)
            removed += clearing.clear(
                location, transfer_form.access(one), transfer_form.key(one), task.prefix, before, awaited
            )
        except SluiceError as failure:
            log.warning("%s: old folders at %s stay: %s", task, text, failure)
    log.info("%s: %s of carried files removed", task, counted(removed, "folder"))
    return f"{counted(removed, 'folder')} removed"


@task(**RETRY)  # type: ignore[untyped-decorator]
def end_orphans() -> int:
    """Ends jobs whose run has ended: a person ended it while no triggerer was running to stop the job.

    An apply whose run this Airflow does not know continues: its metadata was lost or restored (`unwatched_applies`).
    """
    ended = 0
    for job in filter(_is_orphan, jobs.all_jobs()):
        with jobs.exclusive(job.kind, job.prefix, job.slave):
            # Another run may have taken it over meanwhile.
            record = Job.read(job.id)
            if record is not None and _is_orphan(record):
                log.warning("The job %s is ended: %s, which watched it, is over", record.id, record.owner)
                record.stop("housekeeping", "the run that watched it is over")
                ended += 1
    ended += _end_queries()
    log.info("%s without a run ended", counted(ended, "job"))
    return ended


@task(**RETRY)  # type: ignore[untyped-decorator]
def unwatched_applies() -> list[dict[str, str]]:
    """The applies of configured pairs that nobody watches and whose run this Airflow does not know, as after a loss or
    a restore of its metadata, or when the run was deleted. Each gets a new run of `cdc_apply`, which adopts it."""
    found = []
    for prefix, slave in sorted(_configured_pairs()):
        running = applies.live(prefix, slave)
        if running is None or running.stop_request() is not None or is_known(running.owner):
            continue
        if not applies.of_pair(prefix, slave).state().watched_by:
            log.warning("The apply %s gets a new run: this Airflow has no %s", running.id, running.owner)
            found.append({"prefix": prefix, "slave": slave})
    return found


@task(**RETRY)  # type: ignore[untyped-decorator]
def forget_jobs() -> int:
    """Removes records and logs of jobs that ended a week ago; the last job of each pair stays."""
    recorded = jobs.all_jobs()
    newest = {(job.kind, job.pair): job.id for job in recorded}
    old = [
        job
        for job in recorded
        if newest[job.kind, job.pair] != job.id
        and job.state() is not JobState.RUNNING
        and time.time() - job.gone_since() > KEPT_SECONDS
    ]
    for job in old:
        job.forget()
    strays = _strays({job.id for job in recorded})
    log.info(
        "Jobs: %d forgotten, %d kept; %s of lost ones removed",
        len(old),
        len(recorded) - len(old),
        counted(strays, "file"),
    )
    return len(old)


def _end_queries() -> int:
    """Ends applies that are queries of Spark and whose run is over, also of replications whose file is gone. Returns
    their number; what Redis does not tell is left to the next time."""
    ended = 0
    try:
        for prefix, slave in apply_query.pairs(redis_store.connect()):
            query = applies.query(prefix, slave)
            if query is None or query.state() is not JobState.RUNNING or query.stop_request() is not None:
                continue
            # What this Airflow does not know is another one's with the same Redis, or waits for its adoption.
            if not is_active(query.owner) and is_known(query.owner):
                log.warning("The apply %s is ended: %s, which watched it, is over", query.id, query.owner)
                query.stop("housekeeping", "the run that watched it is over")
                ended += 1
    except SluiceError as away:
        log.warning("Applies that are queries of Spark are looked at the next time: %s", away)
    return ended


def _configured_pairs() -> set[tuple[str, str]]:
    return {(str(one.prefix), slave) for one in config.survey().replications for slave in one.slaves}


def _is_orphan(job: Job) -> bool:
    if job.state() is not JobState.RUNNING or job.stop_request() is not None or is_active(job.owner):
        return False
    # A load belongs to its run. Other jobs outlive theirs if this Airflow has lost it.
    adopted = (job.kind is Kind.APPLY and (job.prefix, job.slave) in _configured_pairs()) or job.kind is Kind.CAPTURE
    return not adopted or is_known(job.owner)


def _expect(task: TaskContext) -> None:
    """Stores which tables of each slave are to be verified: those that are replicated."""
    if not task.replication.comparable:
        return
    try:
        with task.rows() as master:
            tables = task.replication.resolve(task.existing_tables(master))
    except SluiceError as failure:
        log.warning("%s: the tables to verify are not known: %s", task, failure)
        return
    now = datetime.now(UTC).isoformat(timespec="seconds")
    covered = expected_tables.covered(task, tables)
    for slave in task.replication.slaves.values():
        try:
            owner = _owner(task, slave)
        except SluiceError as failure:
            log.warning("%s: %s", task, failure)
            continue
        verified, kept = VerificationLog(task.redis, task.prefix, slave.name), VerifiedFile(task.prefix, slave.name)
        # A slave that is being loaded, or waits for a load, has nothing to verify.
        live = owner is not None and owner.state is SlaveState.NORMAL
        update = (owner.update_id if owner is not None else None) or ""
        if live:
            kept.restore(verified, update)
        verified.expect(covered if live else [], now)
        kept.replace(verified, update)


def _awaited(task: TaskContext, slave: SlaveConfig) -> str | None:
    """The initial update whose blocks the slave waits for; None if it waits for none. Raises `SluiceError`."""
    owner = _owner(task, slave)
    if owner is None:
        return None
    if owner.state in (SlaveState.INITIAL, SlaveState.TRANSITION):
        return owner.update_id
    with task.at(slave) as session:
        left = any(BlockStore(session, task.prefix, slave.schema, slave.name).left())
    return owner.update_id if left and owner.state is SlaveState.NORMAL else None


def _owner(task: TaskContext, slave: SlaveConfig) -> Owner | None:
    """State and last initial update of a slave; None if it never had one. Raises `SluiceError`."""
    with task.at(slave) as session:
        if not CheckpointStore(session, task.prefix, slave.schema, slave.name).exists():
            return None
        return LoadOwner(session, task.prefix, slave.schema, slave.name).read()


def _reported(folder: Path) -> list[str]:
    """The prefixes in a report; none if it was not written."""
    try:
        return [one["prefix"] for one in json.loads((folder / "report.json").read_text())]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _installed(task: TaskContext, master: Session) -> bool:
    endpoint = task.replication.master
    installed = master_of(endpoint.vendor).capture(master, task.prefix, endpoint.schema).installed()
    if installed is None:
        log.info("%s: nothing is installed on the master yet", task)
    return installed is not None


def _strays(recorded: set[str]) -> int:
    """Removes old files of jobs whose record is gone; returns their number."""
    removed = 0
    for folder in (state_paths.jobs_folder(), state_paths.job_logs_folder()):
        for file in folder.iterdir():
            job_id = file.name.removeprefix(".").split(".log")[0].rsplit(".", 1)[0]
            try:
                # Jobs write and rename files meanwhile: a listed file may be gone.
                old = time.time() - file.lstat().st_mtime > KEPT_SECONDS
            except FileNotFoundError:
                continue
            if old and file.suffix != ".lock" and file.stem not in recorded and job_id not in recorded:
                file.unlink(missing_ok=True)
                removed += 1
    return removed
