"""Which texts are locations of files, and which locations the configuration allows."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import Terminal
from sluice.model.location import Location, NoLocation
from sluice.storage.opening import allowed_location
from tests.errors import raises_code

SOURCE = Path("DEMO.yaml")


def place(text: str, *locations: str) -> str:
    """The path for a location of the form."""
    return str(allowed_location(Location.parse(text), locations, SOURCE))


@pytest.mark.parametrize("text", [
    "s3://bucket/[link](http://evil.example)", "s3://bucket/a`b", "s3://bucket/a\n\n# heading", "s3://bucket/a b",
    "s3://bucket/<b>", "s3://bucket/a/../b", "s3://bucket/./b", "s3://bucket/ä", "s3://bucket/a?b#c", "s3://bucket/a\\b",
    "/mnt/disk\n\n[link](http://evil.example)", "/mnt/\u202edisk", "/mnt/a\tb", "/mnt/a\x7f", "/mnt/\u2028",
])  # fmt: skip
def test_a_text_that_could_pass_for_something_else_is_no_location(text: str) -> None:
    with pytest.raises(NoLocation) as refused:
        Location.parse(text)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("text", ["s3://bucket/dt=2026-01-01/a_b.c", "s3://bucket", "/mnt/my disk/Ä", "/mnt/a`b"])
def test_folders_and_s3_keys_are_locations(text: str) -> None:
    assert str(Location.parse(text)) == text


@pytest.mark.parametrize(("text", "locations"), [
    ("/mnt/disk", ["/mnt/disk"]),
    ("/mnt/disk/sub/", ["/elsewhere", "/mnt//disk/"]),
    ("/mnt/disk", ["/"]),
    ("s3://bucket/carried/2026", ["s3://bucket/carried/"]),
    ("s3://bucket/carried", ["s3://bucket"]),
])  # fmt: skip
def test_a_location_at_or_below_a_configured_one_is_allowed(text: str, locations: list[str]) -> None:
    assert place(text, *locations) == str(Location.parse(text))


@pytest.mark.parametrize(("text", "locations"), [
    ("/mnt/disk", []),
    ("/mnt/disk2", ["/mnt/disk"]),
    ("/mnt", ["/mnt/disk"]),
    ("/bucket/carried", ["s3://bucket/carried"]),
    ("s3://bucket/carried2", ["s3://bucket/carried"]),
    ("s3://bucket2/carried", ["s3://bucket", "s3://bucke"]),
    ("s3://bucket/", ["s3://bucket/carried", "/"]),
])  # fmt: skip
def test_any_other_location_is_refused_with_the_line_that_would_allow_it(text: str, locations: list[str]) -> None:
    with raises_code("location-not-allowed") as refused:
        place(text, *locations)
    listed = ", ".join([*(str(Location.parse(each)) for each in locations), str(Location.parse(text))])
    assert f"initial: {{locations: [{listed}]}}" in str(refused.value) and "DEMO.yaml" in str(refused.value)


def test_symbolic_links_lead_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "allowed").mkdir()
    (tmp_path / "secret" / "sub").mkdir(parents=True)
    os.symlink(tmp_path / "secret", tmp_path / "allowed" / "out")
    os.symlink("../secret", tmp_path / "allowed" / "relative")
    os.symlink(tmp_path / "allowed", tmp_path / "name")
    for text in ("allowed/out", "allowed/out/sub", "allowed/relative", "allowed/relative/new"):
        with raises_code("location-not-allowed"):
            place(str(tmp_path / text), str(tmp_path / "allowed"))
    # By whatever name the same folder is called.
    assert place(str(tmp_path / "name" / "new"), str(tmp_path / "allowed")) == str(tmp_path / "allowed" / "new")
    assert place(str(tmp_path / "allowed" / "new"), str(tmp_path / "name")) == str(tmp_path / "name" / "new")
    # What is written to is what was compared: no link is left in it.
    os.symlink(tmp_path / "allowed" / "real", tmp_path / "allowed" / "link")
    assert place(str(tmp_path / "allowed" / "link"), str(tmp_path / "name")) == str(tmp_path / "name" / "real")


@given(st.text(alphabet="/.a~\\ -", max_size=12), st.text(alphabet="/.ab", max_size=8))
def test_whatever_is_written_below_an_allowed_folder_stays_there(below: str, folder: str) -> None:
    try:
        text, outer = Location.parse(f"/data/{folder}{below}"), Location.parse(f"/data/{folder}")
        found = allowed_location(text, [str(outer)], SOURCE)
    except Terminal:
        return
    assert os.path.commonpath([os.path.realpath(found.path), os.path.realpath(outer.path)]) == outer.path
