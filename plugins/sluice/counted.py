"""Numbers in messages: `1 slave`, `2,000 slaves`, `5 min`."""


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """The number, with commas, and the noun in the form that fits it; `plural` where it does not end in s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """In the unit that fits: 12 s, 5 min, 3 h, 2 days; nothing below 0 s."""
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60), (172800, "h", 3600)):
        if seconds < limit:
            return f"{max(seconds, 0) / size:.0f} {unit}"
    return counted(round(seconds / 86400), "day")
