"""The state of a slave: which there are, and which moves are allowed."""

from enum import StrEnum

from sluice.errors import Terminal


class SlaveState(StrEnum):
    """What a slave's data is worth."""

    UNCONFIGURED = "UNCONFIGURED"
    """No initial update was ever asked for."""
    INITIAL = "INITIAL"
    """An initial update is being prepared: resources, configuration, slave tables, blocks."""
    TRANSITION = "TRANSITION"
    """Blocks are read and stored while changes are applied by marker; not consistent yet."""
    NORMAL = "NORMAL"
    """Every state a reader can see is a state the master had."""
    INCONSISTENT = "INCONSISTENT"
    """Only a new initial update helps."""
    SWITCHING = "SWITCHING"
    """A failover completes the slave: nothing is applied, and either MASTER or NORMAL follows."""
    MASTER = "MASTER"
    """A failover made it a master: nothing of the former one may be applied or loaded any more."""


MOVES: dict[SlaveState, frozenset[SlaveState]] = {
    SlaveState.UNCONFIGURED: frozenset({SlaveState.INITIAL}),
    SlaveState.INITIAL: frozenset({SlaveState.TRANSITION, SlaveState.NORMAL, SlaveState.INCONSISTENT}),
    SlaveState.TRANSITION: frozenset({SlaveState.NORMAL, SlaveState.INCONSISTENT}),
    SlaveState.NORMAL: frozenset({SlaveState.INITIAL, SlaveState.INCONSISTENT, SlaveState.SWITCHING}),
    SlaveState.INCONSISTENT: frozenset({SlaveState.INITIAL}),
    SlaveState.SWITCHING: frozenset({SlaveState.MASTER, SlaveState.NORMAL}),
    SlaveState.MASTER: frozenset({SlaveState.NORMAL, SlaveState.INCONSISTENT}),
}
"""From each state, where it may go. The initial update moves into INITIAL and TRANSITION, the
apply into NORMAL, a cancelled update or lost changes into INCONSISTENT, a failover into SWITCHING and MASTER; one in
the other direction makes a MASTER NORMAL again, or INCONSISTENT where it must be loaded. The load of a part moves
nothing: its tables have states of their own (`sluice.model.table_state`)."""

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
    """A slave cannot go from `current` to `wanted`."""

    def __init__(self, slave: str, current: SlaveState, wanted: SlaveState):
        remedy = _REMEDY.get((current, wanted))
        allowed = ", ".join(sorted(MOVES[current])) or "nowhere"
        super().__init__(
            f"Slave {slave} is {current} and cannot become {wanted} (only {allowed}). "
            + (remedy or "Look at the slave's last message, or start an initial update.")
        )
        self.slave = slave
        self.current = current
        self.wanted = wanted


def move(slave: str, current: SlaveState, wanted: SlaveState) -> SlaveState:
    """`wanted` when the table of moves allows it. Raises `ForbiddenMove`."""
    if wanted not in MOVES[current]:
        raise ForbiddenMove(slave, current, wanted)
    return wanted
