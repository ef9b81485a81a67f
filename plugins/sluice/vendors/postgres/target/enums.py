"""Statements by which enums of a slave follow the master's: new types, added labels, renamed labels.

A label can be used only after the transaction that added it. So new types and labels are made before their window, in a
transaction of their own: an early label does no harm, and adding it again does nothing. Renames are made in the
window's transaction, at their place in it.
"""

from collections.abc import Collection, Iterable, Sequence

from sluice.database.session import Session
from sluice.model.table_definition import EnumType, TableDefinition
from sluice.vendors.postgres.connection import literal, quoted


class LabelsAmbiguous(Exception):
    """The slave has a label of the master's under its former and its present name."""

    def __init__(self, enum: EnumType, was: str, label: str):
        self.statement = f"ALTER TYPE {quoted(enum.schema, enum.name)} RENAME VALUE {literal(was)} TO {literal(label)}"
        super().__init__(
            f"the slave's enum has both labels, so rows with {was!r} there may be meant with either; give the label "
            f"{label!r}, which is the slave's own, another name there"
        )


def labels(connection: Session, enum: EnumType) -> list[str] | None:
    """The labels of the slave's enum of that name, in order; None if there is none."""
    row = connection.execute(
        "SELECT ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid "
        "ORDER BY e.enumsortorder) FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace "
        "WHERE t.typtype = 'e' AND n.nspname = %s AND t.typname = %s",
        [enum.schema, enum.name],
    ).fetchone()
    return None if row is None else list(row[0])


def creation(enum: EnumType) -> str:
    """The statement that creates the type."""
    values = ", ".join(literal(label) for _, label in enum.labels)
    return f"CREATE TYPE {quoted(enum.schema, enum.name)} AS ENUM ({values})"


class Names:
    """All names that the types and labels of a window have had; the slave has each under one of them."""

    def __init__(self) -> None:
        self._labels: dict[int, dict[str, None]] = {}
        self._types: dict[int, dict[tuple[str, str], None]] = {}
        self._first: dict[tuple[str, str], set[int]] = {}
        """Name → the labels of the first type that had it: the slave has that one."""

    def add(self, enum: EnumType) -> None:
        self._first.setdefault((enum.schema, enum.name), numbers_of([enum]))
        for number, label in enum.labels:
            self._labels.setdefault(number, {})[label] = None
            self._types.setdefault(number, {})[enum.schema, enum.name] = None

    def of_type(self, enum: EnumType) -> list[EnumType]:
        """The type under each of its names, but for those that another type had before."""
        numbers = numbers_of([enum])
        names = {name: None for number in numbers for name in self._types[number] if self._first[name] & numbers}
        return [EnumType(schema, name, enum.labels) for schema, name in names] or [enum]

    def renamed(self, enum: EnumType) -> bool:
        """Whether a label of the type has had two names."""
        return any(len(self._labels[number]) > 1 for number, _ in enum.labels)

    def on_slave(self, enum: EnumType, present: Sequence[str], before: Collection[int] = ()) -> dict[int, str]:
        """Number → what the slave calls that label, for those that it has. `before`: the labels before the change.

        A rename keeps the place of a label. So where the slave has as many labels as the master has, or had, the places
        tell; else the names do, of which no two labels share one.
        """
        numbers = [number for number, _ in enum.labels]
        waiting = {number: _waiting(number) for number in numbers if _waiting(number) in present}
        others = [label for label in present if not label.startswith(_WAITING)]
        rest = [number for number in numbers if number not in waiting]
        for candidates in (rest, [number for number in rest if number in before]):
            pairs = list(zip(candidates, others, strict=False))
            if len(candidates) == len(others) and all(self._may_be(enum, *pair, before) for pair in pairs):
                return waiting | dict(pairs)
        # In the order of their first mention, so that a label keeps its name before another one gets it.
        ordered = [number for number in self._labels if number in rest]
        for first_alone in (True, False):
            for number in ordered:
                names = list(self._labels[number])[: 1 if first_alone else None]
                free = (name for name in names if name in others and name not in waiting.values())
                if number not in waiting and (name := next(free, None)) is not None:
                    waiting[number] = name
        return waiting

    def _may_be(self, enum: EnumType, number: int, name: str, before: Collection[int]) -> bool:
        """Whether the slave's label of this name can be that of the number."""
        if name in self._labels[number]:
            return True
        # Another table's items, for the same type, may have given it a name that these do not tell of.
        return number in before and not any(name in self._labels[other] for other, _ in enum.labels)


_WAITING = "sluice label "
"""How the name begins under which a new label waits for its place among the renames of a window."""


def _waiting(number: int) -> str:
    return f"{_WAITING}{number}"


def additions(enum: EnumType, present: Sequence[str], names: Names, before: Collection[int] = ()) -> list[str]:
    """The statements that add the labels that the slave's `present` ones lack, each beside its neighbor.

    `before`: the labels before the change. Where the window renames labels, a new one gets its own name by `renames`.
    """
    labels = list(present)
    on_slave = names.on_slave(enum, present, before)
    statements: list[str] = []
    neighbor: str | None = None
    for number, label in enum.labels:
        existing = on_slave.get(number)
        if existing is None:
            existing = _waiting(number) if names.renamed(enum) or label in labels else label
            first = f" BEFORE {literal(labels[0])}" if labels else ""
            after = f" AFTER {literal(neighbor)}" if neighbor is not None else first
            name = quoted(enum.schema, enum.name)
            statements.append(f"ALTER TYPE {name} ADD VALUE IF NOT EXISTS {literal(existing)}{after}")
            labels.insert(labels.index(neighbor) + 1 if neighbor is not None else 0, existing)
        neighbor = existing
    return statements


def renames(old: TableDefinition, enum: EnumType, present: Sequence[str]) -> list[str]:
    """The statements that rename the slave's labels as the master's were renamed; none where another table's item, for
    the same type, has done so.

    Raises `LabelsAmbiguous` if the slave has both names of a label, so that it cannot be told what its rows mean.
    """
    names, wanted = Names(), dict(enum.labels)
    for type_ in old.enums:
        names.add(type_)
    names.add(enum)
    on_slave = names.on_slave(enum, present, numbers_of(old.enums))
    waiting = {number: was for number, was in on_slave.items() if was != wanted[number]}
    in_order = [label for label in present if label in wanted.values()] == list(wanted.values())
    if in_order and set(waiting.values()) <= set(wanted.values()):
        return []
    labels = set(present)
    name = quoted(enum.schema, enum.name)
    statements: list[str] = []

    def rename(number: int, label: str) -> None:
        nonlocal labels
        statements.append(f"ALTER TYPE {name} RENAME VALUE {literal(waiting[number])} TO {literal(label)}")
        labels = labels - {waiting[number]} | {label}

    # A label may get the former name of another one.
    while waiting:
        ready = [number for number in waiting if wanted[number] not in labels]
        for number in ready:
            rename(number, wanted[number])
            del waiting[number]
        if not ready:
            for number, was in waiting.items():
                if wanted[number] not in waiting.values():
                    raise LabelsAmbiguous(enum, was, wanted[number])
            # Names are exchanged: through one that nobody has.
            number = next(number for number, was in waiting.items() if was != _waiting(number))
            rename(number, _waiting(number))
            waiting[number] = _waiting(number)
    return statements


def numbers_of(types: Iterable[EnumType]) -> set[int]:
    """The numbers of the labels."""
    return {number for type_ in types for number, _ in type_.labels}


def moves(old: TableDefinition, enum: EnumType) -> tuple[EnumType, list[str]] | None:
    """The type under its former name, and the statements that rename it; None if it kept its name."""
    numbers = {number for number, _ in enum.labels}
    was = next((type_ for type_ in old.enums if numbers & {number for number, _ in type_.labels}), None)
    if was is None or (was.schema, was.name) == (enum.schema, enum.name):
        return None
    statements: list[str] = []
    if was.name != enum.name:
        statements.append(f"ALTER TYPE {quoted(was.schema, was.name)} RENAME TO {quoted(enum.name)}")
    if was.schema != enum.schema:
        statements.append(f"ALTER TYPE {quoted(was.schema, enum.name)} SET SCHEMA {quoted(enum.schema)}")
    return was, statements
