"""The file of a replication as `./sluice add` and `remove` write it."""

from pathlib import Path

import pytest

from sluice import config
from sluice.configuration.model import Replication
from sluice.operate.replication_file import put, taken_out, with_slaves, without_slave, written
from tests.errors import raises_code

ODD = ["public.*", '"Mixed Case".*', 'app."a: b"', '"quote""d".t', "schéma.*", '"*".t', '"a\u2028b".t']


def read(tmp_path: Path, text: str) -> Replication:
    (tmp_path / "SHOP.yaml").write_text(text, encoding="utf-8")
    found = config.survey(tmp_path)
    assert not found.mistakes
    return found.replications[0]


def test_a_written_file_is_read_back_with_any_names(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        written(
            "SHOP_",
            {"conn_id": "shop_master"},
            {"dr1": {"conn_id": "shop_dr1"}, "no": {"conn_id": "shop_no", "vendor": "mysql"}},
            ODD,
        ),
    )
    assert str(found.prefix) == "SHOP_" and found.master.conn_id == "shop_master"
    assert [(name, slave.conn_id, slave.vendor) for name, slave in found.slaves.items()] == [
        ("dr1", "shop_dr1", "postgres"),
        ("no", "shop_no", "mysql"),
    ]
    assert [str(rule.pattern) for rule in found.tables][-1] == ODD[-1] and len(found.tables) == len(ODD)


def test_a_file_is_replaced_whole_with_its_mode_also_behind_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.yaml", tmp_path / "SHOP.yaml"
    real.write_text("before")
    real.chmod(0o640)
    link.symlink_to(real)
    open_before = real.open()
    put(link, "after")
    assert open_before.read() == "before", "who reads it meanwhile finds what was there"
    assert real.read_text() == "after" and real.stat().st_mode & 0o777 == 0o640 and link.is_symlink()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["SHOP.yaml", "real.yaml"]


def test_a_file_that_may_hold_other_replications_stays(tmp_path: Path) -> None:
    for name in ("SHOP.yaml", "xmlBlasterPlugins.xml"):
        (tmp_path / name).touch()
    assert "SHOP.yaml.removed now" in taken_out(tmp_path / "SHOP.yaml")
    assert "by hand" in taken_out(tmp_path / "xmlBlasterPlugins.xml")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["SHOP.yaml.removed", "xmlBlasterPlugins.xml"]


def test_slaves_come_and_go_and_all_else_stays_as_a_person_wrote_it(tmp_path: Path) -> None:
    text = (
        "# ours\nprefix: SHOP_\nmaster: {conn_id: m}  # the big one\n\nslaves:  # far away\n"
        "  # first\n  dr1: {conn_id: a}\n  'dr2':\n    conn_id: b\n    on_conflict: reject\n\ntables:\n  public.*: {}\n"
    )
    more = with_slaves("f", text, {"dr3": {"conn_id": "c"}})
    assert list(read(tmp_path, more).slaves) == ["dr1", "dr2", "dr3"]
    assert without_slave("f", more, "dr3") == text
    assert list(read(tmp_path, without_slave("f", more, "dr2")).slaves) == ["dr1", "dr3"]
    assert "on_conflict" not in without_slave("f", more, "dr2")
    assert list(read(tmp_path, without_slave("f", more, "dr1")).slaves) == ["dr2", "dr3"]


@pytest.mark.parametrize("text", ["prefix: A_\nslaves: {dr1: {conn_id: a}}\n", "prefix: A_\n", "slaves:\n"])
def test_a_file_of_another_shape_is_left_to_its_author(text: str) -> None:
    with raises_code("slave-lines-missing", match="by hand"):
        with_slaves("f", text, {"dr2": {"conn_id": "b"}})
    with raises_code("slave-lines-missing", match="by hand"):
        without_slave("f", text, "dr1")
