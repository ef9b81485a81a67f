"""Quotes foreign texts in Markdown that Airflow shows, so that nothing in them becomes a link or a heading."""

import re


def code(text: str) -> str:
    """The text as inline code."""
    fence = "`" * (_longest_run(text) + 1)
    # A blank line would end the paragraph and with it the code.
    line = " ".join(text.split())
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
