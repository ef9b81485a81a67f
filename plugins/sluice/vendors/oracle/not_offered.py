"""Functions that are not available on Oracle."""

from sluice.errors import Terminal


class NotOffered(Terminal):
    """A function that Sluice has only for other vendors."""

    def __init__(self, what: str, remedy: str):
        super().__init__(f"On an Oracle database there is no {what}. {remedy} What there is: docs/oracle.md.")
