"""What an Oracle master has beside its captured tables (`sluice.database.accounts.MasterContents`)."""

from sluice.database.accounts import Content
from sluice.database.session import Session
from sluice.model.names import Prefix
from sluice.vendors.oracle.not_offered import NotOffered


def is_superuser(connection: Session) -> bool:
    """False: nothing here is made by one."""
    return False


def encoding(connection: Session) -> str:
    """Texts come in UTF-8, see `check`."""
    return "UTF8"


def inventory(connection: Session) -> list[Content]:
    raise NotOffered("./sluice add and remove", "Write the configuration yourself: docs/configuration.md.")


def event_triggers(connection: Session, prefix: Prefix, schema: str) -> None:
    """Those that there are come with the resources."""


def remove_event_triggers(connection: Session, prefix: Prefix, schema: str) -> None:
    """They go with the resources."""


def has_event_triggers(connection: Session, prefix: Prefix, schema: str) -> bool:
    return False
