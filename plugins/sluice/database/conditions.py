"""Conditions that servers of every vendor take."""

from collections.abc import Sequence

MOST_IN_A_LIST = 1_000
"""No server takes fewer."""


def in_lists(expression: str, values: Sequence[str]) -> str:
    """The condition that `expression` is one of `values`, each a literal or a parameter; there is at least one."""
    parts = [values[start : start + MOST_IN_A_LIST] for start in range(0, len(values), MOST_IN_A_LIST)]
    lists = [f"{expression} IN ({', '.join(part)})" for part in parts]
    return lists[0] if len(lists) == 1 else f"({' OR '.join(lists)})"
