"""Which column of a definition is which one of the definition before it.

Oracle numbers columns anew when one is dropped, so a number does not stay with its column, as `Column.position` says.
"""

from dataclasses import replace

from sluice.model.table_definition import TableDefinition


def with_places(now: TableDefinition, before: TableDefinition) -> TableDefinition:
    """`now`, its columns numbered as those of `before` are that they were.

    A column that has its name is the same one. Where there are as many columns as before, one with a new name is taken
    for the one that stood at its place and is gone: it was renamed. All others are new.
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
