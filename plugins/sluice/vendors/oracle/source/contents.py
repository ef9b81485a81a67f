"""What an Oracle master has besides its captured tables (`sluice.database.accounts.MasterContents`)."""

from sluice.database.accounts import Content
from sluice.database.session import Session
from sluice.model.names import Prefix
from sluice.paths import PROGRAM
from sluice.vendors.oracle.not_offered import NotOffered


def is_superuser(connection: Session) -> bool:
    """False: a superuser creates nothing here."""
    return False


def encoding(connection: Session) -> str:
    """UTF-8, see `check`."""
    return "UTF8"


def inventory(connection: Session) -> list[Content]:
    raise NotOffered(f"{PROGRAM} add and remove", "Write the configuration yourself: docs/configuration.md.")


def event_triggers(connection: Session, prefix: Prefix, schema: str) -> None:
    """Does nothing: they are created with the resources."""


def remove_event_triggers(connection: Session, prefix: Prefix, schema: str) -> None:
    """Does nothing: they are removed with the resources."""


def has_event_triggers(connection: Session, prefix: Prefix, schema: str) -> bool:
    return False
