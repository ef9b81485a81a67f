"""The shapes of the writer's transactions: how operations are grouped, and how the group ends."""

from collections.abc import Callable
from dataclasses import dataclass

from devstack.demo import operations
from devstack.demo.session import Session


@dataclass(frozen=True)
class Outcome:
    """Row changes that were committed, and those that were rolled back on purpose."""

    committed: int = 0
    rolled_back: int = 0


Transaction = Callable[[Session], Outcome]


def single(session: Session) -> Outcome:
    """One operation."""
    session.execute("BEGIN")
    changes = operations.draw(session)(session)
    session.execute("COMMIT")
    return Outcome(changes)


def several(session: Session) -> Outcome:
    """Several tables together."""
    session.execute("BEGIN")
    changes = _some(session, 2, 6)
    session.execute("COMMIT")
    return Outcome(changes)


def rolled_back(session: Session) -> Outcome:
    """Work that never happened."""
    session.execute("BEGIN")
    changes = _some(session, 1, 4)
    session.execute("ROLLBACK")
    return Outcome(0, changes)


def savepoints(session: Session) -> Outcome:
    """Parts that are undone, nested, inside a transaction that commits."""
    session.execute("BEGIN")
    kept, lost = _some(session, 1, 2), 0
    session.execute("SAVEPOINT one")
    lost += _some(session, 1, 2)
    session.execute("SAVEPOINT two")
    lost += _some(session, 1, 2)
    session.execute(session.random.choice(("RELEASE SAVEPOINT two", "ROLLBACK TO SAVEPOINT two")))
    session.execute("ROLLBACK TO SAVEPOINT one")
    kept += _some(session, 1, 2)
    session.execute("SAVEPOINT three")
    kept += _some(session, 1, 2)
    session.execute("RELEASE SAVEPOINT three")
    session.execute("COMMIT")
    return Outcome(kept, lost)


def late(session: Session) -> Outcome:
    """Draws its keys now and commits seconds later, when many others have committed."""
    session.execute("BEGIN")
    changes = _some(session, 1, 4)
    session.stop.wait(session.random.uniform(0.5, 5.0))
    changes += _some(session, 0, 2)
    if session.random.random() < 0.2:
        session.execute("ROLLBACK")
        return Outcome(0, changes)
    session.execute("COMMIT")
    return Outcome(changes)


def two_phase(session: Session) -> Outcome:
    """Prepared, later committed or rolled back; an ordinary late one where the master has it disabled."""
    session.execute("BEGIN")
    changes = _some(session, 1, 4)
    if not session.two_phase:
        session.execute("COMMIT")
        return Outcome(changes)
    name = session.prepared_name()
    session.execute(f"PREPARE TRANSACTION '{name}'")
    session.stop.wait(session.random.uniform(0.1, 2.0))
    if session.random.random() < 0.3:
        session.execute(f"ROLLBACK PREPARED '{name}'")
        return Outcome(0, changes)
    session.execute(f"COMMIT PREPARED '{name}'")
    return Outcome(changes)


def truncating(session: Session) -> Outcome:
    session.execute("BEGIN")
    changes = operations.scratch_truncate(session)
    if session.random.random() < 0.2:
        session.execute("ROLLBACK")
        return Outcome(0, changes)
    session.execute("COMMIT")
    return Outcome(changes)


def altering(session: Session) -> Outcome:
    session.execute("BEGIN")
    changes = operations.growing_column(session)
    session.execute("COMMIT")
    return Outcome(changes)


@dataclass(frozen=True)
class Role:
    """What one session does: transactions with their weights, and seconds of rest between two of them."""

    name: str
    transactions: tuple[tuple[Transaction, int], ...]
    rest: tuple[float, float] = (0.0, 0.0)

    def draw(self, session: Session) -> Transaction:
        return session.random.choices(
            [entry for entry, _ in self.transactions], [weight for _, weight in self.transactions]
        )[0]


QUICK = Role("quick", ((single, 10), (several, 5), (rolled_back, 2), (savepoints, 2)))
SLOW = Role("slow", ((late, 3), (two_phase, 2)), rest=(0.0, 0.5))
SHAPES = Role("shapes", ((truncating, 2), (altering, 1)), rest=(2.0, 6.0))
ROLES = (QUICK, QUICK, SLOW, SLOW, SHAPES)


def _some(session: Session, least: int, most: int) -> int:
    return sum(operations.draw(session)(session) for _ in range(session.random.randint(least, most)))
