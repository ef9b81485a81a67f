"""Functions that are not available on a vendor's servers."""

from sluice.errors import Terminal


class NotOffered(Terminal):
    """A function that Sluice has only for other vendors. `server`: with an article."""

    def __init__(self, server: str, what: str, remedy: str, page: str):
        super().__init__(f"On {server} there is no {what}. {remedy} What there is: {page}.")
