"""Policies for changes of definitions in a replication file."""

from dataclasses import replace
from pathlib import Path

import pytest

from sluice import config
from sluice.apply.definition_follower import beside_tables
from sluice.configuration.mistakes import ConfigError
from sluice.configuration.options import DdlOptions, Policy, ReplicateOptions
from sluice.model.connection import ConnectionInfo
from sluice.model.defined import DefinedKind
from sluice.pair import Pair

YAML = "prefix: DEMO_\nmaster: {conn_id: m}\nslaves: {}\ntables: {public.*: {}}\n"


def test_everything_follows_by_default(folder: Path) -> None:
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


def test_views_and_sequences_follow_only_if_configured(folder: Path) -> None:
    (folder / "DEMO.yaml").write_text(YAML)
    assert not config.load("DEMO_").replicate.any
    (folder / "DEMO.yaml").write_text(YAML + "replicate: {sequences: true}\n")
    assert config.load("DEMO_").replicate == ReplicateOptions(sequences=True)


def test_a_recorded_stream_has_no_views(folder: Path) -> None:
    master = "{capture: stream, location: /stream}"
    (folder / "DEMO.yaml").write_text(YAML.replace("{conn_id: m}", master) + "replicate: {views: true}\n")
    with pytest.raises(ConfigError, match=r"replicate.*catalog of a PostgreSQL master.*take the section out"):
        config.load("DEMO_")


def test_a_mariadb_slave_gets_neither_views_nor_sequences(folder: Path) -> None:
    slaves = "slaves: {dr1: {conn_id: a, vendor: mysql}, dr2: {conn_id: b}}"
    text = YAML.replace("slaves: {}", slaves) + "replicate: {views: true, sequences: true}\n"
    (folder / "DEMO.yaml").write_text(text)
    place = ConnectionInfo("postgres", "h", 5432, "d", "u", "")
    connections = {"m": place, "a": replace(place, vendor="mysql"), "b": place}
    replication = config.load("DEMO_")
    assert beside_tables(Pair.of(replication, "dr1", connections)) == frozenset()
    assert beside_tables(Pair.of(replication, "dr2", connections)) == {DefinedKind.VIEWS, DefinedKind.SEQUENCES}
