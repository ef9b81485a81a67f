"""What a hosting site and an editor read: the workflow, the forms of issues, the hooks."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema.validators import validator_for

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "tests.yaml"
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yaml"))


def errors(schema_name: str, document: Any) -> list[str]:
    file = resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / f"{schema_name}.json"
    schema = json.loads(file.read_text(encoding="utf-8"))
    found = validator_for(schema)(schema).iter_errors(document)
    return [f"{list(error.absolute_path)}: {error.message}" for error in found]


def workflow() -> dict[str, Any]:
    read = yaml.safe_load(WORKFLOW.read_text())
    return {"on" if key is True else key: value for key, value in read.items()}  # YAML 1.1 takes a plain `on` for true


def test_the_workflow_is_one() -> None:
    assert errors("github-workflows", workflow()) == []
    broken = workflow()
    broken["jobs"]["quick"]["step"] = broken["jobs"]["quick"].pop("steps")
    assert errors("github-workflows", broken)


def test_each_change_runs_the_quick_tests_on_each_python_and_each_night_all_of_them() -> None:
    jobs = workflow()["jobs"]
    assert jobs["quick"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert jobs["quick"]["steps"][-1]["run"] == ".ci/run"
    assert jobs["all"]["steps"][-1]["run"].startswith(".ci/run --all --run-number ")
    assert "schedule" in jobs["all"]["if"] and "schedule" not in jobs["quick"]["if"]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_forms_of_issues_are_such(form: Path) -> None:
    assert errors("github-issue-forms", yaml.safe_load(form.read_text())) == []


def test_hooks_run_what_the_gate_checks() -> None:
    gate = (ROOT / ".ci" / "run").read_text()
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert [hook["id"] for hook in hooks] == ["ruff", "format", "mypy"]
    for hook in hooks:
        assert hook["entry"] in gate
