"""The form of a report: what `report.as_dict` makes, `page` shows, and any program reads as JSON."""

from typing import TypedDict

Values = dict[str, str | None]
"""Column → text, as it may be shown."""


class ExampleReport(TypedDict):
    """One row that differs."""

    kind: str
    copies: int
    cause: str
    changes: str
    key: Values
    master: Values | None
    slave: Values | None


class Causes(TypedDict, total=False):
    """Why rows of a kind that differ are no fault; the commonest reasons of changes that were set aside."""

    missing: str
    extra: str
    different: str
    rejects: dict[str, int]


class FindingReport(TypedDict):
    """What one comparison found of a table."""

    found: str
    reason: str
    position: str
    position_time: str
    rows_master: int
    rows_slave: int
    blocks: int
    blocks_different: int
    missing: int
    extra: int
    different: int
    causes: Causes
    accepted: int
    set_aside: int
    to_repair: int
    waiting: int | None
    sampled: int
    upper_bound: float | None
    columns: dict[str, int]
    looked_at: int
    examples: list[ExampleReport]
    digest: str
    fell_back: str
    place: str
    """Its name on the slave, if that is another one."""
    transformed: str
    rule: str
    proposed: dict[str, int]
    seconds: float
    apply_seconds: float
    traveled: int


class TableReport(FindingReport):
    """A table: the finding, and the result of a repair."""

    table: str
    outcome: str
    repaired: int
    rejects_settled: int
    not_repaired_because: str
    after_repair: FindingReport | None


class Report(TypedDict):
    """A run of one pair."""

    format: int
    prefix: str
    slave: str
    action: str
    started: str
    outcome: str
    tables: list[TableReport]
