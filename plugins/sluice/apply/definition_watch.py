"""Detects, from time to time, changed definitions on the master that no item reports, and starts a round for them."""

import time

from sluice.apply.definition_follower import DefinitionFollower
from sluice.apply.pair_sessions import PairSessions
from sluice.model.checkpoint import Checkpoint
from sluice.model.comparison_trigger import ComparisonTrigger
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableStates

LOOK_SECONDS, LOOK_SHARE, LONGEST_SECONDS = 2.0, 200.0, 30.0
"""The pause between two digests of the definitions: at least this long, this many times as long as one takes, at most
this long. So a change is found within a minute."""


class DefinitionWatch:
    """Watches the definitions for one apply, in its thread."""

    def __init__(self, sessions: PairSessions, follower: DefinitionFollower):
        self.sessions = sessions
        self.follower = follower
        self._trigger = ComparisonTrigger()
        self._digest = ""
        self._next_check = 0.0
        self._followed: tuple[str, TableStates] | None = None
        """The digest and the table states of the follower's last round."""
        self._loading = False
        """Whether the slave was loading since that round."""

    def check(self, checkpoint: Checkpoint, differing: object) -> bool:
        """Starts a round of the follower where definitions may have changed. Returns whether people should be told.

        `differing`: tables that are known to differ. Raises what stops the apply.
        """
        now = time.monotonic()
        if now >= self._next_check:
            self._digest = self.sessions.definitions_digest()
            started, now = now, time.monotonic()
            pause = max(LOOK_SECONDS, LOOK_SHARE * (now - started))
            self._next_check = now + min(pause, LONGEST_SECONDS)
        if self.follower.check():
            self.sessions.merger.targets.forget()
        self._follow(checkpoint)
        # What the follower does needs no person.
        return not self.follower.busy and self._trigger.asks((self._digest, differing, checkpoint.tables), now)

    def _follow(self, checkpoint: Checkpoint) -> None:
        if checkpoint.state is not SlaveState.NORMAL:
            self._loading, self._followed = True, None
            return
        present = self._digest, checkpoint.tables
        if present != self._followed:
            joined = self._followed is not None and self._followed[1] != checkpoint.tables
            self.follower.make_round(checkpoint.tables, loaded=self._loading or joined)
            self._loading, self._followed = False, present
