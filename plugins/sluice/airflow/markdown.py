"""Texts of others in what Airflow shows as Markdown: questions. Nothing in them becomes a link or a heading."""

import re


def code(text: str) -> str:
    """A piece of a line, shown as it is written."""
    fence = "`" * (_longest_run(text) + 1)
    # A blank line would end the paragraph, and the code with it.
    line = " ".join(text.split())
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
