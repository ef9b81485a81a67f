"""How times are told to a person on a terminal."""


def duration(seconds: float) -> str:
    """12 s, 5 min, 3 h, 2 d."""
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60), (172800, "h", 3600)):
        if seconds < limit:
            return f"{max(seconds, 0) / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"
