"""Tasks that keep a detached job: they launch it or join it, and wait in the triggerer, without a worker."""

import time
from datetime import timedelta
from typing import Any, ClassVar, NoReturn

from airflow.sdk import NEVER_EXPIRE, BaseOperator, Context  # type: ignore[attr-defined]
from airflow.sdk.exceptions import AirflowSkipException

from sluice import config
from sluice.airflow import connections, definition_comparison, jobs, preflight_check, transfer_form
from sluice.airflow.deferral_guard import earliest_resume
from sluice.airflow.failure import as_airflow
from sluice.airflow.job import Job, JobState, Kind, Owner
from sluice.airflow.job_output import last_lines
from sluice.airflow.job_takeover import Takeover, decide_takeover
from sluice.airflow.job_trigger import JobTrigger
from sluice.airflow.multi_slave import continues_for_one_slave, has_several_slaves, members
from sluice.airflow.restart_policy import Next
from sluice.airflow.runs import is_active
from sluice.airflow.selection_form import update_of
from sluice.airflow.step import FOR_EVER
from sluice.airflow.task_context import TaskContext, update_id
from sluice.coordination import redis_store
from sluice.coordination.redo_state import CAPTURE
from sluice.counted import counted
from sluice.errors import Terminal, Transient
from sluice.load import steps
from sluice.load.selection import Selection
from sluice.load.transfer import transfer_steps
from sluice.model.location import Location
from sluice.model.vendors import REDO_VENDOR
from sluice.redo.supervisor import Supervisor

HANDLE = "job"
"""Key of the task's state store under which the job's id can be read, by the REST API too."""
END_SECONDS = 30.0
"""How long a task waits for the end of a job that it replaces."""
LINES_SHOWN = 30


class JobEnded(Terminal):
    """A job asks for a person, or has crashed too often."""

    def __init__(self, job_id: str, why: str):
        super().__init__(f"{why} (job {job_id})")
        self.job_id = job_id


class AlreadyLoading(Terminal):
    """Another run loads the slave."""

    def __init__(self, job: Job):
        super().__init__(f"The slave of {job.pair} is being loaded by {job.owner}. Cancel that run, or await its end.")
        self.job = job


class StillApplying(Transient):
    """A job that was taken for dead still holds the lease."""

    def __init__(self, prefix: str, slave: str, holder: str):
        super().__init__(
            f"{prefix} → {slave}: {holder} still renews the lease of a job that was taken for dead. Tried again later."
        )


class SparkJobOperator(BaseOperator):
    """Runs the Spark job `kind` of a pair, detached from Airflow's processes.

    The job survives the death of every component of Airflow: the triggerer that takes over goes on
    watching, a retry joins it again. When it dies it is launched anew with back-off. It ends only
    when a person clears or marks the task or its run.
    """

    kind: ClassVar[Kind]
    module: ClassVar[str | None] = None
    """The job's module where it is not `spark_jobs.<kind>`."""
    adopts: ClassVar[bool]
    """Whether a job that outlived its run is watched on; else it is replaced."""
    template_fields = ("prefix", "slave")
    ui_color = "#e8f4ee"

    def __init__(self, *, prefix: str = "{{ params.prefix }}", slave: str = "{{ params.slave }}", **kwargs: object):
        super().__init__(**{**FOR_EVER, "max_retry_delay": timedelta(seconds=15), **kwargs})
        self.prefix = prefix
        self.slave = slave
        self._job: Job | None = None

    # -- Airflow's entry points

    def execute(self, context: Context) -> NoReturn:
        """Launches the job, or joins the one that runs, and defers."""
        with as_airflow(context):
            self._begin(context, attempt=0, first=True)

    def resume(self, context: Context, event: dict[str, Any]) -> str:
        """The job is gone: finishes, fails, or launches it again and defers. Or it asks for something, and goes on."""
        with as_airflow(context):
            following = Next(event["next"])
            if following is Next.FAIL:
                raise JobEnded(event["job_id"], event["why"])
            if following is Next.RESTART:
                self._report(event["job_id"], event["why"])
                self._begin(context, attempt=event["attempt"], first=False)
            if following is Next.TELL:
                self._show(event["job_id"])
                self.tell(context)
                job = Job.read(event["job_id"])
                if job is not None and job.state() is not JobState.RUNNING:
                    # It ended meanwhile. Its result says whether it is launched again.
                    self.defer(trigger=JobTrigger.of(job, earliest_resume()), method_name="resume")
                self._begin(context, attempt=event["attempt"], first=False)
        return str(event["why"])

    def on_kill(self) -> None:
        """A person ends the task in the moments when it is not deferred."""
        if self._job is not None:
            jobs.stop(self._job, "Airflow", "its task was ended")

    # -- what the kinds of job differ in

    def subject(self, replication: config.Replication) -> str:
        """The slave that the job is for. Raises `UnknownSlave`."""
        return replication.slave(self.slave).name

    def payload(self, replication: config.Replication, context: Context) -> dict[str, Any]:
        """What the job reads on its standard input; passwords are in it."""
        return {
            "prefix": str(replication.prefix),
            "slave": self.slave,
            "connections": {name: info.to_dict() for name, info in self._connections(replication).items()},
            "redis_url": connections.redis_url(),
            "spark": connections.spark(),
        }

    def leave(self, job: Job) -> NoReturn:
        """Another live run watches the pair's job."""
        raise NotImplementedError

    def before_launch(self, replication: config.Replication, context: Context, first: bool) -> None:
        """What must hold before a job is launched, the `first` of this task or a later one; may raise."""

    def tell(self, context: Context) -> None:
        """The job asks for a comparison of definitions; must not raise."""

    # -- the work

    def _begin(self, context: Context, attempt: int, *, first: bool) -> NoReturn:
        replication = config.load(self.prefix)
        slave = self.subject(replication)
        prefix = str(replication.prefix)
        owner = _owner(context["ti"])
        with jobs.exclusive(self.kind, prefix, slave):
            running = jobs.live(self.kind, prefix, slave)
            self._job = self._joined(running, owner)
            if self._job is None:
                self._clear_away(prefix, slave)
                self.before_launch(replication, context, first)
                payload = self.payload(replication, context)
                self._job = jobs.launch(self.kind, prefix, slave, owner, payload, attempt, self.module)
                self.log.info(
                    "Launched the %s of %s → %s: job %s, process %d, log %s",
                    self.kind, prefix, slave, self._job.id, self._job.runner.pid, self._job.log,
                )  # fmt: skip
        context["task_state_store"].set(HANDLE, self._job.id, retention=NEVER_EXPIRE)
        self.defer(trigger=JobTrigger.of(self._job, earliest_resume()), method_name="resume")

    def _joined(self, running: Job | None, owner: Owner) -> Job | None:
        """The running job when this task watches it from here on; None when one is to be launched."""
        stopping = running is not None and running.stop_request() is not None
        watched = running is not None and not running.owner.same_task(owner) and is_active(running.owner)
        decision = decide_takeover(owner, running.owner if running else None, stopping, watched, self.adopts)
        if running is None or decision is Takeover.LAUNCH:
            return None
        match decision:
            case Takeover.LEAVE:
                self.leave(running)
            case Takeover.REPLACE:
                self.log.info("The job %s of an earlier try is ended first.", running.id)
                jobs.stop(running, "Airflow", "a new try replaces it")
                jobs.await_end(running, END_SECONDS)
                return None
            case Takeover.ADOPT:
                self.log.info("The job %s outlived %s; it is watched from here.", running.id, running.owner)
            case _:
                minutes = (time.time() - running.launched) / 60
                self.log.info("The job %s runs for %.1f min already; it is watched again.", running.id, minutes)
        return running.owned_by(owner)

    def _show(self, job_id: str) -> None:
        """Into the log of the task itself: Airflow begins the triggerer's log anew with each trigger."""
        for line in last_lines(job_id, LINES_SHOWN):
            self.log.info("| %s", line)

    def _report(self, job_id: str, why: str) -> None:
        self._show(job_id)
        self.log.warning("The job %s is gone. %s", job_id, why)

    def _clear_away(self, prefix: str, slave: str) -> None:
        last = jobs.last(self.kind, prefix, slave)
        if last is not None and (left := jobs.clear_away(last)):
            self.log.warning(
                "Killed %s that the lost job %s left behind.", counted(left, "process", "processes"), last.id
            )

    def _connections(self, replication: config.Replication) -> dict[str, Any]:
        return connections.all_of(replication, self.slave)


class ApplyOperator(SparkJobOperator):
    """Keeps the apply of a pair running. A second run for the same pair ends at once."""

    kind = Kind.APPLY
    adopts = True

    def leave(self, job: Job) -> NoReturn:
        self._skip(
            f"{job.pair} is already being applied by {job.owner}, job {job.id}. This run does nothing. "
            "To stop the apply, mark that run as failed."
        )

    def before_launch(self, replication: config.Replication, context: Context, first: bool) -> None:
        from sluice.airflow.lease_check import foreign_holder

        holder = foreign_holder(replication, self.slave)
        if holder is not None and not first:
            # Our own job may only have been out of hearing. Nobody else watches it: this task must not end.
            raise StillApplying(str(replication.prefix), self.slave, str(holder))
        if holder is not None:
            self._skip(
                f"{replication.prefix}/{self.slave} is already being applied by {holder}, which renews its lease. "
                "It was not launched by this Airflow; this run does nothing."
            )
        if first:
            self._preflight(TaskContext(replication, self.slave, context, (self.slave,)))

    def tell(self, context: Context) -> None:
        """Compares definitions with this slave, and tells people; whatever comes of it, the apply goes on."""
        try:
            task = TaskContext(config.load(self.prefix), self.slave, context, (self.slave,))
            definition_comparison.compare_and_tell(task, [self.slave])
        except Exception:
            self.log.exception("Definitions are not compared; housekeeping will do it.")

    def _preflight(self, task: TaskContext) -> None:
        """An account that is refused fails the task at once, before a job is launched; outages are the job's affair."""
        try:
            preflight_check.warn(task, task.slave_names)
        except Transient as outage:
            self.log.warning("%s", outage)

    def _skip(self, reason: str) -> NoReturn:
        self.log.warning("%s", reason)  # Airflow logs no more than that it skips
        raise AirflowSkipException(reason)


class CaptureRedoOperator(SparkJobOperator):
    """Keeps the programs running that read a master's redo logs. A second run for the same master ends at once."""

    kind = Kind.CAPTURE
    adopts = True

    def __init__(self, **kwargs: Any):
        super().__init__(slave=CAPTURE, **kwargs)

    def subject(self, replication: config.Replication) -> str:
        """Of all slaves. Raises `NotRedo`."""
        Supervisor(replication, redis_store.connect(connections.redis_url()))
        return CAPTURE

    def payload(self, replication: config.Replication, context: Context) -> dict[str, object]:
        """Without Spark; of databases the master alone, which may be asked for its archived logs."""
        conn_id = replication.redo.conn_id if replication.redo is not None else None
        master = (
            {conn_id: connections.info(conn_id, REDO_VENDOR, str(replication.source)).to_dict()}
            if conn_id is not None
            else {}
        )
        return {
            "prefix": str(replication.prefix),
            "slave": CAPTURE,
            "connections": master,
            "redis_url": connections.redis_url(),
        }

    def leave(self, job: Job) -> NoReturn:
        reason = (
            f"The redo logs of {job.prefix} are being read by {job.owner}, job {job.id}. This run does nothing. "
            "To stop that, mark that run as failed."
        )
        self.log.warning("%s", reason)
        raise AirflowSkipException(reason)


class LoadOperator(SparkJobOperator):
    """Loads the blocks of an initial update."""

    kind = Kind.LOAD
    adopts = False
    step: ClassVar[str] = "export"
    """What the job does with the folder where blocks travel as files."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self._others: list[str] = []
        """Slaves that it is read for as well."""

    def _connections(self, replication: config.Replication) -> dict[str, Any]:
        return connections.all_of(replication, self.slave, *self._others)

    def execute(self, context: Context) -> Any:
        """As every job; for several slaves by the one that leads, and not at all where such a run has exported."""
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

    def leave(self, job: Job) -> NoReturn:
        raise AlreadyLoading(job)

    def payload(self, replication: config.Replication, context: Context) -> dict[str, object]:
        """With the name of the update that the job loads for, and the folder where blocks travel as files."""
        values = {**super().payload(replication, context), "update_id": update_id(context), "others": self._others}
        values["choice"] = Selection.from_dict(context["params"]).to_dict()
        if transfer_form.by_files(context):
            values["files"] = transfer_form.payload(replication, self.step, self.folder(replication, context))
        return values

    def folder(self, replication: config.Replication, context: Context) -> Location:
        """The folder that blocks are written to."""
        return transfer_form.written(context)


class ImportOperator(LoadOperator):
    """Loads the blocks of an initial update from the files that were carried to the slave's location."""

    step = "import"

    def execute(self, context: Context) -> Any:
        """Opens the gate, then launches the job or joins it; ends at once where the slave's machine has loaded all."""
        if not transfer_form.by_files(context) or has_several_slaves(context):
            raise AirflowSkipException("There is nothing to import in this run.")
        with as_airflow(context):
            task = TaskContext.of(context)
            update = update_of(task)
            steps.open_gate(update, task.redis)
            if not transfer_steps.left_to_import(update):
                return "imported by hand"
        return super().execute(context)

    def folder(self, replication: config.Replication, context: Context) -> Location:
        """The folder at the slave's location."""
        return transfer_form.arrived(replication, self.slave, context)


def _owner(ti: Any) -> Owner:
    return Owner(ti.dag_id, ti.run_id, ti.task_id, ti.try_number, ti.max_tries)
