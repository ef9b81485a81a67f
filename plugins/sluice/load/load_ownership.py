"""Checks that an initial update still owns its slave."""

from sluice.control.own_tables import LoadOwner
from sluice.database.control import Owner
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.load.update import LoadTarget
from sluice.model.checkpoint import Checkpoint
from sluice.model.slave_state import SlaveState


class LoadEnded(Terminal):
    """The loader's update is over; `state` and message of the slave say why."""

    def __init__(self, update: LoadTarget, state: SlaveState, message: str):
        super().__init__(
            f"{update}: this load is over, the slave is {state}"
            + (f" ({message})" if message else "")
            + ". Start a new initial update if one is wanted."
        )

    @classmethod
    def of(cls, update: LoadTarget, owner: Owner | Checkpoint | None) -> "LoadEnded":
        """`owner`: the slave's owner or checkpoint, None if it was never configured."""
        return cls(update, owner.state if owner else SlaveState.UNCONFIGURED, owner.message if owner else "")


def owner_of(update: LoadTarget, slave: Session) -> Owner | None:
    """State, update and message of the slave; None if it was never configured."""
    return LoadOwner.of(update, slave).read()


def expect_loading(update: LoadTarget, slave: Session) -> None:
    """Raises `LoadEnded` unless this update owns the slave and may load it."""
    owner = owner_of(update, slave)
    # NORMAL as well: the apply sets it as soon as all blocks are stored and passed, when loaders may still run.
    states = (SlaveState.TRANSITION, SlaveState.NORMAL)
    if owner is None or owner.state not in states or owner.update_id != update.update_id:
        raise LoadEnded.of(update, owner)
