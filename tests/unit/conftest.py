"""Fixtures of tests of the configuration."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of replications."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    return tmp_path
