"""What a replication file says of changes of definitions."""

from pathlib import Path

import pytest

from sluice import config
from sluice.config import ConfigError
from sluice.configuration.ddl import DdlOptions, Policy
from sluice.model.defined import DefinedKind

YAML = "prefix: DEMO_\nmaster: {conn_id: m}\nslaves: {}\ntables: {public.*: {}}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    return tmp_path


def test_everything_follows_where_nothing_is_said(folder: Path) -> None:
    (folder / "DEMO.yaml").write_text(YAML)
    assert {config.load("DEMO_").ddl.of(kind) for kind in DefinedKind} == {Policy.FOLLOW}


def test_each_kind_has_a_policy_of_its_own(folder: Path) -> None:
    (folder / "DEMO.yaml").write_text(YAML + "ddl: {indexes: warn, checks: stop}\n")
    assert config.load("DEMO_").ddl == DdlOptions(indexes=Policy.WARN, checks=Policy.STOP)


def test_another_kind_or_policy_is_refused(folder: Path) -> None:
    (folder / "DEMO.yaml").write_text(YAML + "ddl: {indices: warn, checks: never}\n")
    with pytest.raises(ConfigError) as raised:
        config.load("DEMO_")
    assert "indices" in str(raised.value) and "'never'" in str(raised.value)
