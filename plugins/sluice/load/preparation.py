"""Prepares the slave's tables for a load: examines all of them, then makes or empties them.

All problems are reported together, before anything is changed. A table that the slave cannot create keeps no other one
from being loaded: it is left out with the reason, unless `on_error` is `stop` or it is the only one. The policy for
tables that the slave already has (`existing_tables` of the configuration):

- `empty`: their rows are deleted before the load.
- `keep`: they stay readable with their old rows; each stored block replaces the rows of its range. A table is emptied
  nevertheless where that would not be exact: where the databases order its keys differently, or where old and new rows
  could collide in a second unique index.
- `refuse`: the update ends before it changes anything.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from sluice.control.blocks import BlockStore
from sluice.control.checkpoint import CheckpointStore
from sluice.control.definitions import DefinitionStore
from sluice.database.placed import vendor_at
from sluice.database.registry import master_of
from sluice.database.rows import TableRefused
from sluice.database.schema import CollationDefinition, TableDefinition, TypeDefinition
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
from sluice.transform.transforms import Transforms, master_key

log = logging.getLogger("sluice.load")


def changes_not_captured(update: Update, faults: Mapping[TableName, str]) -> Terminal:
    """Changes of replicated tables do not reach ITEMS. `faults`: table → what is wrong."""
    listed = "\n".join(f"- {table}: {fault}" for table, fault in faults.items())
    return Terminal(
        f"{update}: changes of these tables are not captured, so that they must not be loaded:\n{listed}\n"
        "Run the DAG reconcile_tables, then start again.",
        code="changes-not-captured",
    )


def captured_tables(update: Update, master: Session) -> list[TableName]:
    """The selected tables whose changes are captured now, in the order of the configuration.

    A table that appeared after the last reconciliation is left out and logged: the next initial update loads it.
    Raises `changes-not-captured` for tables whose capture is broken.
    """
    registered = update.queue(master).captured()
    existing = master_of(update.master_info.vendor).rows.tables(master)
    resolved = update.replication.resolve(existing)
    tables = [each.table for each in resolved if update.selection.covers(each.table)]
    faults = {table: fault for table in tables if (fault := registered.get(table)) is not None}
    if faults:
        raise changes_not_captured(update, faults)
    left_out = [str(table) for table in tables if table not in registered]
    if left_out:
        log.warning("%s: not loaded, because nothing captures their changes yet: %s", update, ", ".join(left_out))
    return [table for table in tables if table in registered]


def tables_to_load(update: Update, master: Session, slave: Session) -> list[TableName]:
    """The captured tables without those that this update, which has begun, left out. Raises `changes-not-captured`."""
    tables = captured_tables(update, master)
    if update.selection.partial:
        planned = BlockStore.of(update, slave).map().tables
        return [table for table in tables if table in planned]
    left_out = CheckpointStore.of(update, slave).configured().tables
    return [table for table in tables if left_out.state(table) is not TableState.INCONSISTENT]


class Preparation:
    """The definitions of `tables` on both databases, read once, and what to do with the slave's tables.

    Both sessions are in autocommit.
    """

    def __init__(self, update: Update, master: Session, slave: Session, tables: Iterable[TableName]):
        self.update = update
        self.master = master
        self.slave = slave
        self._of_master = master_of(update.master_info.vendor)
        self._of_slave = vendor_at(update)
        self.tables = list(tables)
        on_master = self._of_master.schemas.tables(master, self.tables)
        self._on_master = {definition.table: definition.shape for definition in on_master}
        self.definitions, self._invalid = Transforms(update.replication, update.slave).definitions(on_master, master)
        self.types = self._of_master.schemas.types(master, self.tables)
        self._translator = Translator(self._of_master, self._of_slave, master, slave, self.types)
        self.on_slave: dict[TableName, TableShape] = self._of_slave.rows.shapes(slave, self.tables)
        owner = owner_of(update, slave)
        begun = owner is not None and owner.update_id == update.update_id
        self.made_by_update = frozenset(self._store().made())
        """Tables that this update made, which it notes in the same transaction; before a partial load has begun, those
        of the last update."""
        checkpoint = CheckpointStore.of(update, slave).read() if update.selection.partial else None
        self._states = checkpoint.tables if checkpoint is not None else ALL_READY
        self.remade = self._discarded() - (self.made_by_update if begun else frozenset())
        """Tables whose changes are left out, and that are created again if they differ."""
        self.left_out: dict[TableName, str] = {}
        """Tables that the slave cannot create → why. They are not among `tables` any more."""
        self.refused: dict[TableName, str] = {}
        """All tables that the slave cannot create → why: also those that could not be left out, because no table would
        remain or `on_error` is `stop`."""

    def examine(self) -> None:
        """Leaves out tables that the slave cannot have. Raises `tables-exist` or `TablesDiffer` with all problems."""
        existing = self._existing()
        if existing and self.update.slave.existing_tables == "refuse":
            raise Terminal(
                f"Slave {self.update.slave.name} already has {', '.join(map(str, existing))}, and its configuration "
                "says existing_tables: refuse. Nothing was changed. Drop these tables, or say empty or keep.",
                code="tables-exist",
            )
        target = self._of_slave.load_target
        problems = list(self._invalid)
        uncreatable, of_types = self._uncreatable()
        problems += of_types
        for definition in self.definitions:
            compared = definition.table in (self.on_slave if self.update.selection.partial else existing)
            if compared and definition.table not in self.remade:
                problems += self._differences(definition)
            else:
                problems += self._translator.losses(definition.shape, self.update.slave.lossy_columns)
            if not problems and self.update.transformation(definition.table) is None:
                # Values of a transformed table are checked by the load, after the transformation.
                try:
                    unfit = self._translator.excluded(definition.shape, self.update.slave.lossy_columns)
                except TableRefused as refused:
                    unfit = [str(refused)]
                if unfit and definition.table not in uncreatable:
                    uncreatable[definition.table] = "; ".join(unfit)
        problems += [
            f"this account may not {missing} on {table}"
            for table, missing in target.missing_privileges(self.slave, existing).items()
        ]
        problems += self._leave_out(uncreatable)
        problems += self._foreign_keys(existing)
        if self.update.slave.checkpoint == "redis":
            problems += [
                f"{definition.table} has no key, and with checkpoint: redis its changes could be applied twice: add a "
                "primary key on the master, take it out of the replication's tables, or set checkpoint: slave"
                for definition in self.definitions
                if not definition.shape.key
            ]
        if problems:
            raise TablesDiffer(self.update.slave.name, [*problems, *self.left_out.values()])
        self._tell(self.left_out)

    def _uncreatable(self) -> tuple[dict[TableName, str], list[str]]:
        """The tables that the slave cannot create → why, and what is wrong with types of tables that it has."""
        target = self._of_slave.load_target
        reasons: dict[TableName, list[str]] = {}
        for table, what in target.not_tables(self.slave, self.tables).items():
            reasons.setdefault(table, []).append(f"{table} is {what} on the slave")
        for table, holder in self.update.placement.taken(self.tables).items():
            conflict = f"{table} has no place on the slave: {holder} has its target there; give one of the two another"
            reasons.setdefault(table, []).append(conflict)
        for table, why in (*self._refusals().items(), *self._missing_collations()):
            reasons.setdefault(table, []).append(f"{table} cannot be made on the slave: {why}")
        to_make = [definition.table for definition in self._to_be_made()]
        of_types = self._type_differences(self.tables, to_make)
        if of_types and self.update.may_leave_out(to_make):
            of_types = self._type_differences([table for table in self.tables if table not in to_make], to_make)
            for table in to_make:
                for why in self._type_differences([table], to_make):
                    reasons.setdefault(table, []).append(why)
        return {table: "; ".join(whys) for table, whys in reasons.items()}, of_types

    def _type_differences(self, tables: Sequence[TableName], to_make: Collection[TableName]) -> list[str]:
        """Why the slave cannot have types of `tables`; the row types of those `to_make` come with them."""
        types = self._of_master.schemas.types(self.master, tables) if tables else []
        missing = [one for one in types if one.kind != "t" or TableName(one.schema, one.name) not in to_make]
        return self._of_slave.load_target.type_differences(self.slave, missing)

    def _leave_out(self, reasons: Mapping[TableName, str]) -> list[str]:
        """Leaves out tables that the slave cannot create, if the configuration allows it; returns the other reasons."""
        self.refused |= reasons
        leaving = {table: why for table, why in reasons.items() if self.update.may_leave_out([table])}
        if leaving.keys() == set(self.tables):
            leaving = {}
        if leaving:
            self.left_out |= leaving
            self.tables = [table for table in self.tables if table not in leaving]
            self.definitions = [each for each in self.definitions if each.table not in leaving]
            self.types = self._of_master.schemas.types(self.master, self.tables)
        return [why for table, why in reasons.items() if table not in leaving]

    def _tell(self, left_out: Mapping[TableName, str]) -> None:
        for table, why in left_out.items():
            log.warning("%s: %s is left out, all others are loaded: %s", self.update, table, why)

    def remake_reconfigured(self) -> list[TableName]:
        """Adds to `remade`, and returns, ready tables whose `columns` or `exit` give other columns than the slave has.

        Call it once the slave is past the registration of `tables`, so that a table that joins is not ready. Tables
        of which a part is loaded are not made again, because their other rows would be lost.
        """
        if self.update.selection.ranged:
            return []
        reconfigured = [
            definition.table
            for definition in self.definitions
            if self.update.transformation(definition.table) is not None
            and definition.table in self.on_slave
            and self._states.ready(definition.table)
            and self._differences(definition)
        ]
        self.remade |= frozenset(reconfigured)
        return reconfigured

    def types_behind(self) -> bool:
        """Whether the slave's types lack values of the master's, which can be added."""
        return bool(self._of_slave.load_target.type_extensions(self.slave, self.types))

    def extend_types(self) -> None:
        """Adds the values that the slave's types lack."""
        for statement in self._of_slave.load_target.extend_types(self.slave, self.types):
            log.info("%s: done on the slave: %s", self.update, statement)

    def unfit(self) -> list[TableName]:
        """Tables that the slave lacks, or that became different while the update was prepared."""
        return [
            definition.table
            for definition in self.definitions
            if definition.table not in self.on_slave or self._differences(definition)
        ]

    def make(self) -> list[TableName]:
        """Makes and extends types, makes absent tables, and makes tables of this update again that the master changed
        since.

        One transaction a table, with the types and collations that it needs, so that thousands fit into a server's
        lock table, and one that the slave refuses is left out alone. Returns the tables made.
        """
        self.drop_gone()
        self.extend_types()
        definitions = self._to_be_made()
        names = [definition.table for definition in definitions]
        types = self._of_master.schemas.types(self.master, names)
        collations = self._of_master.schemas.collations(self.master, names)
        self._drop_references([name for name in names if name in self.remade and name in self.on_slave])
        created: list[TableName] = []
        refused: dict[TableName, Terminal] = {}
        waiting = definitions
        while waiting:
            refused = {}
            for definition in waiting:
                try:
                    self._make(definition, types, collations)
                except Terminal as why:
                    refused[definition.table] = why
                else:
                    created.append(definition.table)
            # The type of a column may be a table that comes later.
            again = [definition for definition in waiting if definition.table in refused]
            waiting = again if len(again) < len(waiting) else []
        for table, failure in refused.items():
            reason = {table: f"{table} cannot be made on the slave: {failure}"}
            if self._leave_out(reason):
                raise failure
            self._tell(reason)
        if not self.update.selection.ranged:
            self._note_columns()
        return created

    def _make(
        self, definition: TableDefinition, types: Sequence[TypeDefinition], collations: Sequence[CollationDefinition]
    ) -> None:
        """Makes one table. `types` and `collations`: of all tables, to ask for those of this one only if there are."""
        target, trusted, table = self._of_slave.load_target, self.update.slave.trusted_ddl, definition.table
        with self.slave.transaction():
            if types or collations:
                needed = self._of_master.schemas.types(self.master, [table])
                used = self._of_master.schemas.collations(self.master, [table])
                for what in target.create_types(self.slave, needed, used, trusted=trusted):
                    log.info("%s: %s made on the slave", self.update, what)
            if table in self.on_slave:
                target.drop_table(self.slave, table)
            translated = replace(definition, shape=self._translator.translate(definition.shape).shape)
            target.create_table(self.slave, translated, trusted=trusted)
            self._store().plan([table], made=True)

    def _note_columns(self) -> None:
        """Notes which columns the slave's tables have: a change of definition that comes may have been made before."""
        store = DefinitionStore.of(self.update, self.slave)
        with self.slave.transaction():
            for shape in self._on_master.values():
                store.put_columns(shape, followed=False)

    def _drop_references(self, tables: Sequence[TableName]) -> None:
        """Drops foreign keys that refer to `tables`, which are made again; the end of the update makes them again."""
        if not tables:
            return
        captured = self.update.queue(self.master).captured()
        touching = [
            key for key in self._of_master.schemas.constraints(self.master, list(captured)) if key.parent in tables
        ]
        self._of_slave.load_target.strip(self.slave, [], touching)

    def drop_gone(self) -> None:
        """Drops tables of this update that the master no longer has: their DROP may be before the start position."""
        for table in sorted(self.made_by_update.difference(self.tables)):
            with self.slave.transaction():
                self._of_slave.load_target.drop_table(self.slave, table)
            log.info("%s: %s is gone on the master and dropped again", self.update, table)

    def empty(self, again: Iterable[TableName] = ()) -> list[TableName]:
        """Empties the existing tables by the policy, or the tables loaded `again`. Returns which.

        Also drops their indexes and constraints that the master has. The end of the update makes them again; until
        then they would slow the load down, or refuse a value that moved between rows of two blocks.
        """
        if self.update.slave.existing_tables == "current":
            return []
        loaded = frozenset(again)
        existing = [table for table in self.tables if table in self.on_slave and table in loaded]
        if not loaded:
            existing = self._existing()
        emptied = existing
        if self.update.slave.existing_tables == "keep":
            unique = self._of_slave.load_target.with_unique_values(self.slave, existing)
            emptied = [table for table in existing if table in unique or not self._same_order(table)]
        if emptied:
            schemas, update = self._of_master.schemas, self.update
            indexes = fitting.possible(schemas.indexes(self.master, emptied), update).kept
            constraints = fitting.possible(schemas.constraints(self.master, emptied), update).kept
            stripped = self._of_slave.load_target.strip(
                self.slave,
                [index for index in indexes if fitting.wanted(index, update)],
                [constraint for constraint in constraints if fitting.wanted(constraint, update)],
            )
            if stripped:
                log.info("%s: dropped until the load is done: %s", self.update, ", ".join(stripped))
            self._of_slave.load_target.empty(self.slave, [self.on_slave[table] for table in emptied])
        return emptied

    def current(self) -> list[TableName]:
        """The existing tables, with the policy `existing_tables: current`: they need no load."""
        return self._existing() if self.update.slave.existing_tables == "current" else []

    def _existing(self) -> list[TableName]:
        """The tables that the slave had before this update."""
        return [table for table in self.tables if table in self.on_slave and table not in self.made_by_update]

    def order(self) -> list[TableName]:
        """The order in which tables are loaded: first keyless ones, large ones first, as each is a single block."""
        estimates = self._of_master.rows.estimates(self.master, self.tables)
        keyless = {definition.table for definition in self.definitions if definition.shape.keyless}
        alone = [table for table in self.tables if table in keyless]
        alone.sort(key=lambda table: -(estimates[table].bytes if table in estimates else 0))
        return alone + [table for table in self.tables if table not in keyless]

    def _to_be_made(self) -> list[TableDefinition]:
        """Tables that are absent, and tables of this update that the master changed since."""
        return [
            definition
            for definition in self.definitions
            if definition.table not in self.on_slave
            or (definition.table in self.made_by_update | self.remade and self._differences(definition))
        ]

    def _differences(self, definition: TableDefinition) -> list[str]:
        """Why the slave's table cannot take the master's rows."""
        return self._translator.differences(
            definition.shape, self.on_slave[definition.table], self.update.slave.lossy_columns
        )

    def _discarded(self) -> frozenset[TableName]:
        """In a partial load: inconsistent tables, and tables that the slave kept when they left the replication."""
        states = self._states
        return states.former.union(table for table in states if states.state(table) is TableState.INCONSISTENT)

    def _refusals(self) -> dict[TableName, str]:
        """Why the server would not create tables."""
        definitions = [
            replace(definition, shape=translated.shape)
            for definition in self._to_be_made()
            if not (translated := self._translator.translate(definition.shape)).refused
        ]
        return self._of_slave.load_target.refusals(self.slave, definitions)

    def _missing_collations(self) -> list[tuple[TableName, str]]:
        """The tables that cannot be created because the slave cannot have a collation, and why."""
        definitions = self._to_be_made()
        used = [column.collation for created in definitions for column in created.shape.columns if column.collation]
        own = self._of_master.schemas.collations(self.master, [created.table for created in definitions])
        missing = self._of_slave.load_target.missing_collations(self.slave, used, own)
        return [
            (
                created.table,
                f"collation {name} is not on the slave, whose server has no such collations (built without ICU?): "
                "create the tables that use it there yourself, with another collation",
            )
            for name in missing
            for created in definitions
            if name in [column.collation for column in created.shape.columns]
        ]

    def _same_order(self, table: TableName) -> bool:
        """Whether both databases order the table's keys alike; a table without a key is replaced as a whole."""
        shape = self._on_master[table]
        if shape.keyless:
            return True
        key = master_key(shape, self.update.transformation(table))
        orders = (
            self._of_master.rows.key_order(self.master, shape),
            self._of_slave.rows.key_order(self.slave, self.on_slave[table].keyed_by(key)),
        )
        return all(order.same_everywhere for order in orders)

    def _foreign_keys(self, existing: Sequence[TableName]) -> list[str]:
        """The problems that foreign keys of the existing tables make."""
        touching = self._of_slave.load_target.foreign_keys(self.slave, existing) if existing else []
        # In a partial load, rows of other replicated tables stay, and may refer to loaded ones.
        staying = {
            key.child
            for key in touching
            if self.update.selection.partial and not key.child_loaded and self.update.replication.rule(key.child)
        }
        problems = [
            f"{key.child} is not replicated, but refers to {key.parent} by foreign key {key.name}: its rows would "
            "point nowhere during the load; drop that foreign key, or replicate the table"
            for key in touching
            if key.parent_loaded and not key.child_loaded and key.child not in staying
        ]
        inside = [key for key in touching if key.child_loaded or key.child in staying]
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
