"""The task in which a person confirms that the folder has been carried to the slave.

The question is one of Airflow's required actions (human in the loop). After an approval the task checks the folder. If
something is wrong, it lists that in the log and on the slave, and asks again. Airflow keeps the text of the first
question for all later tries, so the text begins with a link to the reasons of a refusal.
"""

import logging
from typing import NoReturn

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException, TaskAwaitingInput
from airflow.sdk.execution_time.hitl import upsert_hitl_detail

from sluice.airflow import transfer_form
from sluice.airflow.approval_answer import APPROVE, REJECT, answered
from sluice.airflow.failure import as_airflow
from sluice.airflow.kept_answer import KeepsAnswer
from sluice.airflow.markdown import code
from sluice.airflow.multi_slave import has_several_slaves
from sluice.airflow.selection_form import update_of
from sluice.airflow.step import FOR_EVER
from sluice.airflow.task_context import TaskContext
from sluice.coordination.gate import APPROVAL, INITIAL_UPDATE, Gate
from sluice.counted import counted
from sluice.errors import SluiceError, Terminal, Transient
from sluice.load import steps
from sluice.load.load_ownership import LoadEnded
from sluice.load.transfer import transfer_steps
from sluice.paths import PROGRAM

log = logging.getLogger("sluice.airflow")

ANSWERS = "answers"
"""XCom key: a list with person, time and answer."""


class TransferRejected(Terminal):
    """A person rejected the transfer."""

    def __init__(self, who: str):
        super().__init__(f"{steps.INTERRUPTED} (the transfer was rejected by {who})")


class ApproveTransfer(KeepsAnswer):
    """Waits for a person, then checks the folder at the slave's location; skipped in a run without files."""

    template_fields = ()

    def __init__(self, **kwargs: object):
        settings = {**FOR_EVER, "subject": "Manual Data transfer", "options": [APPROVE, REJECT], **kwargs}
        super().__init__(**settings)

    def execute(self, context: Context) -> object:
        if not transfer_form.by_files(context) or has_several_slaves(context):
            raise AirflowSkipException("There is nothing to approve in this run.")
        with as_airflow(context):
            task = TaskContext.of(context)
            folder = transfer_form.written(context)
            self.subject = f"{task}: {transfer_steps.WAITING.format(folder)}"
            arrived = transfer_form.arrived(task.replication, task.slave.name, context)
            _set_gate_reason(task, APPROVAL, transfer_steps.WAITING.format(folder))
            self.body = _question(task, str(folder), str(arrived), str(context["ti"].log_url))
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
                raise TransferRejected(who)
            task = TaskContext.of(context)
            problem = self._examine(task, str(context["ti"].log_url))
        if problem is None:
            return given
        return self._ask_again(context, given)

    def _examine(self, task: TaskContext, log_url: str) -> str | None:
        """Why the folder cannot be imported; None if it can. Raises errors that another copy of the folder cannot
        mend."""
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
            self._note_on_slave(task, f"{wrong}\nAll of it: {log_url}")
            _set_gate_reason(task, APPROVAL, str(wrong))
            return str(wrong)
        _set_gate_reason(task, "initial update", transfer_steps.IMPORTING)
        log.info(
            "%s: %s at %s checked, all as sent", task, counted(len(manifest.blocks), "file"), transfer_folder.location
        )
        return None

    def _note_on_slave(self, task: TaskContext, text: str) -> None:
        try:
            steps.note(update_of(task), text)
        except SluiceError as error:
            log.warning("%s: the slave's message could not be written: %s", task, error)

    def _ask_again(self, context: Context, answers: list[dict[str, str]]) -> NoReturn:
        log.info("Mend what is listed above, then approve again.")
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


def _question(task: TaskContext, folder: str, arrived: str, log_url: str) -> str:
    carry = (
        f"Copy the folder {code(folder)} with all that is in it to {code(arrived)}, the location of slave "
        f"{task.slave.name}."
        if folder != arrived
        else f"The folder is looked for where it was written, {code(folder)}: the slave has no "
        "`initial_files_location`."
    )
    return (
        f"**Is this asked again? Then the folder was refused**: [what is wrong, file by file]({log_url}). Mend it, and "
        f"approve again.\n\nThe initial data of {task} are written; changes are queued meanwhile.\n\n1. {carry}\n"
        "2. **Approve**: the folder is checked, file by file, then imported. What is wrong is listed in this task's "
        f"log and in the slave's message (`{PROGRAM} status`). Where the slave's machine loads the folder itself "
        f"(`{PROGRAM} import`), approve when that is through.\n\n"
        "**Reject** cancels this initial update; the slave becomes INCONSISTENT."
    )
