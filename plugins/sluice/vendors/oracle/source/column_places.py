"""Matches columns of a definition with those of the definition before it.

Oracle numbers columns again when one is dropped, so a number does not identify a column, as `Column.position` has
to.
"""

from dataclasses import replace

from sluice.model.table_definition import TableDefinition


def with_places(now: TableDefinition, before: TableDefinition) -> TableDefinition:
    """`now` with the column numbers of `before`.

    A column with the same name is the same one. If there are as many columns as before, a column with a new name
    counts as the missing one of its place, which was renamed. All others are new.
    """
    former, present = before.shape.columns, now.shape.columns
    names = {column.name for column in present}
    places = {column.name: column.position for column in former}
    gone = {column.position for column in former if column.name not in names}
    renamed = len(former) == len(present)
    last = max([column.position for column in former], default=0)
    columns = []
    for column in present:
        place = places.get(column.name)
        if place is None and renamed and column.position in gone:
            place = column.position
        if place is None:
            last += 1
            place = last
        columns.append(replace(column, position=place))
    return replace(now, shape=replace(now.shape, columns=tuple(columns)))
