"""Foreign keys and constraints of the slave: what acts there, the order of a cascade, what the master has dropped.

The check: the master must have each foreign key that acts on the slave in the apply's session.

Where the account may not switch foreign keys off, a replicated deletion cascades on the slave. Where the master has the
same foreign key, no remaining row of the master refers to the deleted one. Where it has none, such rows may remain on
the master, and the slave would lose them unnoticed.
"""

import heapq
import logging
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sluice.apply.definition_follower import beside_tables
from sluice.apply.pair_sessions import PairSessions
from sluice.apply.window_runs import CutItem, by_table
from sluice.configuration.options import Policy
from sluice.control.definitions import DefinitionStore
from sluice.database.apply import Acting
from sluice.database.following import OfMaster, by_id
from sluice.database.following import defined as defined_of
from sluice.database.placed import vendor_at
from sluice.database.registry import has_rows, master_of
from sluice.database.row_images import RowImageCodec
from sluice.database.session import Session
from sluice.errors import RESTART_APPLY, Terminal
from sluice.model import defined
from sluice.model.change import Action
from sluice.model.defined import Defined, DefinedKind
from sluice.model.foreign_key import ForeignKey
from sluice.model.names import TableName
from sluice.model.views import View
from sluice.pair import Pair
from sluice.transform import fitting

# Drops constraints and views that the master has dropped and that refuse changes on the slave.
#
# `sluice.apply.definition_follower` would drop them too, but some seconds later. Where a window does not fit, the
# slave's constraints that came from the master are compared with what the master has now.

log = logging.getLogger("sluice.apply")


def refusing(sessions: PairSessions, written: Collection[TableName], *, altering: bool = False) -> list[Defined]:
    """The outdated ones that may refuse changes of the tables `written`, or of their definitions (`altering`); runs in
    the slave's open transaction.

    The slave's own constraints are not among them, nor kinds that do not follow by `ddl`.
    """
    pair = sessions.pair
    if not has_rows(pair.master_info.vendor):
        return []
    vendor, of_master = vendor_at(pair), master_of(pair.master_info.vendor)
    store = DefinitionStore.of(pair, sessions.slave)
    known = [one for one in store.read() or () if _concerns(one, written) and _follows(sessions, one)]
    if not known:
        return []
    tables = sorted({one.table for one in known if one.of_table}.union(written))
    registered = sessions.queue.registered()
    everything = OfMaster.read(of_master.schemas, sessions.master, tables, registered)
    present = by_id(vendor.following.present(sessions.slave, tables))
    if kinds := beside_tables(pair):
        everything = everything.beside(of_master.schemas, sessions.master, pair.prefix, registered, kinds)
        schemas = {table.schema for table in registered}
        present |= by_id(vendor.following.present_beside(sessions.slave, pair.prefix, schemas))
    wanted = fitting.of_master(everything, pair).made_from
    outdated_ids = {one.id for one in defined.outdated(wanted, present, known, altering=altering)}
    for one, source in wanted.items():
        if isinstance(source, View) and one.id in outdated_ids:
            # The follower makes them again together with it.
            outdated_ids |= {defined_of(reader).id for reader in source.readers}
    order = list(present)
    outdated = [one for one in known if one.id in outdated_ids and one.id in present]
    return sorted(outdated, key=lambda one: -order.index(one.id))


def drop(sessions: PairSessions, written: Collection[TableName], *, altering: bool) -> list[Defined]:
    """Drops the outdated ones, each in its own transaction, and returns them. Raises `Transient` if readers
    hold the locks for long."""
    pair = sessions.pair
    vendor = vendor_at(pair)
    store = DefinitionStore.of(pair, sessions.slave)
    with sessions.slave_transaction():
        outdated = refusing(sessions, written, altering=altering)
    for one in outdated:
        with sessions.slave_transaction() as slave:
            vendor.following.drop_at_once(slave, one)
            store.forget(one)
        sessions.merger.targets.forget()
        log.info("%s: dropped on the slave, because the master has it no more and changes need that: %s", pair, one)
    return outdated


def _concerns(one: Defined, written: Collection[TableName]) -> bool:
    # A foreign key also refuses deletes of its parent table, a view changes of the columns that it reads.
    return one.table in written or one.kind in (DefinedKind.FOREIGN_KEYS, DefinedKind.DOMAINS, DefinedKind.VIEWS)


def _follows(sessions: PairSessions, one: Defined) -> bool:
    return sessions.pair.replication.ddl.of(one.kind) is Policy.FOLLOW


def untie(sessions: PairSessions, change: CutItem) -> bool:
    """Drops the master's foreign keys that are in the way of a change of types, in the caller's transaction. Returns
    whether there were any: `DefinitionFollower` makes them again."""
    keys = sessions.alterer.will_drop(change)
    if not keys:
        return False
    store = DefinitionStore.of(sessions.pair, sessions.slave)
    known = {one.id for one in store.read() or ()}
    tied = [key for key in keys if key.id in known and _follows(sessions, key)]
    for key in tied:
        vendor_at(sessions.pair).following.drop_at_once(sessions.slave, key)
        store.forget(key)
    return bool(tied)


# Orders changes for a slave whose foreign keys act: each effect of a cascade right behind its cause.
#
# When a key cascades, ITEMS first has all rows of the master's statement, then the rows that its foreign keys
# changed. On a slave whose own foreign keys act, the first row already cascades. The replayed change of the
# referring row must come before another row takes the same key, or it would not find its row:
#
#     master: UPDATE p SET id = id + 1      (rows 2, 1; in c, whose key p is, one row refers to each)
#     ITEMS                                 this order
#     p  2 → 3                              p  2 → 3
#     p  1 → 2                              c  2 → 3      the slave's foreign key has done that
#     c  2 → 3                              p  1 → 2
#     c  1 → 2                              c  1 → 2      and that
#
# Only changes of one transaction are reordered: concurrent transactions do not see each other's rows.

Row = Mapping[str, str | None]
Values = tuple[str | None, ...]


@dataclass(frozen=True)
class Touch:
    """A change, reduced to the columns of keys and foreign keys. A row that does not exist is empty."""

    index: int
    table: TableName
    old: Row
    new: Row


def in_cascade_order(
    items: pa.Table,
    keys: Mapping[TableName, Sequence[str]],
    foreign_keys: Iterable[ForeignKey],
    images: RowImageCodec,
) -> pa.Table:
    """`items` (columns of `queue.ITEMS`, with OLDCONTENT, in REPL_KEY order) with each effect behind its cause.

    `keys`: the key columns of each table; `foreign_keys`: those of the slave. Raises `malformed-content`.
    """
    acting = [key for key in foreign_keys if key.follows_updates]
    key_columns: dict[TableName, set[str]] = {}
    for key in acting:
        for table, columns in ((key.child, key.columns), (key.parent, key.parent_columns)):
            key_columns.setdefault(table, set(keys.get(table, ()))).update(columns)
    order = list(range(items.num_rows))
    for touches in _transactions(items, key_columns, images).values():
        causes = causes_of(touches, acting)
        if causes:
            indices = [touch.index for touch in touches]
            for index, which in zip(indices, sequence(touches, causes, keys), strict=True):
                order[index] = indices[which]
    return items if order == sorted(order) else items.take(pa.array(order))


def _transactions(
    items: pa.Table, key_columns: Mapping[TableName, set[str]], images: RowImageCodec
) -> dict[int, list[Touch]]:
    """The changes of the tables in `key_columns`, by transaction and in order."""
    touches_of: dict[int, list[Touch]] = {}
    numbered = items.append_column("place", pa.array(range(items.num_rows), pa.int64())) if key_columns else None
    for table, table_items in by_table(numbered).items() if key_columns else ():
        columns = key_columns.get(table, set())
        for item in table_items.to_pylist() if columns else ():
            former = images.row(item["oldcontent"]) if item["oldcontent"] else {}
            new = images.row(item["content"]) if item["content"] and item["action"] != Action.DELETE else {}
            old = {**new, **former} if former else {}
            rows = ({name: value for name, value in row.items() if name in columns} for row in (old, new))
            touches_of.setdefault(item["trans_key"], []).append(Touch(item["place"], table, *rows))
    return {transaction: sorted(touches, key=lambda touch: touch.index) for transaction, touches in touches_of.items()}


def causes_of(touches: Sequence[Touch], acting: Iterable[ForeignKey]) -> list[tuple[int, int]]:
    """Pairs (cause, effect) of indices of `touches`, the changes of one transaction.

    The effect changes a reference from A to B. Its cause is the last change before it that gave the parent row with
    key A the key B. There is no cause if another row got the reference A in between: A then names another parent,
    and the statement may have set B itself.
    """
    pairs = []
    for key in acting:
        parents: dict[Values, tuple[Values, int]] = {}
        referred_since: dict[Values, int] = {}
        for at, touch in enumerate(touches):
            if touch.table == key.child and touch.new:
                old, new = _of(touch.old, key.columns), _of(touch.new, key.columns)
                former_parent, cause = parents.get(new, (None, -1))
                if touch.old and old != new and former_parent == old and referred_since.get(old, -1) < cause:
                    pairs.append((cause, at))
                if not touch.old or old != new:
                    referred_since[new] = at
            if touch.table == key.parent and touch.new:
                parents[_of(touch.new, key.parent_columns)] = (_of(touch.old, key.parent_columns), at)
    return pairs


def sequence(
    touches: Sequence[Touch], causes: Sequence[tuple[int, int]], keys: Mapping[TableName, Sequence[str]]
) -> list[int]:
    """The indices of `touches` in their new order.

    Changes of a table keep their order, and so do changes of a row if the table refers to itself. What precedes an
    effect in its table precedes the cause as well. Where these rules contradict each other, nothing is reordered.
    """
    after: list[set[int]] = [set() for _ in touches]
    causes_by_effect: dict[int, list[int]] = {}
    self_referring = {touches[cause].table for cause, effect in causes if touches[cause].table == touches[effect].table}
    for cause, effect in causes:
        after[cause].add(effect)
        causes_by_effect.setdefault(effect, []).append(cause)
    last: dict[Hashable, int] = {}
    for at, touch in enumerate(touches):
        for name in _rows(touch, keys.get(touch.table, ())) if touch.table in self_referring else [touch.table]:
            if last.get(name, at) != at:
                before = last[name]
                new_causes = _all_causes(at, causes_by_effect) - _all_causes(before, causes_by_effect) - {before}
                after[before].update([at, *new_causes])
            last[name] = at
    return _sorted(after) or list(range(len(touches)))


def _all_causes(effect: int, causes_by_effect: Mapping[int, list[int]]) -> set[int]:
    """The causes of a change, and their causes."""
    result: set[int] = set()
    border = list(causes_by_effect.get(effect, ()))
    while border:
        cause = border.pop()
        border += causes_by_effect.get(cause, [])
        result.add(cause)
    return result


def _sorted(after: Sequence[set[int]]) -> list[int] | None:
    """A topological order that keeps the given order where it can; None for a cycle. `after`: who must follow each."""
    waits = [0] * len(after)
    for others in after:
        for other in others:
            waits[other] += 1
    ready = [at for at, number in enumerate(waits) if not number]
    heapq.heapify(ready)
    order = []
    while ready:
        at = heapq.heappop(ready)
        order.append(at)
        for other in after[at]:
            waits[other] -= 1
            if not waits[other]:
                heapq.heappush(ready, other)
    return order if len(order) == len(after) else None


def _of(row: Row, columns: Sequence[str]) -> Values:
    return tuple(row.get(column) for column in columns)


def _rows(touch: Touch, key: Sequence[str]) -> list[Hashable]:
    """The names of the row before and of the row after the change."""
    return [(touch.table, _of(row, key)) for row in (touch.old, touch.new) if row]


def unknown_cascade(pair: Pair, foreign_keys: Sequence[Acting], allow: str) -> Terminal:
    """A foreign key of the slave changes or deletes rows, and the master has no such foreign key. `allow`:
    the statement that lets the apply's account switch triggers and foreign keys off.
    """
    described = "; ".join(f"{each.name} of {each.key.child}: {each.definition}" for each in foreign_keys)
    return Terminal(
        f"{pair}: on {pair.slave_info.server}: rows that the master keeps could go, or change, by a foreign key "
        f"that the master does not have ({described}). On the slave, as an administrator: {allow}; or drop the "
        f"constraint there, or make it without ON DELETE and ON UPDATE; then {RESTART_APPLY}.",
        code="unknown-cascade",
    )


def require_known_actions(sessions: PairSessions, slave: Session) -> None:
    """Raises `unknown-cascade`. Call it after changes, in their transaction: no foreign key can be added between.

    Only foreign keys between two replicated tables count.
    """
    if sessions.replica_role:
        return
    pair = sessions.pair
    acting = vendor_at(pair).applying.acting(slave)
    if not acting:
        return
    replicated = set(sessions.queue.registered())
    keys_on_master = sessions.queue.foreign_keys({each.key.child for each in acting})
    on_master = {_columns(key) for key in keys_on_master}
    unknown = [
        each
        for each in acting
        if {each.key.child, each.key.parent} <= replicated and _columns(each.key) not in on_master
    ]
    if unknown:
        raise unknown_cascade(pair, unknown, vendor_at(pair).sessions.allow_silence(slave))


def _columns(key: ForeignKey) -> tuple[object, ...]:
    """The tables and pairs of columns, in any order of the columns."""
    return key.child, key.parent, frozenset(zip(key.columns, key.parent_columns, strict=True))
