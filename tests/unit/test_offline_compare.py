"""Rows as they were before the waiting changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.database import xml_images
from sluice.model.content import format_partial, format_row
from sluice.verify.offline_compare import ChangesWait, Image, before, images

Table = dict[str, dict[str, str | None]]
STEPS = st.lists(st.tuples(st.sampled_from("IUDM"), st.integers(0, 5), st.integers(0, 5), st.text(max_size=2)))


def run(table: Table, steps: list[tuple[str, int, int, str]]) -> list[tuple[str, str | None, str | None]]:
    """Runs those steps that are possible; returns ITEMS."""
    items: list[tuple[str, str | None, str | None]] = []
    for step, number, other, text in steps:
        key, new_key = str(number), str(other)
        old = table.get(key)
        if step == "I" and old is None:
            table[key] = {"id": key, "v": text or None}
            items.append(("INSERT", format_row(table[key].items()), None))
        elif step == "D" and old is not None:
            items.append(("DELETE", None, format_row(table.pop(key).items())))
        elif step in "UM" and old is not None:
            new = {"id": new_key if step == "M" else key, "v": text or None}
            if new["id"] != key and new["id"] in table:
                continue
            del table[key]
            table[str(new["id"])] = new
            changed = {name: value for name, value in old.items() if name == "id" or new[name] != value}
            items.append(("UPDATE", format_row(new.items()), format_row(changed.items())))
    return items


@given(STEPS, STEPS)
def test_waiting_changes_are_undone(
    earlier: list[tuple[str, int, int, str]], later: list[tuple[str, int, int, str]]
) -> None:
    table: Table = {}
    run(table, earlier)
    then = {key: dict(row) for key, row in table.items()}
    found: dict[tuple[str | None, ...], Image | None] = before(
        [images(xml_images, *item) for item in run(table, later)], ["id"]
    )
    for key in {*then, *table}:
        # What is touched is as it was; what is not touched has not changed.
        assert (dict(found[key,] or {}) if (key,) in found else table.get(key, {})) == then.get(key, {})


def test_a_partly_known_change_is_not_undone() -> None:
    old = format_partial({"id": "1"}, ["id", "v"])
    with pytest.raises(ChangesWait, match="not all former values are known"):
        images(xml_images, "UPDATE", format_row([("id", "1"), ("v", "x")]), old)
