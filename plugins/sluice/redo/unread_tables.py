"""Tables whose changes OpenLogReplicator leaves out without a message, according to a schema checkpoint. No I/O."""

from collections.abc import Callable, Iterator

from sluice.errors import Terminal
from sluice.model.names import Naming, TableName
from sluice.redo.checkpoints import Values

SHOWN = 20
_TABLE = 2
"""`type` of a table among the objects."""
_PASSING = 2 | 128
"""Bits of an object's `flags`: temporary; in the recycle bin."""
_PARTS = 1 << 9 | 1 << 13
"""Bits of a table's `property`: the overflow of an index-organized table; the storage of a nested table."""
_KINDS = {
    1 << 0: "is a table of objects",
    1 << 2: "has nested tables, whose rows are not read",
    1 << 6: "is index-organized",
    1 << 7: "is index-organized",
}
"""Bits of a table's `property`."""
_MAPPING = 1 << 29
"""A bit of a table's `flags`: of an index-organized table with a mapping table."""
_PARTITIONED, _UNMADE, _COMPRESSED = 1 << 5, 1 << 34, 1 << 2
"""Bits of `property`, of `flags`, and of `flags-stg` for a table without a segment."""


def explained(tables: list[str]) -> str:
    """What a person must know and do."""
    more = f"; and {len(tables) - SHOWN} more" if len(tables) > SHOWN else ""
    return (
        "OpenLogReplicator 1.9.0 leaves out changes of these tables and says nothing: "
        f"{'; '.join(tables[:SHOWN])}{more}. Leave them out of the replication (replicate: false), make ordinary "
        "tables of them, or capture this master by triggers. Then make a new schema checkpoint (redo.schema)."
    )


def expect(seed: Values, replicated: Callable[[TableName], bool], naming: Naming) -> None:
    """Checks the `replicated` tables, by their names on the slaves. Raises `tables-not-read`."""
    if tables := list(unread(seed, replicated, naming)):
        raise Terminal(explained(tables), code="tables-not-read")


def unread(seed: Values, replicated: Callable[[TableName], bool], naming: Naming) -> Iterator[str]:
    """Each such table, with the reason."""
    owners = {user["user"]: user["name"] for user in seed.get("sys-user", []) if user["name"] in seed["users"]}
    tables = {each["obj"]: each for each in seed.get("sys-tab", [])}
    unmade = {each["obj"]: _bits(each, "flags-stg") for each in seed.get("sys-deferredstg", [])}
    for table in seed.get("sys-obj", []):
        owner, described = owners.get(table["owner"]), tables.get(table["obj"])
        if table["type"] != _TABLE or owner is None or described is None or _bits(table, "flags") & _PASSING:
            continue
        why = _why(_bits(described, "property"), _bits(described, "flags"), unmade.get(table["obj"], 0))
        if why and replicated(TableName(naming(owner), naming(table["name"]))):
            yield f'"{owner}"."{table["name"]}" {why}'


def _why(kind: int, flags: int, unmade: int) -> str:
    if kind & _PARTS:
        return ""  # It is handled with its table.
    for bit, why in _KINDS.items():
        if kind & bit:
            return why
    if flags & _MAPPING:
        return "is index-organized"
    if not kind & _PARTITIONED and flags & _UNMADE and unmade & _COMPRESSED:
        return "is compressed"
    return ""


def _bits(values: Values, name: str) -> int:
    """Joins the words of a bit field, the lowest first."""
    words = values.get(name, [0])
    return sum(int(word) << 64 * index for index, word in enumerate(words))
