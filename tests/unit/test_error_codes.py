"""docs/errors.md lists the code of every error, with its kind and meaning."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.errors import RESTART_APPLY, DataLost, Terminal, Transient, labeled

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "errors.md"
FOLDERS = ("plugins/sluice", "spark_jobs", "devstack", "benchmarks", "workload")
ROOTS = {"Terminal", "Transient", "DataLost"}
NAMED = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield file, ast.parse(file.read_text(encoding="utf-8"))


def raised() -> Iterator[tuple[str, ast.Call, str | None]]:
    """Every error that is made of a root class: where, the call, and its code."""
    for file, tree in trees():
        if file == ROOT / "plugins/sluice/errors.py":
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ROOTS:
                given = next((keyword.value for keyword in node.keywords if keyword.arg == "code"), None)
                code = given.value if isinstance(given, ast.Constant) else None
                yield f"{file.relative_to(ROOT)}:{node.lineno}", node, code if isinstance(code, str) else None


def test_every_error_made_of_a_root_class_has_a_code() -> None:
    assert [place for place, _, code in raised() if code is None or not NAMED.fullmatch(code)] == []


def test_the_page_lists_every_code_and_no_other() -> None:
    listed = re.findall(r"^\| `([a-z0-9-]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == sorted(set(listed))
    codes = {code for _, _, code in raised()}
    assert {code for code in codes if code} - set(listed) == set(), "add a row to docs/errors.md"
    assert set(listed) - codes == set(), "no error has this code any more"


def test_a_class_of_its_own_is_named_by_its_code() -> None:
    class LeaseGone(Transient):
        pass

    assert LeaseGone("text").code == "lease-gone" and Terminal("text", code="no-checkpoint").code == "no-checkpoint"


@pytest.mark.parametrize("kind", [Terminal, Transient, DataLost])
def test_a_person_sees_the_code_behind_the_text_once(kind: type[Terminal | Transient]) -> None:
    error = kind("SHOP_ → dr1: no checkpoint.", code="no-checkpoint")
    assert labeled(error) == "SHOP_ → dr1: no checkpoint. [no-checkpoint]"
    assert labeled(Terminal(labeled(error), code="job-ended")) == labeled(error)


def test_what_leaves_out_a_table_asks_for_a_load_of_it_instead_of_another_start_of_the_apply() -> None:
    refused = Terminal(f"public.t: the slave refuses it. Change it there, then {RESTART_APPLY}.", code="test")
    assert refused.reason_left_out == "public.t: the slave refuses it. Change it there, then load the table again"
    refused.finding = "public.t: the slave refuses it."
    assert refused.reason_left_out == "public.t: the slave refuses it"
