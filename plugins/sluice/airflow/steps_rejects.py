"""The task of the DAG `rejects`: a person decides about changes that were set aside."""

import logging
import re
import time

from sluice.airflow.step import step
from sluice.airflow.task_context import TaskContext
from sluice.control.rejects import RejectStore
from sluice.counted import counted
from sluice.errors import Terminal
from sluice.model.reject import OPEN, Reject, RejectStatus

log = logging.getLogger("sluice.airflow")

WAIT_SECONDS = 60.0
"""How long the task waits for the apply's answer; the request itself stays."""


def unknown_rejects(reason: str) -> Terminal:
    """The form has numbers that no open reject has."""
    return Terminal(
        f"{reason}. Run this DAG with action list: it prints what is set aside, each with its number.",
        code="unknown-rejects",
    )


def rejects_refused(answers: dict[int, str]) -> Terminal:
    """The apply refused some changes; `answers`: reasons by number."""
    lines = "; ".join(f"{number}: {answer.rstrip('.')}" for number, answer in answers.items())
    return Terminal(
        f"Not applied: {counted(len(answers), 'change')}. {lines}. Fix the rows and start the DAG rejects with "
        "the action apply again, or with force, which overwrites them, or with the action drop.",
        code="rejects-refused",
    )


@step
def decide(task: TaskContext) -> str:
    """Lists the open rejects, drops some, or asks the running apply to apply some and waits for its answers."""
    action = str(task.context["params"]["action"])
    slave = task.slave
    with task.at(slave) as connection:
        store = RejectStore(connection, task.prefix, slave.schema, slave.name)
        rejects_open: list[Reject] = store.open() if store.ready() else []
        for reject in rejects_open:
            log.info("%s: %s", task, reject)
        if action == "list":
            return f"set aside: {counted(len(rejects_open), 'change')}"
        ids = numbers(task.context["params"]["ids"] or "", [reject.id for reject in rejects_open])
        if action == "drop":
            dropped = store.move(ids, RejectStatus.DROPPED, task.person("the DAG rejects"))
            return f"{counted(len(dropped), 'change')} dropped"
        store.move(ids, RejectStatus.ASKED, task.person("the DAG rejects"), force=bool(task.context["params"]["force"]))
        return _answers(task, store, ids)


def numbers(text: str, known: list[int]) -> list[int]:
    """Parses `all`, or numbers and ranges such as `2-5` between commas or blanks; a range means its known numbers.

    Raises `unknown-rejects`.
    """
    if text.strip().lower() == "all":
        return known
    words = [word for word in re.split(r"[\s,;]+", text) if word]
    ranges = [re.fullmatch(r"(\d+)(?:-(\d+))?", word) for word in words]
    if not words or None in ranges:
        raise unknown_rejects(f"ids is {text!r}; it must be numbers, ranges such as 2-5, or all")
    counts = {
        word: [number for number in known if int(each[1]) <= number <= int(each[2] or each[1])]
        for word, each in zip(words, ranges, strict=True)
        if each is not None
    }
    if strange := [word for word, numbers in counts.items() if not numbers]:
        raise unknown_rejects(f"Nothing is set aside under {', '.join(strange)}, or it is settled already")
    return sorted({number for numbers in counts.values() for number in numbers})


def _answers(task: TaskContext, store: RejectStore, ids: list[int]) -> str:
    """Waits for the answers; returns them in words. Raises `rejects-refused`."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        now = store.read(RejectStatus, ids)
        waiting = [reject for reject in now if reject.status is RejectStatus.ASKED]
        if not waiting or time.monotonic() > end:
            break
        time.sleep(0.5)
    answers = {reject.id: reject.answer or "" for reject in now if reject.status in OPEN and reject not in waiting}
    applied = [reject for reject in now if reject.status is RejectStatus.APPLIED]
    for reject in applied:
        log.info("%s: applied: %s", task, reject)
    if answers:
        raise rejects_refused(answers)
    message = f"{counted(len(applied), 'change')} applied"
    if waiting:
        message += (
            f", {len(waiting)} wait for the apply: it answers when it runs, its gate is open and safe mode is over"
        )
        log.warning("%s: %s", task, message)
    return message
