"""What tests of the configuration share."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of replications, empty."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    return tmp_path
