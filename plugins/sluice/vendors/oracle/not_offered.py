"""Functions that are not available on Oracle."""

from sluice.errors import Terminal


class NotOffered(Terminal):
    """Something that Sluice does on other vendors alone."""

    def __init__(self, what: str, remedy: str):
        super().__init__(f"On an Oracle database there is no {what}. {remedy} What there is: docs/oracle.md.")
