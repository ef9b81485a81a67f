"""Compares observations with the history. Each finding is a sentence; no finding means success."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from tests.scenarios.faults.audit import Commit, Point
from tests.scenarios.faults.reader import Look

History = Mapping[int, Sequence[int]]
"""Of each writer, the transaction IDs of its committed transactions, in their order."""
Spans = Mapping[int, Mapping[int, tuple[float, float]]]
"""Of each writer and number of a transaction, when it began and when it was confirmed (forever: infinity)."""


def of_history(history: Iterable[tuple[int, int, int]]) -> dict[int, list[int]]:
    """From lines (writer, n, xid) of the master's log in the order of writer and n. Raises `ValueError` for gaps."""
    found: dict[int, list[int]] = {}
    for writer, n, xid in history:
        xids = found.setdefault(writer, [])
        if n != len(xids) + 1:
            raise ValueError(f"the master's log has line {n} of writer {writer} after line {len(xids)}")
        xids.append(xid)
    return found


def covered(history: History, position: SnapshotPosition) -> dict[int, int]:
    """The number of transactions of each writer that a position covers: always its first ones."""
    return {writer: sum(position.covers(xid) for xid in xids) for writer, xids in history.items()}


def of_looks(looks: Sequence[Look], history: History, *, lags: bool = False) -> list[str]:
    """Each look must show a state that the master had, and the one of its checkpoint.

    `lags`: the checkpoint may be older; then the state must be no older.
    """
    findings = []
    for look in looks:
        expected = {writer: count for writer, count in covered(history, look.position).items() if count}
        seen = {writer: count for writer, (count, last) in look.progress.items()}
        for writer, (count, last) in look.progress.items():
            if count != last:
                findings.append(f"a reader saw {count} transactions of writer {writer}, the last of them number {last}")
        if lags:
            expected = {writer: max(count, seen.get(writer, 0)) for writer, count in expected.items()} | {
                writer: count for writer, count in seen.items() if writer not in expected
            }
        if seen != expected:
            off = {
                writer: (seen.get(writer, 0), expected.get(writer, 0))
                for writer in {*seen, *expected}
                if seen.get(writer, 0) != expected.get(writer, 0)
            }
            findings.append(
                f"a reader saw, with the checkpoint at {look.position.snapshot}, other transactions than it covers;"
                f" writer: (seen, covered): {off}"
            )
        if look.imbalance:
            findings.append(
                f"a reader saw, with the checkpoint at {look.position.snapshot}, tables that do not add up to the"
                f" log; table: (rows, hashes) too many: {look.imbalance}"
            )
    return findings


def of_commits(commits: Iterable[Commit], start: Point, history: History) -> list[str]:
    """Each transaction of the slave must bring exactly what lies between two checkpoints, under one epoch.

    One that cannot be decoded is taken to have brought what is missing otherwise at the next checkpoint. Whether its
    rows are right is seen by comparing the tables.
    """
    findings = []
    before, whole = start, start.position
    gap = False
    at_start = covered(history, start.position)
    arrived: Counter[int] = Counter(at_start)
    lines: Counter[tuple[int, int]] = Counter()
    versions: dict[tuple[str, int], int] = {}
    for commit in commits:
        if commit.unreadable:
            gap = True
            continue
        here = f"transaction {commit.xid} of the slave"
        after = commit.point
        if commit.touched:
            findings.append(f"{here} changed {len(commit.touched)} lines of the log that were there")
        if after is None:
            if commit.rows:
                findings.append(f"{here} wrote {commit.rows} rows without a checkpoint")
            after = before
        if after.epoch < before.epoch:
            findings.append(f"{here} has epoch {after.epoch}, after one with epoch {before.epoch}: two applies wrote")
        if not after.position.covers_all_of(before.position):
            findings.append(f"{here} moved the checkpoint back to {after.position.snapshot}")
        if commit.rows and after == before:
            findings.append(f"{here} wrote {commit.rows} rows and left the checkpoint where it was")
        for line in commit.logged:
            lines[line] += 1
            arrived[line[0]] += 1
            if lines[line] == 2:
                findings.append(f"{here} brought transaction {line[1]} of writer {line[0]} for the second time")
        for version in commit.versions:
            if version in versions:
                findings.append(f"{here} wrote version {version[1]} of {version[0]}, as {versions[version]} had done")
            versions[version] = commit.xid
        if after.target is None and (after.position != whole or commit.rows):
            expected = covered(history, after.position)
            if gap:
                unseen = _unseen(lines, at_start, expected)
                lines.update(unseen)
                arrived.update(writer for writer, _ in unseen)
                gap = False
            if +arrived != +Counter(expected):
                off = {w: (arrived[w], n) for w, n in expected.items() if arrived[w] != n}
                findings.append(
                    f"{here} moved the checkpoint to {after.position.snapshot}; writer: (transactions that had arrived"
                    f" by then, covered): {off}"
                )
                arrived = Counter(expected)
            whole = after.position
        before = after
    return findings


def of_repeats(commits: Iterable[Commit], start: Point, history: History) -> list[str]:
    """The same where changes come again by design, after each start of an apply and never else.

    The checkpoint on the slave is behind the data there, or exactly where the data is when it moves with it.
    """
    findings = []
    before = start
    arrived: Counter[int] = Counter(covered(history, start.position))
    seen: set[tuple[int, int]] = set()
    """Lines that came under the present epoch."""
    gap = False
    for commit in commits:
        if commit.unreadable:
            gap = True
            continue
        here = f"transaction {commit.xid} of the slave"
        after = commit.point
        if after is None:
            if commit.rows:
                findings.append(f"{here} wrote {commit.rows} rows without a checkpoint")
            after = before
        if after.epoch < before.epoch:
            findings.append(f"{here} has epoch {after.epoch}, after one with epoch {before.epoch}: two applies wrote")
        elif after.epoch > before.epoch:
            seen.clear()
        if not after.position.covers_all_of(before.position):
            findings.append(f"{here} moved the checkpoint back to {after.position.snapshot}")
        for writer, n in sorted({*commit.logged, *commit.touched}):
            if (writer, n) in seen:
                findings.append(f"{here} brought transaction {n} of writer {writer} for the second time in an epoch")
            seen.add((writer, n))
            if n > arrived[writer] + 1 and not gap:
                findings.append(f"{here} brought transaction {n} of writer {writer} after number {arrived[writer]}")
            arrived[writer] = max(arrived[writer], n)
        expected = covered(history, after.position)
        if gap:
            arrived |= Counter(expected)
            gap = False
        exact = bool(commit.rows) and after.position != before.position and after.target is None
        off = {
            writer: (arrived[writer], n)
            for writer, n in expected.items()
            if arrived[writer] < n or (exact and arrived[writer] != n)
        }
        if off and after.target is None:
            findings.append(
                f"{here} moved the checkpoint to {after.position.snapshot}; writer: (transactions that had arrived by"
                f" then, covered): {off}"
            )
        before = after
    return findings


def _unseen(
    lines: Iterable[tuple[int, int]], at_start: Mapping[int, int], covered: Mapping[int, int]
) -> list[tuple[int, int]]:
    """Lines that a position covers although no transaction is known to have brought them since the start."""
    known = set(lines)
    numbers = ((writer, n) for writer, last in covered.items() for n in range(at_start.get(writer, 0) + 1, last + 1))
    return [line for line in numbers if line not in known]


def repeats(commits: Iterable[Commit]) -> int:
    """The number of lines of the log that came again."""
    found: Counter[tuple[int, int]] = Counter()
    for commit in commits:
        found.update({*commit.logged, *commit.touched})
    return sum(found.values()) - len(found)


def of_order(looks: Sequence[Look], spans: Spans) -> list[str]:
    """No look may lack a transaction that had ended before another began that the look shows."""
    findings = []
    for look in looks:
        present = [(spans[writer][last][0], writer, last) for writer, (_, last) in look.progress.items() if last]
        if not present:
            continue
        began, late, number = max(present)
        for writer, lines in spans.items():
            missing = look.progress.get(writer, (0, 0))[1] + 1
            if missing in lines and lines[missing][1] < began:
                findings.append(
                    f"a reader saw transaction {number} of writer {late} without number {missing} of writer {writer},"
                    " which had been confirmed before the former began"
                )
    return findings


def of_acknowledged(acknowledged: Mapping[int, Iterable[tuple[int, int]]], history: History) -> list[str]:
    """The master must have kept what it confirmed; otherwise the history is worthless."""
    return [
        f"the master lost transaction {n} of writer {writer}, which it had confirmed"
        for writer, pairs in acknowledged.items()
        for n, xid in pairs
        if len(history.get(writer, ())) < n or history[writer][n - 1] != xid
    ]
