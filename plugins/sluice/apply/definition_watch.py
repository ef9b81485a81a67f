"""Detects, from time to time, changed definitions on the master that no item reports, and starts a round for them."""

import logging
import time

from sluice.apply.definition_follower import DefinitionFollower
from sluice.apply.pair_sessions import PairSessions
from sluice.counted import counted, listed
from sluice.model.checkpoint import Checkpoint
from sluice.model.comparison_trigger import ComparisonTrigger
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableStates

log = logging.getLogger("sluice.apply")

LOOK_SECONDS, LOOK_SHARE, LONGEST_SECONDS = 2.0, 200.0, 30.0
"""The pause between two digests of the definitions: at least this long, this many times as long as one takes, at most
this long. So a change is found within a minute."""


COMPARE_SECONDS, COMPARE_SHARE, COMPARE_WITHIN_SECONDS = 1.0, 20.0, 30.0
"""The pause between two comparisons of definitions: at least this long, this many times as long as one takes, at most
this long. So a change is found within a minute, also on a busy master."""
COMPARE_WITH_TRIGGERS_SECONDS = 30.0
"""The shortest pause where event triggers report DDL; they may miss some."""


class DefinitionWatch:
    """Watches the definitions for one apply, in its thread."""

    def __init__(self, sessions: PairSessions, follower: DefinitionFollower):
        self.sessions = sessions
        self.follower = follower
        self._trigger = ComparisonTrigger()
        self._digest = ""
        self._next_check = 0.0
        self._has_ddl_triggers = True
        self._next_comparison = self._next_look = 0.0
        self._followed: tuple[str, TableStates] | None = None
        """The digest and the table states of the follower's last round."""
        self._loading = False
        """Whether the slave was loading since that round."""

    def begin(self) -> None:
        """Learns whether the master reports DDL. To be called when the apply has taken over."""
        self._has_ddl_triggers = self.sessions.queue.reports_definitions()

    @property
    def compared(self) -> bool:
        """Whether definitions were compared since the process began."""
        return self._next_comparison > 0

    def compare(self) -> None:
        """From time to time compares definitions.

        That finds DDL which no event trigger reported, and renews the capture functions of tables whose DDL was.
        """
        started = time.monotonic()
        if started < self._next_comparison and not self._waits(started):
            return
        changed = self.sessions.queue.compare_definitions()
        ended = time.monotonic()
        self._next_look = ended + COMPARE_SECONDS
        # At the beginning a table may have waited for this comparison.
        self._has_ddl_triggers = self._has_ddl_triggers or self.sessions.queue.reports_definitions()
        least = COMPARE_WITH_TRIGGERS_SECONDS if self._has_ddl_triggers else COMPARE_SECONDS
        self._next_comparison = ended + max(least, min(COMPARE_SHARE * (ended - started), COMPARE_WITHIN_SECONDS))
        if changed:
            found = counted(len(changed), "changed definition")
            log.info("%s: found on the master by comparison: %s: %s", self.sessions.pair, found, listed(changed))

    def _waits(self, now: float) -> bool:
        """Whether event triggers have left work to a comparison; asks once a second."""
        if not self._has_ddl_triggers or now < self._next_look:
            return False
        self._next_look = now + COMPARE_SECONDS
        return not self.sessions.queue.reports_definitions()

    def check_follower(self) -> None:
        """Notes that the follower has altered tables of the slave. Raises what stops the apply."""
        if self.follower.check():
            self.sessions.merger.targets.forget()

    def check(self, checkpoint: Checkpoint, differing: object) -> bool:
        """Starts a round of the follower where definitions may have changed. Returns whether people should be told.

        `differing`: tables that are known to differ.
        """
        now = time.monotonic()
        if now >= self._next_check:
            self._digest = self.sessions.queue.definitions_digest()
            started, now = now, time.monotonic()
            pause = max(LOOK_SECONDS, LOOK_SHARE * (now - started))
            self._next_check = now + min(pause, LONGEST_SECONDS)
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
