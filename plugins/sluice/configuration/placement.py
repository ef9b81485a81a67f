"""Where a slave has the tables of its master: under other names, where a line under `tables` says `target`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from glob import escape

from sluice.configuration.mistakes import Mistake
from sluice.configuration.resolve import rule_for
from sluice.configuration.rule import TablePattern, TableRule, Target
from sluice.model.names import NameOfSlave, PlacedName, TableName

_ANOTHER = "name another place for one of the two"


@dataclass(frozen=True)
class Placement:
    """Of one slave. No two tables of the master have one place: see `taken`."""

    own: tuple[TableRule, ...] = ()
    """The slave's lines, which come before all others."""
    common: tuple[TableRule, ...] = ()

    def __bool__(self) -> bool:
        return any(rule.target is not None for rule in self._rules)

    @classmethod
    def of_tables(cls, places: Mapping[TableName, TableName]) -> "Placement":
        """That of single tables."""
        rules = (
            TableRule(TablePattern(table.schema, table.name), target=Target(there.schema, there.name))
            for table, there in places.items()
        )
        return cls(tuple(rules))

    def there(self, table: TableName) -> TableName:
        """The name on the slave of a table of the master, or of one of the slave's own (`NameOfSlave`)."""
        if isinstance(table, NameOfSlave):
            return TableName(table.schema, table.name)
        if isinstance(table, PlacedName):
            return table
        found = self._there.get(table)
        if found is None:
            place = self._place(table)
            found = self._there[table] = table if place == table else PlacedName(place, table)
        return found

    def here(self, name: TableName) -> TableName:
        """What the master calls a table of the slave; a `NameOfSlave` where the master has another of that name."""
        found = self._here.get(name)
        if found is None:
            plain = TableName(name.schema, name.name)
            candidates = (table for table in self._candidates(plain) if self._place(table) == plain)
            stays = self._place(plain) == plain
            found = next(candidates, plain if stays else NameOfSlave(plain.schema, plain.name))
            self._here[plain] = found
        return found

    def taken(self, tables: Iterable[TableName]) -> dict[TableName, TableName]:
        """Those of the master's `tables` that cannot be on the slave, each with the table that has its place."""
        found = ((table, self.here(self.there(table))) for table in tables) if self else ()
        return {table: holder for table, holder in found if holder != table}

    def places(self, tables: Iterable[TableName]) -> dict[TableName, TableName]:
        """The names on the slave of those of `tables` that have others there."""
        found = {table: self._place(table) for table in tables} if self else {}
        return {table: place for table, place in found.items() if place != table}

    @property
    def text(self) -> str:
        """For people: which tables have which names on the slave; empty where all have the master's."""
        said = {}
        for rule in (*self.common, *self.own):  # a line of the slave's takes the place of the same one for all
            said[rule.pattern] = rule.target
        return ", ".join(f"{pattern} is {target.pattern(pattern)}" for pattern, target in said.items() if target)

    def patterns(self, patterns: Iterable[str]) -> tuple[str, ...]:
        """Patterns of columns (`schema.table.column`), and the same of the names on the slave."""
        given = tuple(patterns)
        found = dict.fromkeys(given)
        for rule in self._rules:
            if rule.target is None:
                continue
            schema, name = rule.target.schema or rule.pattern.schema, rule.target.name or rule.pattern.name
            exact = not rule.pattern.wildcard
            ahead = f"{rule.pattern.schema}.{rule.pattern.name}." if exact else f"{rule.pattern.schema}."
            there = f"{escape(schema)}.{escape(name)}." if exact else f"{escape(schema)}."
            found |= dict.fromkeys(f"{there}{rest}" for pattern in given for rest in _rests(pattern, ahead))
        return tuple(found)

    def _place(self, table: TableName) -> TableName:
        rule = rule_for(table, self.own) or rule_for(table, self.common)
        return table if rule is None or rule.target is None else rule.target.of(table)

    def _candidates(self, name: TableName) -> Iterator[TableName]:
        """Tables of the master that may be called so on the slave; single ones first."""
        for rule in sorted(self._rules, key=lambda rule: rule.pattern.wildcard):
            if rule.target is None:
                continue
            if not rule.pattern.wildcard:
                yield rule.pattern.table
            elif rule.target.schema == name.schema:
                yield TableName(rule.pattern.schema, name.name)

    @property
    def _rules(self) -> tuple[TableRule, ...]:
        return (*self.own, *self.common)

    @cached_property
    def _there(self) -> dict[TableName, TableName]:
        return {}

    @cached_property
    def _here(self) -> dict[TableName, TableName]:
        return {}


def _rests(pattern: str, ahead: str) -> Iterator[str]:
    """What of `pattern` is left for texts that begin with `ahead`."""
    for at in range(len(pattern) + 1):
        if fnmatchcase(ahead, pattern[:at]):
            yield pattern[at:]
            if pattern[:at].endswith("*"):
                yield f"*{pattern[at:]}"


def check(common: Iterable[TableRule], slaves: Iterable[Iterable[TableRule]], mistakes: list[Mistake]) -> None:
    """Adds the lines that lead two tables to one place. `slaves`: the lines of each slave's own.

    Which tables a wildcard covers only the master can tell: see `Placement.taken`.
    """
    lines, found = tuple(common), dict[Mistake, None]()
    for own in [(), *map(tuple, slaves)]:
        placement = Placement(own, lines)
        rules = {rule.pattern.table: rule for rule in (*lines, *own) if not rule.pattern.wildcard and rule.replicate}
        for table, holder in placement.taken(rules).items():
            rule = next((each for each in (rules[table], rules.get(holder)) if each and each.target), None)
            if rule is not None and rule.target is not None:
                other = holder if rule is rules[table] else table
                problem = f"leads to {placement.there(table).on_slave}, where {other} has its place"
                found[rule.target.mistake(problem, _ANOTHER)] = None
        schemas: dict[str, TableRule] = {}
        for rule in (*own, *lines):
            if rule.pattern.wildcard and rule.target is not None and rule.target.schema is not None:
                first = schemas.setdefault(rule.target.schema, rule)
                if first.pattern.schema != rule.pattern.schema:
                    problem = f"leads to the schema {rule.target.schema}, as {first.pattern} does"
                    found[rule.target.mistake(problem, _ANOTHER)] = None
    mistakes += found
