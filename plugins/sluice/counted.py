"""Counted nouns in messages: `1 slave`, `2,000 slaves`."""


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """The number, with commas, and the noun in the form that fits it; `plural` where it does not end in s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
