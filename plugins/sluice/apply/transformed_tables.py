"""Transforms definitions, cuts and the master's rows of tables whose slave gets other rows or columns.

A change is transformed by the definition under which it was captured, before anything goes to the slave: REJECTS and
stage tables have only the slave's rows and columns. `sluice.apply.slave_changes` transforms changes of rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from sluice.apply.window_runs import CutItem
from sluice.database.digests import ComparedTable, Texts, compared
from sluice.database.placed import vendor_at
from sluice.database.registry import master_of, source_of
from sluice.database.session import Session
from sluice.database.translation import Translator
from sluice.errors import RESTART_APPLY, Terminal
from sluice.model.change import DEFINITIONS, Action
from sluice.model.mask import Mask
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.shape import TableShape
from sluice.transform import transforms
from sluice.transform.binding import Binder
from sluice.transform.engine import TEXT, Engine
from sluice.transform.table_transform import TableTransform

if TYPE_CHECKING:
    from sluice.apply.pair_sessions import PairSessions


Row = Mapping[str, str | None]


class ColumnRenamed(Terminal):
    """A column that the configuration excludes, renames or replaces has another name on the master.

    `finding`: what to do where its table alone is left out.
    """

    def __init__(self, table: TableName, place: str, renames: Sequence[str]):
        what = f"{table}: on the master {', '.join(renames)}, and a line under `columns` names it ({place})"
        super().__init__(
            f"{what}. Add the same line for the new name beside the old one, then {RESTART_APPLY}. Take the old line "
            "out when the apply is past it."
        )
        self.table = table
        self.finding = f"{what}: write the new name there, then load the table"


class TransformedTables:
    """The transformations of one pair's tables. Tables without one pass unchanged."""

    def __init__(self, sessions: "PairSessions"):
        self.pair = sessions.pair
        self.any = self.pair.transforms
        self._sessions = sessions
        self._bound: dict[TableShape, TableTransform] = {}

    @cached_property
    def _engine(self) -> Engine:
        return Engine()

    def of(self, shape: TableShape) -> TableTransform | None:
        """The transformation of a table of the master. Raises `TransformationInvalid`."""
        rule = self.pair.transformation(shape.table) if self.any else None
        if rule is None:
            return None
        if shape not in self._bound:
            types = source_of(self.pair.master_info.vendor).types
            binder = Binder(types, self._sessions.master, self._engine, Mask(self.pair.replication.verify.mask))
            self._bound[shape] = binder.bind(rule, shape, strict=False)
        return self._bound[shape]

    def after(self, position: Position, table: TableName) -> TableTransform | None:
        """The transformation of the changes of `table` after `position`; None for none.

        Raises `TableGone`, `TransformationInvalid`.
        """
        if self.pair.transformation(table) is None:
            return None
        definitions = self._sessions.schema_history
        definitions.load([table], position, 0)
        return self.of(definitions[table])

    def unfit(self, position: Position, table: TableName) -> list[str]:
        """Why the slave's table cannot take the transformed rows, as of `position`; empty if it can.

        Raises `TableGone`, `TransformationInvalid`.
        """
        transform = self.after(position, table)
        if transform is None:
            return []
        of_slave = vendor_at(self.pair)
        with self._sessions.slave_transaction() as slave:
            shape = of_slave.rows.shape(slave, table)
            translator = Translator(master_of(self.pair.master_info.vendor), of_slave, self._sessions.master, slave)
            return (
                [] if shape is None else translator.differences(transform.shape, shape, self.pair.slave.lossy_columns)
            )

    def of_all(self, tables: Iterable[TableName]) -> dict[TableName, TableTransform]:
        """The transformations of `tables`, whose definitions are known. Raises `TransformationInvalid`."""
        bound = {table: self.of(self._sessions.schema_history[table]) for table in tables if self.any}
        return {table: transform for table, transform in bound.items() if transform is not None}

    def cut(self, cut: CutItem) -> CutItem:
        """The cut as the slave gets it. Raises `ColumnRenamed`, `transformed-table-renamed`,
        `TransformationInvalid`.
        """
        rule = self.pair.transformation(cut.table) if self.any else None
        if cut.action is Action.DELETE_WHERE and rule is not None and (rule.columns or rule.exit is not None):
            reason = "a partition was dropped, and its rows are named by columns that the slave has otherwise"
            return replace(cut, action=Action.DIFFER, bound=None, differs=reason)
        if cut.action not in DEFINITIONS or not self.any:
            return cut
        was = cut.former
        if rule is not None and was is not None and cut.defined is not None:
            now = cut.defined.table
            # Under the new name the slave would get what the rule leaves out.
            if now != cut.table and self.pair.transformation(now) != rule:
                raise Terminal(
                    f"{cut.table}: on the master it is {now} now, and {rule.place} says how the slave gets it. Add "
                    f"the same line for {now} beside the old one, then {RESTART_APPLY}. Take the old line out when "
                    "the apply is past it.",
                    code="transformed-table-renamed",
                )
            renamed = transforms.vanished(rule, was, cut.defined)
            if renamed:  # the slave would get the values under the new name
                raise ColumnRenamed(cut.table, rule.place, renamed)
        return replace(cut, defined=self._defined(cut.defined), former=self._defined(was))

    def _defined(self, definition: transforms.Definition | None) -> transforms.Definition | None:
        transform = None if definition is None else self.of(definition.shape)
        if definition is None or transform is None:
            return definition
        return transforms.change_of_slave(definition, transform)

    def master_rows(
        self, session: Session, table: TableName, keys: Sequence[Texts], *, alike: bool = False
    ) -> list[Row | None] | None:
        """For each of `keys` the row that the slave must have; None if the table is not transformed.

        `session`: on the master. `alike`: as of `RowSource.rows_under`. Raises as that.
        """
        if self.pair.transformation(table) is None:
            return None
        vendor = master_of(self.pair.master_info.vendor)
        shape = vendor.rows.shape(session, table)
        transform = None if shape is None else self.of(shape)
        if shape is None or transform is None:
            return [None] * len(keys)
        typed = compared(vendor.types, ((column.name, column.type) for column in shape.replicated))
        of = ComparedTable(table, typed, tuple(column.name for column in shape.key))
        of_master = vendor.rows.rows_under(session, of, keys, alike=alike)
        present = [place for place, row in enumerate(of_master) if row is not None]
        columns = list(zip(*(row for row in of_master if row is not None), strict=True)) or [()] * len(typed)
        rows = transform.rows([each.name for each in typed], [pa.array(column, TEXT) for column in columns])
        result: list[Row | None] = [None] * len(keys)
        for row, place in enumerate(present):
            if rows.kept is None or rows.kept[row]:
                values = (column[row].as_py() for column in rows.columns)
                result[place] = dict(zip(rows.names, values, strict=True))
        return result
