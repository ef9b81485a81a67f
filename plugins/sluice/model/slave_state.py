"""The states of a slave, and the allowed transitions."""

from enum import StrEnum

from sluice.errors import Terminal


class SlaveState(StrEnum):
    """The state of a slave."""

    UNCONFIGURED = "UNCONFIGURED"
    """No initial update was started yet."""
    INITIAL = "INITIAL"
    """An initial update is being prepared: resources, configuration, the slave's tables, blocks."""
    TRANSITION = "TRANSITION"
    """Blocks are read and stored while changes are applied by marker; the slave is not consistent yet."""
    NORMAL = "NORMAL"
    """Every state that a reader can see is a state that the master had."""
    INCONSISTENT = "INCONSISTENT"
    """The slave needs a new initial update."""
    SWITCHING = "SWITCHING"
    """A failover is in progress: nothing is applied; MASTER or NORMAL follows."""
    MASTER = "MASTER"
    """A failover made it a master: changes and rows of the former master must not be written any more."""


MOVES: dict[SlaveState, frozenset[SlaveState]] = {
    SlaveState.UNCONFIGURED: frozenset({SlaveState.INITIAL}),
    SlaveState.INITIAL: frozenset({SlaveState.TRANSITION, SlaveState.NORMAL, SlaveState.INCONSISTENT}),
    SlaveState.TRANSITION: frozenset({SlaveState.NORMAL, SlaveState.INCONSISTENT}),
    SlaveState.NORMAL: frozenset({SlaveState.INITIAL, SlaveState.INCONSISTENT, SlaveState.SWITCHING}),
    SlaveState.INCONSISTENT: frozenset({SlaveState.INITIAL}),
    SlaveState.SWITCHING: frozenset({SlaveState.MASTER, SlaveState.NORMAL}),
    SlaveState.MASTER: frozenset({SlaveState.NORMAL, SlaveState.INCONSISTENT}),
}
"""The allowed transitions from each state.

The initial update sets INITIAL and TRANSITION, the apply NORMAL; a canceled update or lost changes lead to
INCONSISTENT; a failover sets SWITCHING and MASTER. A failover in the other direction makes a MASTER NORMAL again, or
INCONSISTENT if it must be loaded. A partial load does not change the state: its tables have their own states
(`sluice.model.table_state`).
"""

APPLYING = frozenset({SlaveState.TRANSITION, SlaveState.NORMAL})
"""States in which the apply writes to the slave."""

_REMEDY: dict[tuple[SlaveState, SlaveState], str] = {
    (SlaveState.INITIAL, SlaveState.INITIAL): "Cancel the initial update that is running, then start a new one.",
    (SlaveState.TRANSITION, SlaveState.INITIAL): "Cancel the initial update that is running, then start a new one.",
    (SlaveState.UNCONFIGURED, SlaveState.NORMAL): "Start an initial update first.",
    (SlaveState.INCONSISTENT, SlaveState.NORMAL): "Start a new initial update.",
    (SlaveState.SWITCHING, SlaveState.INITIAL): "Wait for the failover, or abort it: DAG failover, action abort.",
    (SlaveState.SWITCHING, SlaveState.INCONSISTENT): "Wait for the failover, or abort it: DAG failover, action abort.",
    (SlaveState.MASTER, SlaveState.INITIAL): "A failover made it a master: an initial update would empty it. Put the "
    "configuration in force that names it as the master. Is another database the master by now, set its state in "
    "CHECKPOINT to INCONSISTENT by hand.",
}


class ForbiddenMove(Terminal):
    """A transition from `current` to `following` is not allowed."""

    def __init__(self, slave: str, current: SlaveState, following: SlaveState):
        remedy = _REMEDY.get((current, following))
        allowed = ", ".join(sorted(MOVES[current])) or "nowhere"
        super().__init__(
            f"Slave {slave} is {current} and cannot become {following} (only {allowed}). "
            + (remedy or "Look at the slave's last message, or start an initial update.")
        )


def move(slave: str, current: SlaveState, following: SlaveState) -> SlaveState:
    """`following`, if the transition is allowed. Raises `ForbiddenMove`."""
    if following not in MOVES[current]:
        raise ForbiddenMove(slave, current, following)
    return following
