"""Whether the master logs what changes of its tables need, according to the schema checkpoint. No I/O.

Redo has the changed columns. Only supplemental logging adds the key of the row and the rest of it.
"""

from collections.abc import Callable, Iterator

from sluice.errors import Terminal
from sluice.model.names import Naming, TableName
from sluice.redo.checkpoints import Values

SHOWN = 20
_TABLE = 2
"""`type` of a table among the objects."""
_PRIMARY_KEY, _LOGS_KEY, _LOGS_ALL = 2, 14, 17
"""`type` of a constraint: the primary key; supplemental logging of it, and of all columns."""
_PASSING = 2 | 128
"""Bits of an object's `flags`: temporary; in the recycle bin. Their changes are in no redo, or belong to nobody."""


def explained(statements: list[str]) -> str:
    """The statements that a person must run."""
    more = f"\n… and {len(statements) - SHOWN} more" if len(statements) > SHOWN else ""
    return (
        "When the schema checkpoint was made, the master's redo did not say which rows of these tables change. Run "
        "there, then make a new schema checkpoint (redo.schema) and start again:\n"
        + ";\n".join(statements[:SHOWN])
        + f";{more}"
    )


def expect(seed: Values, replicated: Callable[[TableName], bool], naming: Naming) -> None:
    """Checks the `replicated` tables, by their names on the slaves. Raises `supplemental-logging-missing`."""
    if statements := list(lacking(seed, replicated, naming)):
        raise Terminal(explained(statements), code="supplemental-logging-missing")


def lacking(seed: Values, replicated: Callable[[TableName], bool], naming: Naming) -> Iterator[str]:
    """The statements that add it, one for each table."""
    everything, keys = bool(seed.get("supp-log-db-all")), bool(seed.get("supp-log-db-primary"))
    owners = {user["user"]: user["name"] for user in seed.get("sys-user", []) if user["name"] in seed["users"]}
    constraints: dict[int, set[int]] = {}
    for each in seed.get("sys-cdef", []):
        constraints.setdefault(each["obj"], set()).add(each["type"])
    for table in seed.get("sys-obj", []):
        owner, flags = owners.get(table["owner"]), table.get("flags", [0])[0]
        if table["type"] != _TABLE or owner is None or flags & _PASSING:
            continue
        kinds = constraints.get(table["obj"], set())
        has_key = _PRIMARY_KEY in kinds
        if everything or _LOGS_ALL in kinds or (has_key and (keys or _LOGS_KEY in kinds)):
            continue
        if replicated(TableName(naming(owner), naming(table["name"]))):
            columns = "PRIMARY KEY" if has_key else "ALL"
            yield f'ALTER TABLE "{owner}"."{table["name"]}" ADD SUPPLEMENTAL LOG DATA ({columns}) COLUMNS'
