"""The page of the architecture names only existing classes, functions and files."""

import ast
import re
from pathlib import Path

import pytest

from tests.unit.test_imports import LAYERS, LIBRARY, ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
STEPS = re.findall(r"^\| ?(.*?) \| (.*?) \| (.*?) \| `(.*?)` \|$", PAGE, re.MULTILINE)


def defined(file: Path) -> set[str]:
    """The public names of a module."""
    names: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
    return names


@pytest.mark.parametrize(("step", "name", "file"), [(f"{step} {does}", name, file) for step, does, name, file in STEPS])
def test_a_step_names_its_class_and_file(step: str, name: str, file: str) -> None:
    path = ROOT / file if (ROOT / file).exists() else LIBRARY / file
    assert path.exists(), f"{step}: {file}"
    if path.suffix == ".py":
        assert name.strip("`") in defined(path), f"{step}: {name} in {file}"


def test_the_page_has_the_steps_of_a_change_a_load_and_a_comparison() -> None:
    assert len(STEPS) > 30


def test_the_layers_are_those_that_are_enforced() -> None:
    drawn = {
        name: int(layer)
        for layer, packages in re.findall(r"^\| (\d) \| (.*?) \|", PAGE, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", packages)
    }
    packages = {path.name for path in LIBRARY.iterdir() if (path / "__init__.py").exists()}
    assert drawn == {name: layer for name, layer in LAYERS.items() if name in packages}
