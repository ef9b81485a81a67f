"""Tasks that keep a detached job running: they launch or join it, and wait in the triggerer, without a worker."""

import time
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any, ClassVar, NoReturn

from airflow.sdk import NEVER_EXPIRE, BaseOperator, Context  # type: ignore[attr-defined]
from airflow.sdk.exceptions import AirflowSkipException

from sluice import config
from sluice.airflow import connections, jobs, transfer_form
from sluice.airflow.applies import Apply
from sluice.airflow.deferral_guard import earliest_resume
from sluice.airflow.failure import as_airflow
from sluice.airflow.job import Job, JobState, Kind, Owner, last_lines
from sluice.airflow.job_trigger import JobTrigger
from sluice.airflow.multi_slave import continues_for_one_slave, has_several_slaves, members
from sluice.airflow.restart_policy import Next
from sluice.airflow.runs import is_active
from sluice.airflow.selection_form import update_of
from sluice.airflow.step import FOR_EVER
from sluice.airflow.task_context import TaskContext, update_id
from sluice.configuration.model import Replication
from sluice.coordination import redis_store
from sluice.coordination.redo_state import CAPTURE
from sluice.counted import counted
from sluice.errors import Terminal
from sluice.load import steps
from sluice.load.selection import Selection
from sluice.load.transfer import transfer_steps
from sluice.model.connection import ConnectionInfo
from sluice.model.location import Location
from sluice.model.vendors import BINLOG
from sluice.redo.supervisor import Supervisor

# Decides what a task does about the running job of its pair, if there is one.


class Takeover(StrEnum):
    """What a task does with a job that runs already."""

    LAUNCH = "launch"
    """No job runs: launch one."""
    REATTACH = "reattach"
    """The job of an earlier try still runs: watch it again."""
    REPLACE = "replace"
    """The job is ending, or a person cleared the task: wait for its end, then launch another one."""
    ADOPT = "adopt"
    """The job outlived its run: watch it from now on."""
    LEAVE = "leave"
    """Another live run watches the job: do nothing."""


def decide_takeover(own: Owner, live: Owner | None, stopping: bool, watched: bool, adopts: bool) -> Takeover:
    """`live` owns the running job. `stopping`: its end was requested. `watched`: its run is still active.

    `adopts`: jobs of this kind may change their run. An apply may; a load belongs to its update. Clearing a deferred
    task starts the next try before the triggerer stops the old job; a raised `max_tries` tells this from a retry after
    a crash.
    """
    if live is None:
        return Takeover.LAUNCH
    if stopping:
        return Takeover.REPLACE
    if live.same_task(own):
        cleared = own.max_tries > live.max_tries and own.try_number > live.try_number
        return Takeover.REPLACE if cleared else Takeover.REATTACH
    if watched:
        return Takeover.LEAVE
    return Takeover.ADOPT if adopts else Takeover.REPLACE


HANDLE = "job"
"""Key of the job's id in the task's state store, which the REST API shows, too."""
END_SECONDS = 30.0
"""How long a task waits for the end of a job that it replaces."""
LINES_SHOWN = 30
"""Lines of a job's log that the log of its task repeats."""


def job_ended(job_id: str, why: str) -> Terminal:
    """A job needs a person, or has crashed too often."""
    return Terminal(f"{why} (job {job_id})", code="job-ended")


class SparkJobOperator(BaseOperator):
    """Runs the Spark job `kind` of a pair, detached from Airflow's processes.

    The job survives the death of every component of Airflow: another triggerer watches it, a retry joins it again. A
    dead job is launched again with back-off. The job ends only when a person clears or marks the task or its run.
    """

    kind: ClassVar[Kind]
    adopts: ClassVar[bool]
    """Whether a new run watches a job that outlived its run; otherwise it replaces the job."""
    template_fields = ("prefix", "slave")
    ui_color = "#e8f4ee"

    def __init__(self, *, prefix: str = "{{ params.prefix }}", slave: str = "{{ params.slave }}", **kwargs: object):
        super().__init__(**{**FOR_EVER, "max_retry_delay": timedelta(seconds=15), **kwargs})
        self.prefix = prefix
        self.slave = slave
        self._job: Apply | None = None

    # -- Airflow's entry points

    def execute(self, context: Context) -> NoReturn:
        """Launches the job, or joins the running one, and defers."""
        with as_airflow(context):
            self._begin(context, attempt=0, first=True)

    def resume(self, context: Context, event: dict[str, Any]) -> str:
        """Handles the trigger's event: finishes, fails, launches the job again, or compares definitions for it."""
        with as_airflow(context):
            following = Next(event["next"])
            if following is Next.FAIL:
                raise job_ended(event["job_id"], event["why"])
            if following is Next.RESTART:
                self._report(event["job_id"], event["why"])
                self._begin(context, attempt=event["attempt"], first=False)
            if following is Next.COMPARE:
                self._show(event["job_id"])
                self.compare_definitions(context)
                job = self._read(event["job_id"])
                if job is not None and job.state() is not JobState.RUNNING:
                    # The job ended meanwhile. The trigger decides from its result what follows.
                    self.defer(trigger=self._trigger(job), method_name="resume")
                self._begin(context, attempt=event["attempt"], first=False)
            if following in (Next.MOVE, Next.LEAVE):
                self._begin(context, attempt=0, first=False, moves=following is Next.MOVE)
        return str(event["why"])

    def on_kill(self) -> None:
        """Airflow calls it when a person ends the task while it is not deferred."""
        if self._job is not None:
            self._job.stop("Airflow", "its task was ended")

    # -- differences between kinds of jobs

    def subject(self, replication: Replication) -> str:
        """The job's slave. Raises `UnknownSlave`."""
        return replication.slave(self.slave).name

    def payload(self, replication: Replication, context: Context) -> dict[str, object]:
        """The job's standard input, passwords included."""
        return {
            "prefix": str(replication.prefix),
            "slave": self.slave,
            "connections": {name: info.to_dict() for name, info in self._connections(replication).items()},
            "redis_url": connections.redis_url(),
            "spark": connections.spark(),
        }

    def leave(self, job: Apply) -> NoReturn:
        """Called if another live run watches the pair's job; raises."""
        raise NotImplementedError

    def before_launch(self, replication: Replication, context: Context, first: bool) -> None:
        """Checks preconditions of a launch; `first`: of this task. May raise."""

    def compare_definitions(self, context: Context) -> None:
        """Called when the job asks for a comparison of definitions; must not raise."""

    # -- the work

    def _begin(self, context: Context, attempt: int, *, first: bool, moves: bool = False) -> NoReturn:
        """Launches or joins a job, and defers. `moves`: the job that this task watches is replaced."""
        replication = config.load(self.prefix)
        slave = self.subject(replication)
        prefix = str(replication.prefix)
        owner = owner_of(context["ti"])
        with jobs.exclusive(self.kind, prefix, slave):
            job: Apply | None = self._joined(jobs.live(self.kind, prefix, slave), owner)
            if job is None:
                self._kill_leftovers(prefix, slave)
                self.before_launch(replication, context, first)
                job = self._launched(replication, context, owner, attempt)
        self._watch(context, job)

    def _launched(self, replication: Replication, context: Context, owner: Owner, attempt: int) -> Job:
        prefix, slave = str(replication.prefix), self.subject(replication)
        job = jobs.launch(self.kind, prefix, slave, owner, self.payload(replication, context), attempt)
        self.log.info(
            "Launched the %s of %s → %s: job %s, process %d, log %s",
            self.kind, prefix, slave, job.id, job.runner.pid, job.log,
        )  # fmt: skip
        return job

    def _watch(self, context: Context, job: Apply) -> NoReturn:
        self._job = job
        context["task_state_store"].set(HANDLE, job.id, retention=NEVER_EXPIRE)
        self.defer(trigger=self._trigger(job), method_name="resume")

    def _trigger(self, job: Apply) -> JobTrigger:
        assert isinstance(job, Job)
        return JobTrigger.of(job, earliest_resume())

    def _read(self, job_id: str) -> Apply | None:
        return Job.read(job_id)

    def _joined(self, running: Apply | None, owner: Owner) -> Apply | None:
        """The running job if this task is to watch it; None if a job is to be launched."""
        stopping = running is not None and running.stop_request() is not None
        watched = running is not None and not running.owner.same_task(owner) and is_active(running.owner)
        decision = decide_takeover(owner, running.owner if running else None, stopping, watched, self.adopts)
        if running is None or decision is Takeover.LAUNCH:
            return None
        match decision:
            case Takeover.LEAVE:
                self.leave(running)
            case Takeover.REPLACE:
                self._replace(running, "of an earlier try")
                return None
            case Takeover.ADOPT:
                self.log.info("The job %s outlived %s; it is watched from here.", running.id, running.owner)
            case _:
                minutes = (time.time() - running.launched) / 60
                self.log.info("The job %s runs for %.1f min already; it is watched again.", running.id, minutes)
        return running.owned_by(owner)

    def _replace(self, running: Apply, which: str) -> None:
        self.log.info("The job %s %s is ended first.", running.id, which)
        running.stop("Airflow", "another one replaces it")
        running.await_end(END_SECONDS)

    def _show(self, job_id: str) -> None:
        """Repeats the end of the job's log in the task's own log: Airflow replaces the triggerer's log at each
        trigger."""
        job = self._read(job_id)
        for line in job.last_lines(LINES_SHOWN) if job is not None else last_lines(job_id, LINES_SHOWN):
            self.log.info("| %s", line)

    def _report(self, job_id: str, why: str) -> None:
        self._show(job_id)
        self.log.warning("The job %s is gone. %s", job_id, why)

    def _kill_leftovers(self, prefix: str, slave: str) -> None:
        last = jobs.last(self.kind, prefix, slave)
        if last is not None and (left := last.kill_leftovers()):
            self.log.warning(
                "Killed %s that the lost job %s left behind.", counted(left, "process", "processes"), last.id
            )

    def _connections(self, replication: Replication) -> Mapping[str, ConnectionInfo]:
        return connections.all_of(replication, self.slave)


class CaptureRedoOperator(SparkJobOperator):
    """Keeps the readers of a master's log running. A second run for the same master ends at once."""

    kind = Kind.CAPTURE
    adopts = True

    def __init__(self, **kwargs: Any):
        super().__init__(slave=CAPTURE, **kwargs)

    def subject(self, replication: Replication) -> str:
        """A constant: the job serves all slaves. Raises `NotRedo`."""
        Supervisor(replication, redis_store.connect(connections.redis_url()))
        return CAPTURE

    def payload(self, replication: Replication, context: Context) -> dict[str, object]:
        """Without Spark; of databases only the master, for its own log or its list of archived logs."""
        of_log = replication.master.conn_id if replication.master.capture == BINLOG else None
        conn_id, vendor = replication.redo.conn_id if replication.redo else of_log, replication.master.database
        master = (
            {conn_id: connections.info(conn_id, vendor, str(replication.source)).to_dict()}
            if conn_id is not None
            else {}
        )
        return {
            "prefix": str(replication.prefix),
            "slave": CAPTURE,
            "connections": master,
            "redis_url": connections.redis_url(),
        }

    def leave(self, job: Apply) -> NoReturn:
        reason = (
            f"The log of {job.prefix} is being read by {job.owner}, job {job.id}. This run does nothing. "
            "To stop that, mark that run as failed."
        )
        self.log.warning("%s", reason)
        raise AirflowSkipException(reason)


class LoadOperator(SparkJobOperator):
    """Loads the blocks of an initial update."""

    kind = Kind.LOAD
    adopts = False
    step: ClassVar[str] = "export"
    """What the job does with the folder of a transfer by files."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self._others: list[str] = []
        """Further slaves that the same read serves."""

    def _connections(self, replication: Replication) -> Mapping[str, ConnectionInfo]:
        return connections.all_of(replication, self.slave, *self._others)

    def execute(self, context: Context) -> Any:
        """As every job. For several slaves the first one leads. Nothing is left to export if a run for several did
        so."""
        exported = continues_for_one_slave(context) and transfer_form.by_files(context)
        if exported and self.step == "export":
            return f"exported by run {update_id(context)}"
        if has_several_slaves(context):
            self.slave, *self._others = members(context)
        return super().execute(context)

    def resume(self, context: Context, event: dict[str, object]) -> str:
        if has_several_slaves(context):
            self.slave, *self._others = members(context)
        return super().resume(context, event)

    def leave(self, job: Apply) -> NoReturn:
        raise Terminal(
            f"The slave of {job.pair} is being loaded by {job.owner}. Cancel that run, or await its end.",
            code="already-loading",
        )

    def payload(self, replication: Replication, context: Context) -> dict[str, object]:
        """With the id of the update, and the folder of a transfer by files."""
        values = {**super().payload(replication, context), "update_id": update_id(context), "others": self._others}
        values["choice"] = Selection.from_dict(context["params"]).to_dict()
        if transfer_form.by_files(context):
            values["files"] = transfer_form.payload(replication, self.step, self.folder(replication, context))
        return values

    def folder(self, replication: Replication, context: Context) -> Location:
        """The folder of the blocks."""
        return transfer_form.written(context)


class ImportOperator(LoadOperator):
    """Loads the blocks of an initial update from files at the slave's location."""

    step = "import"

    def execute(self, context: Context) -> Any:
        """Opens the gate, then launches or joins the job. Ends at once if everything was imported by hand."""
        if not transfer_form.by_files(context) or has_several_slaves(context):
            raise AirflowSkipException("There is nothing to import in this run.")
        with as_airflow(context):
            task = TaskContext.of(context)
            update = update_of(task)
            steps.open_gate(update, task.redis)
            if not transfer_steps.left_to_import(update):
                return "imported by hand"
        return super().execute(context)

    def folder(self, replication: Replication, context: Context) -> Location:
        """The folder at the slave's location."""
        return transfer_form.arrived(replication, self.slave, context)


def owner_of(ti: Any) -> Owner:
    """The task as the owner of a job."""
    return Owner(ti.dag_id, ti.run_id, ti.task_id, ti.try_number, ti.max_tries)
