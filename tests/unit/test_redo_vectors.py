"""Real output of OpenLogReplicator means what Oracle's LogMiner says."""

import re
import shutil
from datetime import datetime
from pathlib import Path

import pytest

from sluice.model.change import Action
from sluice.model.names import Prefix
from sluice.vendors.stream.files import Files
from sluice.vendors.stream.lines import Change, Commit, parse
from sluice.vendors.stream.redo.merger import Merger
from tests.unit import redo_vectors
from tests.unit.redo_output import folder

OPS = {"INSERT": Action.INSERT, "UPDATE": Action.UPDATE, "DELETE": Action.DELETE}
_DATE = re.compile(r"\d\d-[A-Z]{3}-\d\d( .*)?\Z")


def merged(root: Path, scenario: str) -> list[Change]:
    """The changes of a scenario's stream."""
    made = folder(root / "threads", lines=redo_vectors.lines(scenario), keys=redo_vectors.keys(scenario))
    (made / "thread.json").write_text('{"closed": true, "timestamp": "s"}')
    Merger(root / "threads", root / "stream", Prefix("ORA_"), exact_names=True).merge_once()
    found: list[Change] = []
    for file in Files(root / "stream").names():
        found += [line for raw in file.read_bytes().splitlines() if isinstance(line := parse(raw), Change)]
    return found


def same(ours: str | None, theirs: str | None) -> bool:
    """Whether a value is LogMiner's, which shows dates by the session's format and floats by all of their digits."""
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
    changes = merged(tmp_path, scenario)
    if not references:
        assert scenario == "boolean-type", "LogMiner does not know that type"
        return
    rows = [change for change in changes if change.action in OPS.values()]
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


def test_a_boolean_that_the_writer_could_not_read_makes_its_table_differ(tmp_path: Path) -> None:
    redo_vectors.required()
    changes = merged(tmp_path, "boolean-type")
    assert next(change.new for change in changes if change.new) == {
        "ID": "1", "IS_ACTIVE": "true", "IS_VERIFIED": "false", "LABEL": "true-false"
    }  # fmt: skip
    reasons = [change.reason for change in changes if change.reason]
    assert any("what IS_ACTIVE was, and not what it is" in reason for reason in reasons)
    assert any("leaves ID out, of the primary key" in reason for reason in reasons)


def test_what_version_1_9_0_writes_of_two_real_logs(tmp_path: Path) -> None:
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
