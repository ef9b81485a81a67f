"""The tasks that wait until a folder was carried to the slave, and until a person lets it be imported.

`AwaitFiles` watches the slave's location and checks the folder once it is whole. Only then is the question put, unless
the configuration says `approve_transfer: arrival`. The question is one of Airflow's required actions (human in the
loop). After an approval the task checks the folder again. If something is wrong, it lists that in the log and on the
slave, and asks again. Airflow keeps the text of the first question for all later tries, so the text begins with a link
to the reasons of a refusal.
"""

import logging
from typing import NoReturn

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowSkipException, TaskAwaitingInput
from airflow.sdk.execution_time.hitl import upsert_hitl_detail

from sluice.airflow import transfer_form
from sluice.airflow.arrival_trigger import ArrivalTrigger
from sluice.airflow.deferral_guard import earliest_resume
from sluice.airflow.failure import as_airflow
from sluice.airflow.kept_answer import APPROVE, REJECT, KeepsAnswer, answered, code
from sluice.airflow.multi_slave import has_several_slaves
from sluice.airflow.selection_form import update_of
from sluice.airflow.step import FOR_EVER
from sluice.airflow.task_context import TaskContext
from sluice.coordination.gate import APPROVAL, CARRIED, INITIAL_UPDATE, Gate
from sluice.counted import counted
from sluice.errors import SluiceError, Terminal, Transient
from sluice.load import steps
from sluice.load.load_ownership import LoadEnded
from sluice.load.transfer import transfer_steps
from sluice.load.transfer.transfer_folder import TransferFolder
from sluice.load.update import Update
from sluice.paths import PROGRAM

log = logging.getLogger("sluice.airflow")

ARRIVAL_TASK = "await_files"
"""The task whose result says what has arrived."""
ANSWERS = "answers"
"""XCom key: a list with person, time and answer."""


class AwaitFiles(BaseOperator):
    """Waits until the folder is at the slave's location, whole and as it was written, or until the slave's own machine
    has imported it; skipped in a run without files. Returns what was found, in a sentence."""

    ui_color = "#f6f1de"

    def __init__(self, **kwargs: object):
        super().__init__(**{**FOR_EVER, **kwargs})

    def execute(self, context: Context) -> str:
        """Looks, and waits in the triggerer while files are missing or wrong."""
        return self._arrived(context)

    def resume(self, context: Context, event: object) -> str:
        """The folder has changed."""
        return self._arrived(context)

    def _arrived(self, context: Context) -> str:
        if not transfer_form.by_files(context) or has_several_slaves(context):
            raise AirflowSkipException("No files travel in this run.")
        with as_airflow(context):
            task = TaskContext.of(context)
            update = update_of(task)
            if not transfer_steps.left_to_import(update):
                return self._found(task, transfer_steps.BY_HAND)
            arrives = transfer_form.arrived_folder(task)
            seen, problem = self._look(task, update, arrives)
            if problem:
                waits = transfer_steps.WAITING.format(transfer_form.written(context))
                _set_gate_reason(task, CARRIED, f"{waits}. {_carry(task)} {problem}")
                self._wait(task, arrives, seen)
            return self._found(task, seen)

    def _wait(self, task: TaskContext, arrives: TransferFolder, seen: str) -> NoReturn:
        trigger = ArrivalTrigger(
            str(task.prefix), task.slave.name, task.update_id, str(arrives.location), seen, earliest_resume()
        )
        self.defer(trigger=trigger, method_name="resume")

    def _look(self, task: TaskContext, update: Update, arrives: TransferFolder) -> tuple[str, str]:
        """What has arrived, and an empty text; or the fingerprint of the folder, and what it lacks."""
        seen = ""
        try:
            seen = arrives.folder.fingerprint()
            files = transfer_steps.files_of(transfer_steps.examine(update, arrives, on_its_way=True))
            return transfer_steps.ARRIVED.format(files, arrives.location), ""
        except (LoadEnded, transfer_steps.NothingExported):
            raise
        except transfer_steps.NotAsSent as wrong:
            log.error("%s", wrong)
            _note_on_slave(task, str(wrong))
            return seen, str(wrong)
        except (Transient, Terminal) as problem:
            log.info("%s: %s", task, problem)
            return seen, str(problem)

    def _found(self, task: TaskContext, found: str) -> str:
        log.info("%s: %s", task, found)
        _set_gate_reason(task, APPROVAL, found)
        _note_on_slave(task, found)
        return found


class ApproveTransfer(KeepsAnswer):
    """Waits for a person, then checks the folder at the slave's location; skipped in a run without files. With
    `approve_transfer: arrival` nobody is asked."""

    template_fields = ()

    def __init__(self, **kwargs: object):
        settings = {**FOR_EVER, "subject": "Manual Data transfer", "options": [APPROVE, REJECT], **kwargs}
        super().__init__(**settings)

    def execute(self, context: Context) -> object:
        if not transfer_form.by_files(context) or has_several_slaves(context):
            raise AirflowSkipException("There is nothing to approve in this run.")
        with as_airflow(context):
            task = TaskContext.of(context)
            found = str(context["ti"].xcom_pull(task_ids=ARRIVAL_TASK))
            if task.replication.initial.approve_transfer == "arrival":
                _set_gate_reason(task, "initial update", transfer_steps.IMPORTING)
                return f"{found}, and approve_transfer is arrival: nobody is asked"
            self.subject = f"{task}: {found}"
            _set_gate_reason(task, APPROVAL, found)
            self.body = _question(task, str(transfer_form.written(context)), str(context["ti"].log_url))
        return super().execute(context)

    def execute_complete(
        self, context: Context, event: dict[str, object], answers: list[dict[str, str]] | None = None
    ) -> object:
        """Airflow calls it with the answer."""
        with as_airflow(context):
            who, approved = answered(event)
            answer = APPROVE if approved else REJECT
            given = [*(answers or []), {"who": who, "at": str(event["responded_at"]), "answer": answer}]
            context["ti"].xcom_push(key=ANSWERS, value=given)
            if not approved:
                raise Terminal(f"{steps.INTERRUPTED} (the transfer was rejected by {who})", code="transfer-rejected")
            task = TaskContext.of(context)
            problem = self._examine(task, str(context["ti"].log_url))
        if problem is None:
            return given
        return self._ask_again(context, given)

    def _examine(self, task: TaskContext, log_url: str) -> str | None:
        """Why the folder cannot be imported; None if it can. Raises errors that another copy of the folder cannot
        fix."""
        update = update_of(task)
        try:
            if not transfer_steps.left_to_import(update):
                log.info("%s: all files are on the slave already, imported there by hand", task)
                return None
            transfer_folder = transfer_form.arrived_folder(task)
            manifest = transfer_steps.examine(update, transfer_folder)
        except (LoadEnded, transfer_steps.NothingExported):
            raise
        except (Transient, Terminal) as wrong:
            log.error("%s", wrong)
            _note_on_slave(task, f"{wrong}\nAll of it: {log_url}")
            _set_gate_reason(task, APPROVAL, str(wrong))
            return str(wrong)
        _set_gate_reason(task, "initial update", transfer_steps.IMPORTING)
        log.info(
            "%s: %s at %s checked, all as sent", task, counted(len(manifest.blocks), "file"), transfer_folder.location
        )
        return None

    def _ask_again(self, context: Context, answers: list[dict[str, str]]) -> NoReturn:
        log.info("Fix what is listed above, then approve again.")
        upsert_hitl_detail(
            ti_id=context["ti"].id, options=self.options, subject=self.subject, body=self.body, defaults=None,
            multiple=False, params={}, assigned_users=None,
        )  # fmt: skip
        raise TaskAwaitingInput(method_name="execute_complete", kwargs={"answers": answers})


def _set_gate_reason(task: TaskContext, by: str, reason: str) -> None:
    """Replaces the reason of the gate's closure. Does nothing if the gate is open, as during the load of a part."""
    gate = Gate(task.redis, task.prefix, task.slave.name)
    if any(closure.name == INITIAL_UPDATE for closure in gate.closures()):
        gate.close(INITIAL_UPDATE, by, reason)


def _note_on_slave(task: TaskContext, text: str) -> None:
    try:
        steps.note(update_of(task), text)
    except SluiceError as error:
        log.warning("%s: the slave's message could not be written: %s", task, error)


def _carry(task: TaskContext) -> str:
    """What a person does with the folder."""
    written, arrived = transfer_form.written(task.context), transfer_form.arrived_folder(task).location
    if written == arrived:
        return f"It is looked for there: slave {task.slave.name} has no initial_files_location."
    return f"Copy that folder with all that is in it to {str(arrived)!r}, the location of slave {task.slave.name}."


def _question(task: TaskContext, folder: str, log_url: str) -> str:
    return (
        f"**Is this asked again? Then the folder was refused**: [what is wrong, file by file]({log_url}). Fix it, and "
        f"approve again.\n\nThe initial data of {task} were written to {code(folder)}. They have arrived at the slave, "
        "each file is as it was written, and nothing was loaded yet; changes are queued meanwhile.\n\n"
        "**Approve**: the folder is checked once more, file by file, then imported. What is wrong is listed in this "
        f"task's log and in the slave's message (`{PROGRAM} status`).\n\n"
        "**Reject** cancels this initial update; the slave becomes INCONSISTENT."
    )
