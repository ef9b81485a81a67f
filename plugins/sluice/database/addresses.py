"""URLs of databases on command lines: what is wrong with one."""

from sluice.errors import Terminal


class BadAddress(Terminal):
    """A URL that leads to no database. `form`: how one is written."""

    def __init__(self, url: str, reason: str, form: str):
        super().__init__(f"{url}: {reason}. Write {form}.")


class PasswordShown(Terminal):
    """A URL with a password in it. `sources`: where it is taken from instead."""

    def __init__(self, place: str, sources: str):
        super().__init__(
            f"The URL of {place} has a password in it, which a command line shows to everybody on this machine. Leave "
            f"it out: it is taken from {sources}. Change it now."
        )
