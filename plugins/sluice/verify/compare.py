"""Compares one table of a master and a slave, both at one position.

1. both databases compute the digests of their blocks, each in one pass over the table;
2. for blocks whose digests differ, both send the digests of the rows, with their keys;
3. of the rows that differ, the first few are read completely, for the report.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import exp, lgamma, log, log1p
from typing import TypeVar

from sluice.database.digests import (
    MOST_BLOCKS,
    ROWS_A_BLOCK,
    Digester,
    Method,
    by_canonical_texts,
    compared,
)
from sluice.database.errors import DatabaseError
from sluice.database.registry import master_of
from sluice.database.rows import Estimate, RowFormat
from sluice.database.translation import Translator
from sluice.executor import Executor
from sluice.model.logical_type import ORDERED_ALIKE
from sluice.model.mask import quoted_text
from sluice.model.names import TableName
from sluice.model.position import Window
from sluice.model.shape import Column, TableShape
from sluice.transform.row_stream import TransformedRows
from sluice.transform.table_transform import TableTransform
from sluice.transform.transforms import Transforms
from sluice.user_function import FunctionMissing, imported, in_one_line
from sluice.verify import offline_compare
from sluice.verify.findings import (
    MOST_KEYS,
    Changes,
    CouldNotCompare,
    Example,
    Kind,
    Outcome,
    Row,
    TableFinding,
    causes,
)
from sluice.verify.pinned_sessions import PinnedView, gathered
from sluice.verify.pinned_side import Side
from sluice.verify.table_reads import (
    Differing,
    Digests,
    InThisProcess,
    TableReads,
    groups_of,
    unequal,
)

# How a table is compared.


@dataclass(frozen=True)
class CompareOptions:
    """`sessions`: how many on each side. `sample`: that many rows drawn at random instead of all; 0 for all."""

    actions: frozenset[str] = frozenset("IUD")
    """Which changes of the table are replicated: INSERT, UPDATE, DELETE."""
    sessions: int = 1
    sample: int = 0
    executors: Callable[[], Executor] | None = None
    """Connects to the executors that read large tables."""


# The master's rows of a transformed table, as the slave should hold them.
#
# They are read at the compared position, transformed as a load transforms them, and put into a temporary table on
# the slave's server. So both sides have their digests from the same server, by the same types, and no excluded
# value leaves this process. It costs a copy of the table's rows over the wire, and their space among the slave's
# temporary files.


@contextmanager
def transformed_master(
    view: PinnedView, transform: TableTransform, slave: TableShape
) -> Iterator[tuple[Side, TableShape]]:
    """A side in place of the master's, and the shape of its table. `slave`: that of the slave's table.

    Raises errors of both databases, `RowNotTransformed`.
    """
    of_master, of_slave = master_of(view.master.info.vendor).rows, view.slave.vendor
    application = f"{view.pair.application} verify"
    master = view.master.first
    with closing(of_slave.sessions.connect(view.slave.info, application=application, autocommit=True)) as session:
        columns = tuple(slave.column(column.name) for column in transform.shape.replicated)
        scratch = of_slave.load_target.create_scratch(session, replace(slave, columns=columns))
        read = transform.master.replicated
        query = of_master.key_order(master, transform.master).select(read, None, None, canonical=True)
        stream = of_master.stream(master, query, RowFormat.CSV)
        rows = TransformedRows(stream, [column.name for column in read], transform)
        with session.transaction():
            of_slave.load_target.write(session, scratch, rows.columns, rows, RowFormat.CSV)
        side = Side(view.slave.info, of_slave, [session], session)
        side.free.put(session)
        yield side, TableShape(scratch, columns)


# A statistical check: rows drawn at random instead of all of them.
#
# Rows are drawn on both sides, each row with the same chance. Those of the master are looked for on the slave,
# which finds missing and different ones; those of the slave on the master, which finds extra ones. With d of n
# wrong, at most the share `upper_bound(n, d)` of all rows is wrong, with a confidence of 95 % (Clopper and
# Pearson).

CONFIDENCE = 0.95


@lru_cache
def upper_bound(checked: int, wrong: int) -> float:
    """The share of wrong rows that is not exceeded, with a confidence of 95 %. 1.0 if nothing was checked.

    The largest share under which as few as `wrong` of `checked` come up with a chance of 5 %.
    """
    if checked == 0 or wrong >= checked:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        share = (low + high) / 2
        if _at_most(checked, wrong, share) > 1 - CONFIDENCE:
            low = share
        else:
            high = share
    return high


def _at_most(checked: int, wrong: int, share: float) -> float:
    """The chance of `wrong` or fewer out of `checked`, each with the chance `share`."""
    if share <= 0.0:
        return 1.0
    if share >= 1.0:
        return 0.0
    return sum(
        exp(lgamma(checked + 1) - lgamma(n + 1) - lgamma(checked - n + 1) + n * log(share)
            + (checked - n) * log1p(-share))
        for n in range(wrong + 1)
    )  # fmt: skip


EXAMPLES = 10
"""Rows of each kind shown in the report."""
LOOKED_AT = 1_000
"""Rows of each kind read completely, to say which columns differ, and whose row a conflict rule takes."""
KEYS_AT_ONCE = 256
"""Rows of a sample that are looked up together."""

T = TypeVar("T")
ReadRow = dict[str, str | None] | None
"""A row: column → text."""


def compare(
    view: PinnedView,
    table: TableName,
    actions: frozenset[str] = frozenset("IUD"),
    sample: int = 0,
    reads: TableReads | None = None,
) -> TableFinding:
    """Compares `table`, of which `actions` are replicated. Raises `CouldNotCompare`.

    `sample`: about how many rows to draw on each side; 0 compares all rows, and so does a table without a key.
    `reads`: reads digests of many rows; None: the sessions of `view` do.
    """
    begun = time.monotonic()
    with ExitStack() as stack:
        comparison = _Comparison(view, table, stack, reads)
        comparison.run(sample)
    finding = comparison.finding
    for kind, why in causes(actions, keyed=bool(finding.key)).items():
        finding.found[kind].cause = why if finding.found[kind].count else ""
    finding.outcome = Outcome.DIFFERENT if finding.faults else Outcome.IDENTICAL
    finding.position, finding.time = view.position.text(), view.position.time
    finding.paused, finding.seconds = view.paused, time.monotonic() - begun
    return finding


class _Comparison:
    def __init__(self, view: PinnedView, table: TableName, stack: ExitStack, reads: TableReads | None):
        self.view = view
        self._given = reads
        self._stack = stack
        self.finding = TableFinding(table)
        self.sides = (view.master, view.slave)
        """Master and slave; for a transformed table, the transformed rows instead of the master's."""
        self.canonical = by_canonical_texts(view.master.info.vendor, view.slave.info.vendor)
        self.before: dict[Row, offline_compare.Image | None] = {}
        """Key → the master's row before the changes that wait for the apply, see `offline_compare`."""

    @property
    def reads(self) -> TableReads:
        return self._given or InThisProcess(self.view, self.sides)

    def run(self, sample: int) -> None:
        digests = self._prepare()
        finding = self.finding
        if self.view.seen is not None:
            self._take_back(digests)
        if sample and finding.key:
            self._sampled(digests, sample)
            return
        for unequal_rows in self.reads.unequal(digests, self._unequal_blocks(digests), self.before):
            finding.traveled += unequal_rows.traveled
            for kind, row, copies in self._faults(digests, unequal_rows.rows):
                self._keep(kind, row, copies)
                if not finding.key:
                    self._show_copies(kind, row, copies)
        for start in range(0, len(self.before), LOOKED_AT):
            self._compare_with_former(digests, [*self.before][start : start + LOOKED_AT])
        if finding.key:
            self._read_examples(digests)

    def _unequal_blocks(self, digests: Digests) -> list[list[int]]:
        """The blocks with different digests, in order, grouped as they are read together."""
        finding = self.finding
        parts = [self.view.ask(digest.parts, side.first) for side, digest in zip(self.sides, digests, strict=True)]
        master, slave = self.reads.blocks(digests, parts)
        finding.rows_master = sum(count for count, _ in master.values())
        finding.rows_slave = sum(count for count, _ in slave.values())
        finding.blocks = len(master.keys() | slave.keys())
        finding.traveled += len(master) + len(slave)
        wrong = sorted(unequal(master, slave))
        finding.blocks_different = len(wrong)

        def rows(block: int) -> int:
            return max(side[block][0] for side in (master, slave) if block in side)

        return groups_of(wrong, rows, ranges=bool(digests[0].bounds))

    def _take_back(self, digests: Digests) -> None:
        """Fills `before`: the rows that changed since the slave's position, as they were at it."""
        view, finding, digest = self.view, self.finding, digests[0]
        assert view.seen is not None
        seen = view.seen
        items = self.view.ask(
            lambda _: offline_compare.waiting(view.pair, view.master, Window(view.position, seen), finding.table),
            view.master.first,
        )
        finding.waiting = len(items)
        if items and not finding.key:
            why = "changes of the table, which has no key, wait for it"
            raise offline_compare.ChangesWait(why, again=view.pair.beside_whole_log)
        for column in digest.columns if items else ():
            name = column.name
            if self.canonical or digest.shape.column(name).type != column.type:
                rows = [row for _, *both in items for row in both if row is not None]
                converted = partial(digest.converted, name=name, texts=[row[name] for row in rows])
                for row, text in zip(rows, self.view.ask(converted, view.master.first), strict=True):
                    row[name] = text
        self.before = offline_compare.before(items, finding.key)

    def _compare_with_former(self, digests: Digests, keys: Sequence[Row]) -> None:
        """Compares the slave's rows with the master's before the waiting changes."""
        for key, present_row, slave_row in self._rows(digests, keys):
            master_row = self._former_row(key)
            self.finding.rows_master += (master_row is not None) - (present_row is not None)
            if master_row != slave_row and not self._accepted(master_row, slave_row):
                self._keep(_kind(master_row, slave_row), key)

    def _former_row(self, key: Row) -> ReadRow:
        row = self.before[key]
        return None if row is None else {name: row[name] for name in self.finding.compared}

    def _prepare(self) -> Digests:
        """The digests of both sides. Locks the tables, only against changes of their definitions."""
        table, finding = self.finding.table, self.finding
        shapes = []
        for side in self.sides:
            shape = self.view.ask(partial(side.vendor.rows.shape, table=table), side.first)
            if shape is None:
                raise CouldNotCompare(f"{side.info.server}: there is no table {table}.")
            for session in side.sessions:
                self.view.ask(partial(self._digester(side).hold, table=shape), session)
            if not self.view.ask(partial(side.vendor.rows.whole, table=table), side.first):
                raise CouldNotCompare(
                    f"{side.info.server}: {table} was emptied, rewritten or replaced meanwhile.", again=True
                )
            shapes.append(shape)
        master, slave = shapes
        on_slave = self.view.pair.placement.places([table])
        finding.place = "".join(map(str, on_slave.values()))
        transforms = Transforms(self.view.pair.replication, self.view.pair.slave)
        transform = self.view.ask(partial(transforms.of, master), self.view.master.first)
        if unfit := self._unfit(master if transform is None else transform.shape, slave):
            raise CouldNotCompare(f"{table} cannot hold on the slave what it holds on the master: {'; '.join(unfit)}.")
        if transform is not None:
            master = self._transformed(transform, slave)
        types = self.view.slave.vendor.types
        columns = compared(types, ((name, slave.column(name).type) for name in _compared(master, slave)))
        finding.key = tuple(column.name for column in master.key)
        finding.compared = tuple(column.name for column in columns)
        finding.types = tuple(column.type for column in columns)
        method, finding.fell_back = self._method()
        finding.method = str(method)
        bounds, classes = self._blocks(master, slave)
        of_master, of_slave = (
            self._digester(side).table(shape, columns, finding.key, method, bounds, classes)
            for side, shape in zip(self.sides, (master, slave), strict=True)
        )
        return of_master, of_slave

    def _transformed(self, transform: TableTransform, slave: TableShape) -> TableShape:
        """Replaces the master's side by the transformed rows. Returns their shape."""
        view, finding = self.view, self.finding
        if view.seen is not None:
            raise CouldNotCompare(
                f"The apply does not run, and {finding.table} has `where`, `columns` or `exit`: such a table is "
                "compared while it runs. Start the DAG cdc_apply, or fix what it stopped at."
            )
        finding.transformed = transform.rule.text
        try:
            side, shape = self._stack.enter_context(transformed_master(view, transform, slave))
        except DatabaseError as error:
            raise view.failure(error) from error
        self.sides = (side, view.slave)
        return shape

    def _unfit(self, master: TableShape, slave: TableShape) -> list[str]:
        """Why the slave cannot have the master's rows; empty if it can."""
        master_side, slave_side = self.sides
        of_master = master_of(master_side.info.vendor)
        translator = Translator(of_master, slave_side.vendor, master_side.first, slave_side.first)
        lossy = self.view.pair.slave.lossy_columns
        return self.view.ask(lambda _: translator.differences(master, slave, lossy), master_side.first)

    def _method(self) -> tuple[Method, str]:
        """How digests are computed, and why not by the fast method; "" if they are."""
        if self.canonical:
            return Method.CANONICAL, ""
        encodings = [self.view.ask(self._digester(side).encoding, side.first) for side in self.sides]
        if len(set(encodings)) > 1:
            reason = "the databases keep texts in different encodings, " + " and ".join(encodings)
        else:
            of_master, of_slave = (self._probe(side, Method.HASH) for side in self.sides)
            if of_master is not None and of_master == of_slave:
                return Method.HASH, ""
            reason = "the servers' own 64-bit hashes differ (another architecture or release)"
        of_master, of_slave = (self._probe(side, Method.MD5) for side in self.sides)
        if of_master != of_slave:
            raise CouldNotCompare("Master and slave do not make the same MD5 of the same text.")
        return Method.MD5, reason

    def _blocks(self, master: TableShape, slave: TableShape) -> tuple[tuple[str, ...], int]:
        """The bounds of blocks in the key's first column; without bounds, the number of hash classes."""
        side = self.sides[0]
        rows = rows_about(self.view, self.finding.table)
        first = master.key[0] if master.key else None
        if first and self._ordered_alike(first, slave.column(first.name)):
            bounds = tuple(self.view.ask(partial(self._digester(side).bounds, shape=master, rows=rows), side.first))
            if len(bounds) >= rows // ROWS_A_BLOCK // 4 or len(bounds) >= MOST_BLOCKS // 4:
                return bounds, 1
        classes = 1
        while classes < MOST_BLOCKS and classes * ROWS_A_BLOCK < rows:
            classes *= 2
        return (), classes

    def _ordered_alike(self, master: Column, slave: Column) -> bool:
        """Whether both sides order the values of the key's first column alike."""
        both = list(zip(self.sides, (master, slave), strict=True))
        if not all(self._digester(side).ranged(column.type) for side, column in both):
            return False
        if not self.canonical:
            return master.type == slave.type
        master_kind, slave_kind = (side.vendor.types.logical(column.type).kind for side, column in both)
        return master_kind is slave_kind and master_kind in ORDERED_ALIKE

    def _sampled(self, digests: Digests, count: int) -> None:
        """Draws rows on each side, and looks them up on the other."""
        finding = self.finding
        checked, wrong = [], []
        for side, digest in zip(self.sides, digests, strict=True):
            estimate = estimated(
                self.view, self.view.slave if side is self.view.slave else self.view.master, finding.table
            )
            rows = count if estimate is None or estimate.rows is None else estimate.rows
            keys = self.view.ask(partial(digest.drawn, rows=rows, count=count), side.first)
            before = sum(rows.count for rows in finding.found.values())
            for start in range(0, len(keys), KEYS_AT_ONCE):
                self._drawn(digests, keys[start : start + KEYS_AT_ONCE], side is self.sides[0])
            checked.append(len(keys))
            wrong.append(sum(rows.count for rows in finding.found.values()) - before)
        finding.rows_master, finding.rows_slave = checked
        finding.sampled, finding.upper_bound = min(checked), max(map(upper_bound, checked, wrong))
        self._read_examples(digests)

    def _drawn(self, digests: Digests, keys: Sequence[Row], of_master: bool) -> None:
        """Compares drawn rows; of those drawn on the slave, only whether the master has them."""
        self.finding.traveled += 2 * len(keys)
        for key, present_row, slave_row in self._rows(digests, keys):
            master_row = self._former_row(key) if key in self.before else present_row
            if not of_master:
                if master_row is None and not self._accepted(None, slave_row):
                    self._keep(Kind.EXTRA, key)
            elif master_row != slave_row and not self._accepted(master_row, slave_row):
                self._keep(_kind(master_row, slave_row), key)

    def _faults(self, digests: Digests, rows: Sequence[Differing]) -> Iterator[Differing]:
        """The rows that `verify.accept` does not accept. It is asked about all, so all are read."""
        if self.view.pair.replication.verify.accept is None:
            yield from rows
        elif not self.finding.key:
            for kind, row, copies in rows:
                if not self._accepted(*self._of_copies(kind, row), copies):
                    yield kind, row, copies
        else:
            for start in range(0, len(rows), LOOKED_AT):
                part = {key: (kind, key, copies) for kind, key, copies in rows[start : start + LOOKED_AT]}
                for key, master_row, slave_row in self._rows(digests, [*part]):
                    if not self._accepted(master_row, slave_row):
                        yield part[key]

    def _accepted(self, master_row: ReadRow, slave_row: ReadRow, copies: int = 1) -> bool:
        """Whether the user's function accepts that these two differ; counts them then. Raises `CouldNotCompare`."""
        name = self.view.pair.replication.verify.accept
        if name is None:
            return False
        rows = (None if row is None else dict(row) for row in (master_row, slave_row))
        try:
            answer = imported(name)(str(self.finding.table), *rows)
        except FunctionMissing as missing:
            raise CouldNotCompare(f"verify.accept: {missing}") from missing
        except (Exception, SystemExit) as error:
            raise CouldNotCompare(f"verify.accept: {name} fails: {quoted_text(in_one_line(error))}") from error
        if not isinstance(answer, bool):
            raise CouldNotCompare(f"verify.accept: {name} returns {type(answer).__name__}, and neither True nor False")
        self.finding.accepted += copies * answer
        return answer

    def _keep(self, kind: Kind, row: Row, copies: int = 1) -> None:
        """`row`: its key; without a key, the whole row."""
        rows = self.finding.found[kind]
        rows.count += copies
        if len(rows.keys) < MOST_KEYS:
            rows.keys.append(row)

    def _of_copies(self, kind: Kind, row: Row) -> tuple[ReadRow, ReadRow]:
        values = dict(zip(self.finding.compared, row, strict=True))
        return (values, None) if kind is Kind.MISSING else (None, values)

    def _show_copies(self, kind: Kind, row: Row, copies: int) -> None:
        self._show(Example(kind, {}, *self._of_copies(kind, row), copies))

    def _read_examples(self, digests: Digests) -> None:
        """Reads some of the rows that differ, and counts in which columns they do."""
        finding = self.finding
        rule = self.view.pair.slave.conflict_rule(finding.table)
        finding.rule = "" if rule is None else str(rule)
        for kind in Kind:
            keys = finding.found[kind].keys[: LOOKED_AT if kind is Kind.DIFFERENT or rule is not None else EXAMPLES]
            if not keys:
                continue
            for key, present_row, slave_row in self._rows(digests, keys):
                master_row = self._former_row(key) if key in self.before else present_row
                if master_row is not None and slave_row is not None:
                    finding.looked_at += 1
                    for name in master_row:
                        if master_row[name] != slave_row[name]:
                            finding.columns[name] = finding.columns.get(name, 0) + 1
                changes = None if rule is None else Changes.by(rule, master_row, slave_row)
                if changes is not None:
                    finding.proposed[changes] = finding.proposed.get(changes, 0) + 1
                named = dict(zip(finding.key, key, strict=True))
                self._show(Example(kind, named, master_row, slave_row, changes=changes))

    def _show(self, example: Example) -> None:
        examples = self.finding.examples
        if sum(shown.kind is example.kind for shown in examples) < EXAMPLES:
            examples.append(example)

    # -- reading

    def _rows(self, digests: Digests, keys: Sequence[Row]) -> Iterator[tuple[Row, ReadRow, ReadRow]]:
        """Each key with the master's row and the slave's, or None."""
        both = [
            self.view.run(side, partial(digest.rows_of_keys, keys=keys))
            for side, digest in zip(self.sides, digests, strict=True)
        ]
        for (key, master_row), (_, slave_row) in zip(*gathered(both), strict=True):
            yield key, master_row, slave_row

    def _digester(self, side: Side) -> Digester:
        return side.vendor.digests

    def _probe(self, side: Side, method: Method) -> list[int] | None:
        return self.view.ask(partial(self._digester(side).probe, method=method), side.first)


def _kind(master_row: ReadRow, slave_row: ReadRow) -> Kind:
    return Kind.MISSING if slave_row is None else Kind.EXTRA if master_row is None else Kind.DIFFERENT


def estimated(view: PinnedView, side: Side, table: TableName) -> Estimate | None:
    """The size of the table by its database's statistics."""
    return view.ask(partial(side.vendor.rows.estimates, tables=[table]), side.first).get(table)


def rows_about(view: PinnedView, table: TableName) -> int:
    """About how many rows the master has; without statistics, how many small rows fit into the table's size."""
    estimate = estimated(view, view.master, table)
    if estimate is None:
        return 0
    return estimate.rows if estimate.rows is not None else estimate.bytes // 64


def _compared(master: TableShape, slave: TableShape) -> list[str]:
    """The columns to compare: the replicated ones, and those that both sides compute, perhaps not alike."""
    computed = {column.name for column in slave.columns if column.generated}
    return [column.name for column in master.columns if not column.generated or column.name in computed]
