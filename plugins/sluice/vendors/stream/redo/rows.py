"""Translates messages of one table under one description to changes of a recorded stream."""

from collections.abc import Collection, Mapping
from typing import Any

from sluice.model.names import Naming, TableName
from sluice.model.shape import Column, TableShape
from sluice.model.table_definition import TableDefinition
from sluice.vendors.stream.lines import RowChange, Values
from sluice.vendors.stream.redo.errors import Unfit
from sluice.vendors.stream.redo.messages import Payload
from sluice.vendors.stream.redo.messages import Values as Given
from sluice.vendors.stream.redo.types import IMPRECISE, LARGE, Convert, converter, slave_type

_FULL_IMAGES = "run ALTER TABLE … ADD SUPPLEMENTAL LOG DATA (ALL) COLUMNS on the master"
Row = dict[str, str | None]


class TableReader:
    """Reads the messages of a table with the columns of a schema message."""

    def __init__(self, schema: Mapping[str, Any], key: Collection[str], naming: Naming, unit: str):
        """`key`: by the master's names of its columns. Raises `Unfit` for a column that cannot be replicated."""
        self.table = TableName(naming(schema["owner"]), naming(schema["table"]))
        self._names = self.table.schema, self.table.name
        columns = schema.get("columns")
        if not columns:
            raise Unfit("has no columns: format.schema must be 7 for OpenLogReplicator")
        self._columns: dict[str, tuple[str, Convert | None]] = {}
        """For each name on the master: the slave's name, and the conversion of its values."""
        self._large: set[str] = set()
        self.imprecise = [column["name"] for column in columns if column["type"] in IMPRECISE]
        made = []
        ordered = [column["name"] for column in columns if column["name"] in key]
        for position, column in enumerate(columns, start=1):
            name = column["name"]
            target = naming(name)
            self._columns[name] = target, converter(column["type"], unit)
            if column["type"] in LARGE:
                self._large.add(target)
            number = ordered.index(name) + 1 if name in ordered else 0
            nullable = bool(column.get("nullable", True)) and not number
            made.append(Column(target, slave_type(column), position, nullable, number))
        if len(ordered) != len(set(key)):
            raise Unfit(f"lacks {', '.join(sorted(set(key) - set(ordered)))}, of the primary key")
        self.definition = TableDefinition(TableShape(self.table, tuple(made)))
        self._all = [column.name for column in made]
        self._key = [self._columns[name][0] for name in ordered]

    def change(self, payload: Payload) -> RowChange | None:
        """The change of a message; None if it changes nothing. Raises `Unfit`."""
        match payload.op:
            case "c":
                row = self._row(payload.after)
                if len(row) < len(self._all):
                    # A NULL at the end of a row is in no redo.
                    row = {name: row.get(name) for name in self._all}
                return RowChange("insert", self._names, row)
            case "d":
                return self._delete(self._row(payload.before))
        return self._update(self._row(payload.before), self._row(payload.after))

    def _delete(self, old: Row) -> RowChange:
        partial = len(old) < len(self._all)
        if partial:
            self._named(old)
        return RowChange("delete", self._names, old=old, partial=partial)

    def _update(self, before: Row, after: Row) -> RowChange | None:
        if lost := [name for name in before if name not in after and name not in self._large]:
            raise Unfit(
                f"an update says what {', '.join(lost)} was, and not what it is: OpenLogReplicator could not read it"
            )
        if not after:
            return None
        new = {**before, **after}
        partial = len(new) < len(self._all) or (bool(before) and len(before) < len(new))
        if partial:
            self._named(new)
        return RowChange("update", self._names, new, before or None, partial)

    def _named(self, row: Values) -> None:
        if not self._key:
            raise Unfit(
                f"a change leaves columns out, and the table has no primary key that names the row; {_FULL_IMAGES}"
            )
        if missing := [name for name in self._key if row.get(name) is None]:
            raise Unfit(f"a change leaves {', '.join(missing)} out, of the primary key; {_FULL_IMAGES}")

    def _row(self, values: Given) -> Row:
        columns = self._columns
        row: Row = {}
        try:
            for name, value in values.items():
                target, convert = columns[name]
                if value is not None:
                    if convert is not None:
                        value = convert(value)
                    elif type(value) is int:
                        value = str(value)
                row[target] = value
        except KeyError as unknown:
            raise Unfit(f"column {unknown.args[0]} is not in the schema message") from None
        return row
