"""The task in which a person says that the folder has been carried to the slave.

The question and the answer are Airflow's own (required actions, human in the loop). An approval is followed by the
check of the folder. Whatever is wrong is listed in the log, on the slave, and on the page when it asks again: by a new
try of the task, since the text of a question that was asked stays as it is.
"""

import json
import logging
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import NEVER_EXPIRE  # type: ignore[attr-defined]
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from sluice.errors import SluiceError, Terminal, Transient
from sluice.initial import steps, transfer
from sluice.initial.owner import LoadEnded
from sluice.orchestration import files
from sluice.orchestration.choosing import update_of
from sluice.orchestration.failure import as_airflow
from sluice.orchestration.several import is_list
from sluice.orchestration.step import FOR_EVER
from sluice.orchestration.work import Work

log = logging.getLogger("sluice.orchestration")

APPROVE, REJECT = "Approve", "Reject"
LINES_SHOWN = 200
"""Of what is wrong with a folder, on the page."""
ANSWERS = "answers"
"""XCom key: who answered what, and when, one entry an answer."""
KEPT = "asked"
"""Key of the task's state store, which all tries share: the answers so far, and what was wrong after the last one."""
ASK_AGAIN = {"retry_delay": timedelta(seconds=3), "retry_exponential_backoff": False}


class TransferRejected(Terminal):
    """A person decided against it."""

    def __init__(self, who: str):
        super().__init__(f"{steps.INTERRUPTED} (the transfer was rejected by {who})")
        self.who = who


class ApproveTransfer(HITLOperator):
    """Waits for a person, then checks the folder at the slave's location; skipped where nothing travels as files."""

    template_fields = ()

    def __init__(self, **kwargs: Any):
        settings = {**FOR_EVER, **ASK_AGAIN, "subject": "Manual Data transfer", "options": [APPROVE, REJECT], **kwargs}
        super().__init__(**settings)

    def execute(self, context: Any) -> Any:
        """Asks."""
        if not files.by_files(context) or is_list(context):
            raise AirflowSkipException("There is nothing to approve in this run.")
        with as_airflow(context):
            work, (answers, wrong) = Work.of(context), _kept(context)
            if answers:
                context["ti"].xcom_push(key=ANSWERS, value=answers)  # those of the former try are gone
            folder = files.written(context)
            there = files.arrived(work.replication, work.slave.name, context)
            self.subject = transfer.WAITING.format(folder)
            self.body = wrong + question(work, str(folder), str(there))
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Somebody answered."""
        with as_airflow(context):
            user = event.get("responded_by_user") or {}
            who, at = str(user.get("name") or user.get("id") or "somebody"), str(event["responded_at"])
            (chosen,) = event["chosen_options"]
            given = [*_kept(context)[0], {"who": who, "at": at, "answer": chosen}]
            context["ti"].xcom_push(key=ANSWERS, value=given)
            log.info("%s by %s at %s", chosen, who, at)
            if chosen != APPROVE:
                raise TransferRejected(who)
            problem = self._examine(Work.of(context))
            wrong = f"{who}'s approval ({at:.19}) was followed by a look:\n\n{listed(problem)}\n\n" if problem else ""
            context["task_state_store"].set(KEPT, json.dumps([given, wrong]), retention=NEVER_EXPIRE)
            if problem:
                raise AirflowException("Mend what is listed above, then approve again: the question stands again.")
            return given

    def _examine(self, work: Work) -> str | None:
        """What keeps the folder from being imported. Raises what no carrying will mend."""
        update = update_of(work)
        try:
            if not transfer.left_to_import(update):
                log.info("%s: all files are on the slave already, imported there by hand", work)
                return None
            carried = files.carried(work)
            manifest = transfer.examine(update, carried)
        except (LoadEnded, transfer.NothingExported):
            raise
        except (Transient, Terminal) as wrong:
            log.error("%s", wrong)
            self._leave_word(work, str(wrong))
            return str(wrong)
        log.info("%s: %s files at %s are as they were sent", work, len(manifest.blocks), carried.location)
        return None

    def _leave_word(self, work: Work, text: str) -> None:
        try:
            steps.note(update_of(work), text)
        except SluiceError as error:
            log.warning("%s: could not leave word on the slave: %s", work, error)


def _kept(context: Any) -> tuple[list[dict[str, str]], str]:
    """The answers so far, and what was wrong after the last one."""
    text = context["task_state_store"].get(KEPT)
    answers, wrong = json.loads(text) if text else ([], "")
    return answers, wrong


def listed(problem: str) -> str:
    """A problem as the page shows it: as it is, but of a long list the first lines."""
    lines = problem.splitlines()
    left = len(lines) - LINES_SHOWN
    shown = [*lines[:LINES_SHOWN], f"- … and {left} more: see this task's log"] if left > 1 else lines
    return "\n".join(["```", *shown, "```"])


def question(work: Work, folder: str, there: str) -> str:
    carry = (
        f"Copy the folder `{folder}` with everything in it to `{there}`, the location of slave {work.slave.name}."
        if folder != there
        else f"The folder is looked for where it was written, `{folder}`: the slave has no `initial_files_location`."
    )
    return (
        f"The initial data of {work} are written; changes are queued meanwhile.\n\n1. {carry}\n"
        "2. **Approve**: the folder is checked, file by file, then imported. What is wrong stands here, in this task's "
        "log and in the slave's message; mend it and approve again. Where the slave's machine loads the folder itself "
        "(`./sluice import`), approve when that is through.\n\n"
        "**Reject** cancels this initial update; the slave becomes INCONSISTENT."
    )
