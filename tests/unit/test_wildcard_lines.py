"""Which tables join when they are created, and which are left to reconcile_tables."""

from pathlib import Path

import pytest

from sluice import config
from sluice.capture.wildcards import lines
from sluice.configuration.model import Replication


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    return tmp_path


def read(folder: Path, tables: str, slaves: str = "dr1: {conn_id: s}") -> Replication:
    text = f"prefix: DEMO_\nmaster: {{conn_id: m}}\nslaves: {{{slaves}}}\ntables: {{{tables}}}\n"
    (folder / "DEMO.yaml").write_text(text)
    return config.load("DEMO_")


def meant(found: Replication) -> list[tuple[str, str]]:
    return [(str(line.pattern), "".join(sorted(line.actions))) for line in lines(found)]


def test_the_most_exact_line_comes_first_and_lines_of_single_tables_capture_nothing(folder: Path) -> None:
    found = read(
        folder,
        "public.*: {}, public.private: {replicate: false}, public.log_*: {actions: ID}, public.copy_*: {actions: ''}, "
        "public.named: {debug: true}, other.*: {debug: true}",
    )
    assert meant(found) == [
        ("public.private", ""), ("public.named", ""), ("public.copy_*", ""),
        ("public.log_*", "DI"), ("public.*", "DIU"), ("other.*", "DIU"),
    ]  # fmt: skip
    assert [line.debug for line in lines(found)][-2:] == [False, True]


def test_transformed_tables_are_left_to_reconcile_whatever_else_matches(folder: Path) -> None:
    slaves = "dr1: {conn_id: s, tables: {public.a*: {where: id > 0}}}, dr2: {conn_id: t}"
    found = read(folder, "public.*: {}, shop.*: {columns: {v: {exclude: true}}}, shop.plain_*: {}", slaves)
    assert meant(found)[:2] == [("shop.*", ""), ("public.a*", "")]
    placed = read(folder, "public.*: {target: {schema: archive}}")
    assert meant(placed) == [("public.*", "DIU")]


def test_a_slave_of_another_vendor_may_lack_types(folder: Path) -> None:
    assert meant(read(folder, "public.*: {}", "dr1: {conn_id: s}, m1: {conn_id: t, vendor: mysql}")) == []
