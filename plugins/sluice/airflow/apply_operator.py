"""The task of cdc_apply: starts the apply of a pair on Spark's executors, or finds it, and waits in the triggerer.

The apply is a streaming query, which Spark holds; `sluice.airflow.applies` says when it is a process instead.
"""

import socket
import time
from typing import Any, NoReturn

from airflow.sdk import NEVER_EXPIRE, Context  # type: ignore[attr-defined]
from airflow.sdk.exceptions import AirflowSkipException

from sluice import config
from sluice.airflow import applies, definition_comparison, preflight_check
from sluice.airflow.applies import Apply, QueryJob
from sluice.airflow.deferral_guard import earliest_resume
from sluice.airflow.job import Job, JobState, Kind, Owner
from sluice.airflow.job_operator import SparkJobOperator, owner_of
from sluice.airflow.job_trigger import JobTrigger
from sluice.airflow.process_identity import ProcessIdentity
from sluice.airflow.query_trigger import QueryTrigger, StandbyTrigger
from sluice.airflow.runs import is_known
from sluice.airflow.task_context import TaskContext
from sluice.configuration.model import Replication
from sluice.coordination import redis_store
from sluice.coordination.apply_query import QueryState
from sluice.coordination.lease import Holder, holder, key
from sluice.errors import Transient

# Finds a process outside this Airflow that holds the lease of a slave.


def foreign_holder(replication: Replication, slave: str) -> Holder | None:
    """The process that holds and renews the lease; None if there is none, or if Redis is down, for which the job waits.

    The lease of a dead process lasts until it expires. A process of this host is known to be dead by its pid, one of
    another host by waiting for the expiry.
    """
    client = redis_store.connect()
    name = key(replication.prefix, slave)
    deadline = time.monotonic() + replication.apply.lease + 1.0
    first: Holder | None = None
    while True:
        try:
            current = holder(client, name)
        except redis_store.StoreUnreachable:
            return None
        if current is None or (current.host == socket.gethostname() and ProcessIdentity.of(current.pid) is None):
            return None
        if first is not None and current != first:
            return current  # another process took the lease just now
        first = current
        if time.monotonic() > deadline:
            return current
        time.sleep(0.5)


QUERY = "query"
"""Key of the ids of session and query in the task's state store."""


class ApplyOperator(SparkJobOperator):
    """Keeps the apply of a pair running. A second run for the same pair ends at once."""

    kind = Kind.APPLY
    adopts = True

    def leave(self, job: Apply) -> NoReturn:
        self._skip(
            f"{job.pair} is already being applied by {job.owner}, job {job.id}. This run does nothing. "
            "To stop the apply, mark that run as failed."
        )

    def before_launch(self, replication: Replication, context: Context, first: bool) -> None:
        holder = foreign_holder(replication, self.slave)
        if holder is not None:
            # After the first launch the holder may be our own job, silent for a while.
            self._stand_by(replication, f"{holder}, which renews its lease")
        if first:
            self._preflight(TaskContext(replication, self.slave, context, (self.slave,)))

    def take_over(self, context: Context, event: dict[str, Any]) -> NoReturn:
        """The other Airflow is gone: adopts its query, or begins another one."""
        self.execute(context)

    def compare_definitions(self, context: Context) -> None:
        """Compares definitions with this slave and sends notices. The apply continues in any case."""
        try:
            task = TaskContext(config.load(self.prefix), self.slave, context, (self.slave,))
            definition_comparison.compare_and_notify(task, [self.slave])
        except Exception:
            self.log.exception("Definitions are not compared; housekeeping will do it.")

    # -- a query, or a process

    def _begin(self, context: Context, attempt: int, *, first: bool, moves: bool = False) -> NoReturn:
        replication = config.load(self.prefix)
        pair = str(replication.prefix), self.subject(replication)
        noted = applies.of_pair(*pair)
        with noted.exclusive():
            # Others may have had the lock for minutes. What changes after the digest is found by the trigger.
            digest = applies.config_digest(replication)
            replication = config.load(self.prefix)
            why = applies.why_process(replication)
            running = applies.live(*pair)
            self._leave_to_another_airflow(replication, noted.state(), owner_of(context["ti"]))
            job = None if moves else self._joined(running, owner_of(context["ti"]))
            if why and isinstance(running, QueryJob):
                self._replace(running, "that is a query of Spark")
                job = None
            elif job is None and not why:
                job, why = self._by_query(replication, digest, context, attempt, first=first, replaced=running)
            if job is None and isinstance(running, Job) and running.state() is JobState.RUNNING:
                job = running  # it continues until Spark runs another one
            if job is None:
                noted.note_process(why)
        if why:
            self.log.warning("%s → %s: the apply runs as a process of this machine: %s", *pair, why)
        if job is not None:
            self._watch(context, job)
        super()._begin(context, attempt, first=first)

    def _by_query(
        self,
        replication: Replication,
        digest: str,
        context: Context,
        attempt: int,
        *,
        first: bool,
        replaced: Apply | None,
    ) -> tuple[Apply | None, str]:
        """The started query; without one, the reason. `replaced`: the apply that runs so far."""
        if replaced is not None and replaced.state() is JobState.RUNNING:
            # A query frees its own slot: a question for another one would keep a full cluster at the old configuration.
            if isinstance(replaced, Job) and (away := applies.why_no_spark()):
                return None, away
            self._replace(replaced, "that runs so far")
        elif first:
            self.before_launch(replication, context, first)
        pair = str(replication.prefix), self.subject(replication)
        owner, infos = owner_of(context["ti"]), dict(self._connections(replication))
        try:
            job = applies.begin(replication, digest, pair, infos, owner, attempt)
        except applies.spark_away() as away:
            return None, str(away)
        self.log.info("Started the apply of %s → %s: job %s, %s", *pair, job.id, job.runs_on)
        return job, ""

    def _leave_to_another_airflow(self, replication: Replication, state: QueryState, owner: Owner) -> None:
        """Stands by if another Airflow with the same Redis watches the apply of this pair."""
        if state.record is None or not state.watched_by:
            return
        watching = Owner(**state.record.owner)
        if not watching.same_task(owner) and not is_known(watching):
            self._stand_by(replication, f"another Airflow: its {watching}, watched from {state.watched_by}")

    def _stand_by(self, replication: Replication, by: str) -> NoReturn:
        """Waits in the triggerer until nobody else applies."""
        prefix, slave = str(replication.prefix), self.subject(replication)
        self.log.warning("%s → %s is being applied by %s. This run stands by, and takes over.", prefix, slave, by)
        self.defer(trigger=StandbyTrigger(prefix, slave, earliest_resume()), method_name="take_over")

    def _watch(self, context: Context, job: Apply) -> NoReturn:
        if isinstance(job, QueryJob):
            ids = f"{job.record.session} {job.record.query}"
            context["task_state_store"].set(QUERY, ids, retention=NEVER_EXPIRE)
        super()._watch(context, job)

    def _trigger(self, job: Apply) -> JobTrigger:
        if isinstance(job, QueryJob):
            return QueryTrigger.of_query(job, earliest_resume())
        awaits_spark = not applies.why_process(config.load(self.prefix))
        return JobTrigger.of(job, earliest_resume(), awaits_spark=awaits_spark)

    def _read(self, job_id: str) -> Apply | None:
        replication = config.load(self.prefix)
        return applies.read(job_id, str(replication.prefix), self.subject(replication))

    def _preflight(self, task: TaskContext) -> None:
        """Fails the task before a launch if an account is refused. An outage is left to the job."""
        try:
            preflight_check.warn(task, task.slave_names)
        except Transient as outage:
            self.log.warning("%s", outage)

    def _skip(self, reason: str) -> NoReturn:
        self.log.warning("%s", reason)  # Airflow does not log the reason
        raise AirflowSkipException(reason)
