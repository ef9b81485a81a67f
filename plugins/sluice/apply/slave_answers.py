"""Answers queries that a person asked of all slaves at one position (`sluice.model.broadcast`).

A window ends at the position of the query, and the slave answers before the next window begins: nobody else writes to
it. Where the apply is killed before the answer is written, the next apply answers, at the same position.
"""

import logging

from sluice.apply.pair_sessions import PairSessions
from sluice.counted import counted
from sluice.database.broadcasts import Broadcasts, Waiting
from sluice.database.placed import vendor_at
from sluice.database.registry import has_rows, master_of
from sluice.database.session import SessionOptions
from sluice.errors import SluiceError
from sluice.model.broadcast import MOST_ROWS, Answer
from sluice.model.position import Position
from sluice.model.window import Window

log = logging.getLogger("sluice.apply")

PASSED = "the slave had passed the place of this query when it saw it: it was loaded or set back meanwhile. Ask again"


class SlaveAnswers:
    """Answers for one pair, over the apply's sessions, between windows."""

    def __init__(self, sessions: PairSessions):
        self.sessions = sessions
        self.pair = sessions.pair
        self._offered = False
        self._none_at: Position | None = None
        """The position at which there was no query. A query is committed, which changes the master's position."""

    def begin(self) -> None:
        """Learns whether the master has queries at all. To be called when the apply has taken over."""
        self._none_at, broadcasts = None, self._broadcasts()
        self._offered = broadcasts is not None and broadcasts.offered()

    def _broadcasts(self) -> Broadcasts | None:
        pair = self.pair
        if not has_rows(pair.master_info.vendor):
            return None
        vendor, schema = master_of(pair.master_info.vendor), pair.replication.master.schema
        return vendor.broadcasts(self.sessions.master, pair.prefix, schema)

    def window_end(self, seen: Position, target: Position, *, exact: bool) -> Position:
        """Answers the queries at `seen`. Returns where the next window ends: at `target`, or earlier, at a query.

        The slave is NORMAL and at `seen`, or possibly later where that is not `exact`. `target` was taken just now.
        Raises `Transient` for outages of the master; an error of a query is its answer.
        """
        if not self._offered or target == self._none_at:
            return target
        pair, broadcasts = self.pair, self._broadcasts()
        assert broadcasts is not None, "offered"
        # Read after the target was taken: a query that is not visible yet was asked after it.
        while (waiting := broadcasts.next_for(pair.slave.name, seen)) is not None:
            if not seen.covers_all_of(waiting.position):
                return waiting.position
            at_query = exact and self._is_at(seen, waiting.position)
            answer = self._answer(waiting) if at_query else Answer(error=PASSED)
            broadcasts.answer(waiting.id, pair.slave.name, answer)
            log.info("%s: query %d: %s", pair, waiting.id, answer.error or counted(answer.count, "row"))
        self._none_at = target
        return target

    def _is_at(self, seen: Position, position: Position) -> bool:
        """Whether no change lies between `position` and the slave's position `seen`."""
        if seen == position or seen.high == position.high:
            return True
        return self.sessions.reader.survey(Window(position, seen), limit=1).changes == 0

    def _answer(self, waiting: Waiting) -> Answer:
        pair, vendor = self.pair, vendor_at(self.pair)
        options = SessionOptions(statement_seconds=waiting.seconds, read_only=True)
        try:
            with vendor.sessions.connect(
                pair.slave_info, application=f"{pair.application} query", autocommit=True, options=options
            ) as session:
                columns, rows = vendor.queries.run(session, waiting.statement, MOST_ROWS)
        except SluiceError as error:
            return Answer.failed(error, hidden=bool(pair.replication.verify.mask))
        return Answer.of(columns, rows, waiting.shown)
