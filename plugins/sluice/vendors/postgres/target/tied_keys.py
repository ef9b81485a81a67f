"""The foreign keys of a PostgreSQL slave that are in the way where columns get another type.

The master may have dropped a key, changed both of its sides one after the other, and made it again under the same name.
"""

from sluice.database.apply import DefinitionChange
from sluice.database.following import defined
from sluice.database.session import Session
from sluice.model.change import Action
from sluice.model.defined import Defined
from sluice.vendors.postgres.target import constraints, tables


def retyped(connection: Session, item: DefinitionChange) -> list[Defined]:
    """The foreign keys from or to columns that `item` gives another type."""
    if item.action is not Action.ALTER or item.former is None or item.defined is None:
        return []
    table, before = item.former.table, {column.position: column for column in item.former.shape.columns}
    changed = {
        before[column.position].name
        for column in item.defined.shape.columns
        if column.position in before and before[column.position].type != column.type
    }
    if not changed:
        return []
    children = sorted({key.child for key in tables.foreign_keys(connection, [table])})
    return [
        defined(key)
        for key in constraints.constraints(connection, children)
        if (key.table == table and changed.intersection(key.columns or ()) and key.kind == "f")
        or (key.parent == table and changed.intersection(key.parent_columns or ()))
    ]
