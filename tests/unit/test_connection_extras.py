"""docs/connections.md lists the extras of Airflow's connections that count."""

import re
from pathlib import Path

from sluice.model.connection import OPTIONS, known_options
from sluice.model.vendors import VENDORS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "connections.md"


def test_the_extras_of_each_vendor_are_those_of_the_page() -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text().splitlines() if "|" in line]
    listed = {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[1])) for row in rows if len(row) == 3}
    assert listed["all three"] == OPTIONS
    for vendor, entry in VENDORS.items():
        assert listed[vendor] == (known_options(vendor) - OPTIONS) | set(entry.databases), vendor
        (others,) = [row[2] for row in rows if len(row) == 3 and row[0].strip("`") == vendor]
        assert not set(re.findall(r"`(\w+)`", others)) & (known_options(vendor) | set(entry.databases)), vendor
