"""What `./sluice status` says of replications."""

import json

from embedded.replicated import LISTED, PairSight, sights, told

POSITION = {"snapshot": "811:815:812,813", "low": 1, "high": 2, "next": None, "floors": {}, "gap_floor": 0, "time": ""}
GOOD = {
    "since": "2026-11-01T00:00:00+00:00",
    "outcome": "identical",
    "checked": "2026-11-21T00:41:12+00:00",
    "time": "2026-11-21T00:41:10.123Z",
    "position": json.dumps(POSITION),
}
STATUS = {"state": "NORMAL", "current_as_of": "2026-11-21T00:45:10.123Z"}


def test_each_table_has_the_time_and_position_through_which_it_is_verified() -> None:
    tables = {"public.a": GOOD, "public.b": {**GOOD, "outcome": "different"}, "public.new": {"since": GOOD["since"]}}
    assert told([PairSight("DEMO_", "dr1", STATUS, tables)]).splitlines() == [
        "",
        "DEMO_ → dr1  NORMAL, current as of 2026-11-21 00:45:10",
        "  table       last compared                  verified through     position",
        "  public.a    identical 2026-11-21 00:41:12  2026-11-21 00:41:10  811:815:812,813",
        "  public.b    different 2026-11-21 00:41:12  2026-11-21 00:41:10  811:815:812,813",
        "  public.new  –                              never",
    ]


def test_many_tables_are_counted_and_a_pair_that_never_applied_is_left_out() -> None:
    tables = {f"t{number:03}": GOOD if number % 2 else {"since": ""} for number in range(100)}
    lines = told([PairSight("A_", "s", {}, {}), PairSight("B_", "s", {}, tables)]).splitlines()
    assert lines[1] == "B_ → s" and len(lines) == 2 + 1 + LISTED + 1
    assert lines[-1] == "  and 60 more: --json lists them; 50 were never verified"


def test_without_redis_nothing_is_said() -> None:
    assert sights("redis://127.0.0.1:1/0", None) == [] and told([]) == ""
