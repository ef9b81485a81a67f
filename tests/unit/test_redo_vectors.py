"""Real output of OpenLogReplicator means what Oracle's LogMiner says."""

import json
import random
import re
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.database.recorder import MergeOptions
from sluice.model.change import Action
from sluice.model.names import Prefix
from sluice.vendors.stream.files import Files
from sluice.vendors.stream.lines import Change, Commit, parse
from sluice.vendors.stream.redo.merge import ThreadId
from sluice.vendors.stream.redo.merger import Limits, Merger
from tests.examples import examples
from tests.unit import redo_vectors
from tests.unit.redo_output import ONE, RESETLOGS, SECOND, checkpoint, folder, write
from tests.unit.redo_stream import changes

OPS = {"INSERT": Action.INSERT, "UPDATE": Action.UPDATE, "DELETE": Action.DELETE}
_DATE = re.compile(r"\d\d-[A-Z]{3}-\d\d( .*)?\Z")


EXACT = MergeOptions(exact_names=True)


def made_folder(root: Path, scenario: str, thread: ThreadId, *, closed: bool) -> Path:
    """A thread's folder, with the times of the vectors."""
    made = folder(root / "threads", thread, keys=redo_vectors.keys(scenario))
    (made / "thread.json").write_text(json.dumps({"closed": closed, "timestamp": "s"}))
    return made


def rows(found: Sequence[Change]) -> list[tuple[Any, ...]]:
    """The rows after the changes; each merge reports again that a table differs."""
    return [(each.table, each.action, each.old, each.new) for each in found if each.action in OPS.values()]


def seconds(line: str) -> str:
    """A line with its time in the vectors' form."""
    return line.replace(str(SECOND), str(SECOND // 10**9))


def merged(root: Path, scenario: str) -> list[Change]:
    """The changes of a scenario's stream."""
    write(made_folder(root, scenario, ONE, closed=True), redo_vectors.lines(scenario))
    Merger(root / "threads", root / "stream", Prefix("ORA_"), EXACT).merge_once()
    return changes(root / "stream")


def same(ours: str | None, theirs: str | None) -> bool:
    """Whether a value equals LogMiner's, which shows dates in the session's format and floats with all digits."""
    if ours is None or theirs is None:
        return ours is theirs
    if _DATE.match(theirs):
        day, _, clock = theirs.partition(" ")
        # These outputs have seconds, the fraction rounded; LogMiner's texts of DATE have no time.
        moment = re.sub(r"\.\d{3,}", "", clock) or "12.00.00 AM"
        shown = datetime.strptime(f"{day.title()} {moment} +0000", "%d-%b-%y %I.%M.%S %p %z")
        behind = (datetime.fromisoformat(f"{ours}+00:00") - shown).total_seconds()
        return 0 <= behind <= (1 if clock else 86_399)
    if re.fullmatch(r"-?[\d.]+E[+-]\d+", theirs):
        return abs(float(ours) - float(theirs)) <= 1e-5 * abs(float(theirs))
    return ours in (theirs, f"\\x{theirs}")  # The second is a RAW.


@pytest.mark.parametrize("scenario", redo_vectors.scenarios())
def test_every_value_is_that_of_logminer(scenario: str, tmp_path: Path) -> None:
    references = redo_vectors.references(scenario)
    found = merged(tmp_path, scenario)
    if not references:
        assert scenario == "boolean-type", "LogMiner does not know that type"
        return
    rows = [change for change in found if change.action in OPS.values()]
    assert [(change.action, change.table.name) for change in rows] == [
        (OPS[each["op"]], each["table"]) for each in references
    ]
    for change, reference in zip(rows, references, strict=True):
        before, after = reference.get("before", {}), reference.get("after", {})
        whole = {**before, **after}
        for name, value in (change.new or {}).items():
            assert same(value, whole.get(name)), (reference, name, value)
        for name, value in (change.old or {}).items():
            assert same(value, before.get(name)), (reference, name, value)
        if change.action is Action.UPDATE:
            changed = {name for name, value in after.items() if value != before.get(name)}
            assert changed <= set(change.new or {}), "every column that changed is there"
        if change.action is Action.INSERT:
            assert {name for name, value in after.items() if value is not None} <= set(change.new or {})


@pytest.mark.long
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(20))
@given(seed=st.integers(0, 2**32))
def test_real_transactions_of_several_threads_are_there_once_in_the_order_of_commits(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any instance ran each of them; threads are late and repeat from an earlier place, and the merge is killed."""
    redo_vectors.required()
    root, chance = tmp_path_factory.mktemp("split"), random.Random(seed)
    scenario = chance.choice(redo_vectors.scenarios())
    alone = rows(merged(root / "one", scenario))
    real = redo_vectors.transactions(scenario)
    threads = [ThreadId(RESETLOGS, number) for number in range(1, chance.randint(2, 8) + 1)]
    output: dict[ThreadId, list[list[str]]] = {thread: [] for thread in threads}
    order: list[tuple[int, ThreadId]] = []
    for lines in real:
        thread, scn = chance.choice(threads), json.loads(lines[0])["c_scn"]
        output[thread] += [lines, *([[seconds(checkpoint(scn))]] if chance.random() < 0.5 else [])]
        order.append((scn, thread))
    assert order == sorted(order, key=lambda each: each[0]), "no two commits of one SCN: the order is the same"
    written = dict.fromkeys(threads, 0)
    for thread in threads:
        output[thread].append([seconds(checkpoint(10**9))])
        made_folder(root, scenario, thread, closed=False)
    while late := [thread for thread in threads if written[thread] < len(output[thread])]:
        thread = chance.choice(late)
        if chance.random() < 0.2:  # Its program starts again, from a checkpoint before.
            written[thread] = chance.randint(0, written[thread])
        write(root / "threads" / str(thread), output[thread][written[thread]])
        written[thread] += 1
        if chance.random() < 0.5:
            Merger(root / "threads", root / "stream", Prefix("ORA_"), EXACT, Limits(group=3)).merge_once()
    assert Merger(root / "threads", root / "stream", Prefix("ORA_"), EXACT).merge_once() == 0
    assert rows(changes(root / "stream")) == alone


def test_a_boolean_that_the_writer_could_not_read_makes_its_table_differ(tmp_path: Path) -> None:
    redo_vectors.required()
    found = merged(tmp_path, "boolean-type")
    assert next(change.new for change in found if change.new) == {
        "ID": "1", "IS_ACTIVE": "true", "IS_VERIFIED": "false", "LABEL": "true-false"
    }  # fmt: skip
    reasons = [change.reason for change in found if change.reason]
    assert any("what IS_ACTIVE was, and not what it is" in reason for reason in reasons)
    assert any("leaves ID out, of the primary key" in reason for reason in reasons)


def test_the_output_of_version_1_9_0_for_two_real_logs(tmp_path: Path) -> None:
    """With the recommended format, 526 checkpoint messages, and its own schema checkpoint."""
    there = redo_vectors.required() / "redo"
    made = tmp_path / "threads" / "1224959854_1"
    made.mkdir(parents=True)
    shutil.copy(there / "output.json", made / "1.jsonl")
    shutil.copy(there / "TEST-chkpt-2266634.json", made)
    assert Merger(tmp_path / "threads", tmp_path / "stream", Prefix("ORA_")).merge_once() == 0
    lines = [parse(raw) for raw in Files(tmp_path / "stream").names()[0].read_bytes().splitlines()]
    assert [line.new for line in lines if isinstance(line, Change)] == [{"id": "1", "name": "hello world"}]
    (commit,) = [line for line in lines if isinstance(line, Commit)]
    assert commit.time == "2026-03-07T01:44:40.000000+00:00"
