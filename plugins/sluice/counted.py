"""Numbers and lists in messages: `1 slave`, `2,000 slaves`, `5 min`, `a, b and 40 more`."""

from collections.abc import Sequence


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """The number, with commas, and the noun in singular or plural; `plural`: if it does not end in s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listed(names: Sequence[object], most: int = 10, noun: str = "") -> str:
    """`a, b, c`; beyond `most`: `a, b and 40 more`, or with a noun `a, b and 40 tables more`."""
    rest = len(names) - most
    shown = ", ".join(str(name) for name in names[:most])
    return shown if rest <= 0 else f"{shown} and {counted(rest, noun) if noun else rest} more"


def duration(seconds: float) -> str:
    """A duration in the best unit: 12 s, 5 min, 3 h, 2 days; at least 0 s."""
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60), (172800, "h", 3600)):
        if seconds < limit:
            return f"{max(seconds, 0) / size:.0f} {unit}"
    return counted(round(seconds / 86400), "day")
