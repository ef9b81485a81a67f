"""The lines of `./sluice status` about verification."""

import json

from sluice.cli.status import LISTED, summary_lines
from sluice.model.names import Prefix

PAIR = Prefix("SHOP_"), "dr1"
POSITION = {"snapshot": "811:815:812,813", "low": 1, "high": 2, "next": None, "floors": {}, "gap_floor": 0, "time": ""}
GOOD = {
    "since": "2026-11-01T00:00:00+00:00",
    "outcome": "identical",
    "checked": "2026-11-21T00:41:12+00:00",
    "time": "2026-11-21T00:41:10.123Z",
    "position": json.dumps(POSITION),
}


def test_each_table_has_the_time_and_position_through_which_it_is_verified() -> None:
    tables = {"public.a": GOOD, "public.b": {**GOOD, "outcome": "different"}, "public.new": {"since": GOOD["since"]}}
    assert summary_lines(tables, *PAIR) == [
        "    table     last compared                  verified through     position",
        "    public.a  identical 2026-11-21 00:41:12  2026-11-21 00:41:10  811:815:812,813",
        "    public.b  different 2026-11-21 00:41:12  2026-11-21 00:41:10  811:815:812,813",
        "    1 table never compared: ./sluice verify SHOP_ dr1",
    ]


def test_many_tables_are_counted() -> None:
    lines = summary_lines({f"t{number:03}": GOOD if number % 2 else {"since": ""} for number in range(100)}, *PAIR)
    assert len(lines) == 1 + LISTED + 2
    assert lines[-2:] == [
        "    and 10 more: --json lists them",
        "    50 tables never compared: ./sluice verify SHOP_ dr1",
    ]


def test_without_verification_the_status_has_no_lines() -> None:
    assert summary_lines({}, *PAIR) == []
