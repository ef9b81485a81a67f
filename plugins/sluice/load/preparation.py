"""The slave's tables before the load: examined as a whole, then made or emptied.

Everything that would go wrong is said at once, before anything is changed. Policy for tables that
the slave has already (`existing_tables` of the configuration):

- `empty`: their rows are deleted before the load.
- `keep`: they stay readable with their old rows; each block replaces the rows of its range when it
  is stored. A table is emptied all the same where that cannot be exact: where the order of its keys
  differs between databases, or where old rows could collide with new ones on a second unique index.
- `refuse`: the update ends before it changes anything.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sluice.control.blocks import BlockStore
from sluice.control.checkpoint import CheckpointStore
from sluice.database.placed import vendor_at
from sluice.database.registry import vendor_of
from sluice.database.schema import TableDefinition
from sluice.database.session import Session
from sluice.database.translation import Translator
from sluice.errors import Terminal
from sluice.load.load_ownership import owner_of
from sluice.load.update import Update
from sluice.model.compatibility import TablesDiffer
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.model.table_state import ALL_READY, TableState
from sluice.transform import fitting
from sluice.transform.transforms import Transforms

log = logging.getLogger("sluice.load")


class TablesExist(Terminal):
    """The slave has tables that it must not have, by its policy `existing_tables: refuse`."""

    def __init__(self, slave: str, tables: Sequence[TableName]):
        super().__init__(
            f"Slave {slave} already has {', '.join(map(str, tables))}, and its configuration says existing_tables: "
            "refuse. Nothing was changed. Drop these tables, or say empty or keep."
        )
        self.tables = tuple(tables)


class NotCaptured(Terminal):
    """Changes of replicated tables do not reach ITEMS; `faults` says of each table what is wrong."""

    def __init__(self, update: Update, faults: Mapping[TableName, str]):
        listed = "\n".join(f"- {table}: {fault}" for table, fault in faults.items())
        super().__init__(
            f"{update}: changes of these tables are not captured, so that they must not be loaded:\n{listed}\n"
            "Run the DAG reconcile_tables, then start again."
        )
        self.faults = dict(faults)


def captured_tables(update: Update, master: Session) -> list[TableName]:
    """The configured tables whose changes are captured now, in the order of the configuration; of them those chosen.

    A table that appeared since the tables were reconciled is left out, and logged: it comes with
    the next initial update. Raises `NotCaptured` for tables whose capture is broken.
    """
    registered = vendor_of(update.master_info.vendor).changes.captured(
        master, update.prefix, update.replication.master.schema
    )
    existing = vendor_of(update.master_info.vendor).rows.tables(master)
    resolved = update.replication.resolve(existing)
    wanted = [each.table for each in resolved if update.selection.covers(each.table)]
    faults = {table: fault for table in wanted if (fault := registered.get(table)) is not None}
    if faults:
        raise NotCaptured(update, faults)
    left_out = [str(table) for table in wanted if table not in registered]
    if left_out:
        log.warning("%s: not loaded, because nothing captures their changes yet: %s", update, ", ".join(left_out))
    return [table for table in wanted if table in registered]


class Preparation:
    """One look at both databases, and what follows from it for the slave's `tables`.

    Both sessions in autocommit.
    """

    def __init__(self, update: Update, master: Session, slave: Session, tables: Iterable[TableName]):
        self.update = update
        self.master = master
        self.slave = slave
        self._of_master = vendor_of(update.master_info.vendor)
        self._of_slave = vendor_at(update)
        self.tables = list(tables)
        on_master = self._of_master.schemas.tables(master, self.tables)
        self._on_master = {definition.table: definition.shape for definition in on_master}
        self.definitions, self._invalid = Transforms(update.replication, update.slave).definitions(on_master, master)
        self.types = self._of_master.schemas.types(master, self.tables)
        self._translator = Translator(self._of_master, self._of_slave, master, slave, self.types)
        self.there: dict[TableName, TableShape] = self._of_slave.rows.shapes(slave, self.tables)
        owner = owner_of(update, slave)
        begun = owner is not None and owner.update_id == update.update_id
        self.mine = frozenset(self._store().made())
        """Tables that this very update made: what it makes, it plans in the same transaction. Before a part has begun
        those that the last update made."""
        found = CheckpointStore.of(update, slave).read() if update.selection.partial else None
        self._states = found.tables if found is not None else ALL_READY
        self.remade = self._worthless() - (self.mine if begun else frozenset())
        """Tables that nothing is applied to, and that are made anew where they differ."""

    def examine(self) -> None:
        """Raises `TablesExist` or `TablesDiffer` with everything that stands in the way."""
        foreign = [table for table in self.tables if table in self.there and table not in self.mine]
        if foreign and self.update.slave.existing_tables == "refuse":
            raise TablesExist(self.update.slave.name, foreign)
        target = self._of_slave.load_target
        problems = [
            f"{table} is {what} on the slave" for table, what in target.not_tables(self.slave, self.tables).items()
        ]
        problems += [
            f"{table} has no place on the slave: {holder} has its target there; give one of the two another"
            for table, holder in self.update.placement.taken(self.tables).items()
        ]
        problems += self._invalid
        problems += target.type_differences(self.slave, self.types)
        problems += self._collations()
        for definition in self.definitions:
            judged = definition.table in (self.there if self.update.selection.partial else foreign)
            if judged and definition.table not in self.remade:
                problems += self._differences(definition)
            else:
                problems += self._translator.losses(definition.shape, self.update.slave.lossy_columns)
            if not problems and self.update.transformation(definition.table) is None:
                # Of a transformed table, only what is left of the rows matters: the load finds it.
                problems += self._translator.excluded(definition.shape, self.update.slave.lossy_columns)
        problems += [
            f"this account may not {lacking} on {table}"
            for table, lacking in target.lacking_privileges(self.slave, foreign).items()
        ]
        problems += self._foreign_keys(foreign)
        if self.update.slave.checkpoint == "redis":
            problems += [
                f"{definition.table} has no key, and with checkpoint: redis its changes could be applied twice: add a "
                "primary key on the master, take it out of the replication's tables, or set checkpoint: slave"
                for definition in self.definitions
                if not definition.shape.key
            ]
        if problems:
            raise TablesDiffer(self.update.slave.name, problems)

    def remake_reconfigured(self) -> list[TableName]:
        """Lets ready tables be made anew whose `columns` or `exit` give the slave other columns than it has. Which.

        Right where the slave is past the registration of `tables`: a table that joins is not ready then. Tables that
        are loaded in part stay, their other rows would go.
        """
        if self.update.selection.ranged:
            return []
        found = [
            definition.table
            for definition in self.definitions
            if self.update.transformation(definition.table) is not None
            and definition.table in self.there
            and self._states.ready(definition.table)
            and self._differences(definition)
        ]
        self.remade |= frozenset(found)
        return found

    def unfit(self) -> list[TableName]:
        """Tables the slave lacks, or that became different while the update was prepared."""
        return [
            definition.table
            for definition in self.definitions
            if definition.table not in self.there or self._differences(definition)
        ]

    def make(self) -> list[TableName]:
        """Makes types and absent tables; makes anew what this update made before and the master changed since.

        One transaction a table, so that thousands fit into a server's lock table. Returns what was made.
        """
        self.drop_gone()
        trusted = self.update.slave.trusted_ddl
        wanted = self._to_be_made()
        names = [definition.table for definition in wanted]
        types = self._of_master.schemas.types(self.master, names)
        with self.slave.transaction():
            collations = self._of_master.schemas.collations(self.master, names)
            for what in self._of_slave.load_target.create_types(self.slave, types, collations, trusted=trusted):
                log.info("%s: %s made on the slave", self.update, what)
        self._free([name for name in names if name in self.remade and name in self.there])
        for definition in wanted:
            with self.slave.transaction():
                if definition.table in self.there:
                    self._of_slave.load_target.drop_table(self.slave, definition.table)
                there = replace(definition, shape=self._translator.translate(definition.shape).shape)
                self._of_slave.load_target.create_table(self.slave, there, trusted=trusted)
                self._store().plan([definition.table], made=True)
        return names

    def _free(self, tables: Sequence[TableName]) -> None:
        """Drops the foreign keys by which others refer to `tables`, which are made anew. They come back at the end."""
        if not tables:
            return
        place = self.update.replication.master.schema
        captured = self._of_master.changes.captured(self.master, self.update.prefix, place)
        touching = [
            key for key in self._of_master.schemas.constraints(self.master, list(captured)) if key.parent in tables
        ]
        self._of_slave.load_target.strip(self.slave, [], touching)

    def drop_gone(self) -> None:
        """Drops tables that this update made and the master has no more: their DROP comes before the start position."""
        for table in sorted(self.mine.difference(self.tables)):
            with self.slave.transaction():
                self._of_slave.load_target.drop_table(self.slave, table)
            log.info("%s: %s is gone on the master and dropped again", self.update, table)

    def empty(self, again: Iterable[TableName] = ()) -> list[TableName]:
        """Empties the tables that were there before, as the policy says, or those loaded `again`. Returns which.

        Their indexes and constraints that the master has too go with the rows: they come back after
        the load, and until then could only slow it down, or refuse a value that moved between rows
        of two blocks.
        """
        if self.update.slave.existing_tables == "current":
            return []
        loaded = frozenset(again)
        foreign = [
            table
            for table in self.tables
            if table in self.there and (table in loaded if loaded else table not in self.mine)
        ]
        emptied = foreign
        if self.update.slave.existing_tables == "keep":
            unique = self._of_slave.load_target.with_unique_values(self.slave, foreign)
            emptied = [table for table in foreign if table in unique or not self._same_order(table)]
        if emptied:
            stripped = self._of_slave.load_target.strip(
                self.slave,
                fitting.indexes(self._of_master.schemas.indexes(self.master, emptied), self.update).kept,
                fitting.constraints(self._of_master.schemas.constraints(self.master, emptied), self.update).kept,
            )
            if stripped:
                log.info("%s: dropped until the load is done: %s", self.update, ", ".join(stripped))
            self._of_slave.load_target.empty(self.slave, [self.there[table] for table in emptied])
        return emptied

    def current(self) -> list[TableName]:
        """The tables that need no load: by the policy `existing_tables: current` those that were there before."""
        if self.update.slave.existing_tables != "current":
            return []
        return [table for table in self.tables if table in self.there and table not in self.mine]

    def order(self) -> list[TableName]:
        """The tables as they are loaded: large ones without a key first, as each of those is a single block."""
        found = self._of_master.rows.estimates(self.master, self.tables)
        keyless = {definition.table for definition in self.definitions if definition.shape.keyless}
        alone = [table for table in self.tables if table in keyless]
        alone.sort(key=lambda table: -(found[table].bytes if table in found else 0))
        return alone + [table for table in self.tables if table not in keyless]

    def _to_be_made(self) -> list[TableDefinition]:
        """Definitions of tables that are absent, and of this update's own that the master changed since."""
        return [
            definition
            for definition in self.definitions
            if definition.table not in self.there
            or (definition.table in self.mine | self.remade and self._differences(definition))
        ]

    def _differences(self, definition: TableDefinition) -> list[str]:
        """Why the slave's table cannot take the master's rows."""
        return self._translator.differences(
            definition.shape, self.there[definition.table], self.update.slave.lossy_columns
        )

    def _worthless(self) -> frozenset[TableName]:
        """Of a part: the tables that the slave has left out, or kept when they left the replication."""
        states = self._states
        return states.former.union(table for table in states if states.state(table) is TableState.INCONSISTENT)

    def _collations(self) -> list[str]:
        wanted = self._to_be_made()
        used = [column.collation for made in wanted for column in made.shape.columns if column.collation]
        own = self._of_master.schemas.collations(self.master, [made.table for made in wanted])
        return [
            f"collation {name} is not on the slave, whose server has no such collations (built without ICU?): "
            "create the tables that use it there yourself, with another collation"
            for name in self._of_slave.load_target.collations_lacking(self.slave, used, own)
        ]

    def _same_order(self, table: TableName) -> bool:
        """Whether both databases order the table's keys alike; a table without a key is replaced as a whole."""
        shape = self._on_master[table]
        if shape.keyless:
            return True
        orders = (
            self._of_master.rows.key_order(self.master, shape),
            self._of_slave.rows.key_order(self.slave, self.there[table]),
        )
        return all(order.same_everywhere for order in orders)

    def _foreign_keys(self, foreign: Sequence[TableName]) -> list[str]:
        met = self._of_slave.load_target.foreign_keys(self.slave, foreign) if foreign else []
        # Where a part is loaded, rows of other replicated tables stay, and may point into it.
        staying = {
            key.child
            for key in met
            if self.update.selection.partial and not key.child_loaded and self.update.replication.rule(key.child)
        }
        problems = [
            f"{key.child} is not replicated, but refers to {key.parent} by foreign key {key.name}: its rows would "
            "point nowhere during the load; drop that foreign key, or replicate the table"
            for key in met
            if key.parent_loaded and not key.child_loaded and key.child not in staying
        ]
        inside = [key for key in met if key.child_loaded or key.child in staying]
        if inside and not self._of_slave.sessions.may_silence(self.slave):
            allow = self._of_slave.sessions.allow_silence(self.slave)
            problems += [
                f"foreign key {key} would be violated while blocks load in any order: drop it, or run as an "
                f"administrator: {allow}"
                for key in inside
            ]
        return problems

    def _store(self) -> BlockStore:
        return BlockStore.of(self.update, self.slave)
