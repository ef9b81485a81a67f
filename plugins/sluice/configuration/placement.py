"""Maps names of tables between master and slave: they differ if a line under `tables` has a `target`."""

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
    """The names on one slave. No two tables of the master have the same name there: see `taken`."""

    own: tuple[TableRule, ...] = ()
    """The slave's own lines, which take precedence."""
    common: tuple[TableRule, ...] = ()

    def __bool__(self) -> bool:
        return any(rule.target is not None for rule in self._rules)

    @classmethod
    def of_tables(cls, places: Mapping[TableName, TableName]) -> "Placement":
        """The placement of single tables."""
        rules = (
            TableRule(TablePattern(table.schema, table.name), target=Target(on_slave.schema, on_slave.name))
            for table, on_slave in places.items()
        )
        return cls(tuple(rules))

    def slave_name(self, table: TableName) -> TableName:
        """The name on the slave of a table of the master, or of one of the slave's own (`NameOfSlave`)."""
        if isinstance(table, NameOfSlave):
            return TableName(table.schema, table.name)
        if isinstance(table, PlacedName):
            return table
        name = self._slave_names.get(table)
        if name is None:
            on_slave = self._name_on_slave(table)
            name = self._slave_names[table] = table if on_slave == table else PlacedName(on_slave, table)
        return name

    def master_name(self, name: TableName) -> TableName:
        """The master's name of a slave's table; a `NameOfSlave` if the master's table of that name is another one."""
        master_name = self._master_names.get(name)
        if master_name is None:
            plain = TableName(name.schema, name.name)
            candidates = (table for table in self._candidates(plain) if self._name_on_slave(table) == plain)
            stays = self._name_on_slave(plain) == plain
            master_name = next(candidates, plain if stays else NameOfSlave(plain.schema, plain.name))
            self._master_names[plain] = master_name
        return master_name

    def taken(self, tables: Iterable[TableName]) -> dict[TableName, TableName]:
        """Those of the master's `tables` whose name on the slave another table has, with that table."""
        holders = ((table, self.master_name(self.slave_name(table))) for table in tables) if self else ()
        return {table: holder for table, holder in holders if holder != table}

    def places(self, tables: Iterable[TableName]) -> dict[TableName, TableName]:
        """Those of `tables` that have another name on the slave, with that name."""
        places = {table: self._name_on_slave(table) for table in tables} if self else {}
        return {table: on_slave for table, on_slave in places.items() if on_slave != table}

    @property
    def text(self) -> str:
        """A text about names that differ on the slave; empty if none does."""
        targets = {}
        for rule in (*self.common, *self.own):  # a line of the slave replaces the same line for all
            targets[rule.pattern] = rule.target
        return ", ".join(f"{pattern} is {target.pattern(pattern)}" for pattern, target in targets.items() if target)

    def patterns(self, patterns: Iterable[str]) -> tuple[str, ...]:
        """Patterns of columns (`schema.table.column`), and the same patterns with the names on the slave."""
        given = tuple(patterns)
        on_both = dict.fromkeys(given)
        for rule in self._rules:
            if rule.target is None:
                continue
            schema, name = rule.target.schema or rule.pattern.schema, rule.target.name or rule.pattern.name
            exact = not rule.pattern.wildcard
            ahead = f"{rule.pattern.schema}.{rule.pattern.name}." if exact else f"{rule.pattern.schema}."
            prefix = f"{escape(schema)}.{escape(name)}." if exact else f"{escape(schema)}."
            on_both |= dict.fromkeys(f"{prefix}{rest}" for pattern in given for rest in _rests(pattern, ahead))
        return tuple(on_both)

    def _name_on_slave(self, table: TableName) -> TableName:
        rule = rule_for(table, self.own) or rule_for(table, self.common)
        return table if rule is None or rule.target is None else rule.target.of(table)

    def _candidates(self, name: TableName) -> Iterator[TableName]:
        """Tables of the master that may have this name on the slave; single tables first."""
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
    def _slave_names(self) -> dict[TableName, TableName]:
        return {}

    @cached_property
    def _master_names(self) -> dict[TableName, TableName]:
        return {}


def _rests(pattern: str, ahead: str) -> Iterator[str]:
    """The rests of `pattern` after a beginning that matches `ahead`."""
    for at in range(len(pattern) + 1):
        if fnmatchcase(ahead, pattern[:at]):
            yield pattern[at:]
            if pattern[:at].endswith("*"):
                yield f"*{pattern[at:]}"


def check(common: Iterable[TableRule], slaves: Iterable[Iterable[TableRule]], mistakes: list[Mistake]) -> None:
    """Adds mistakes for lines that give two tables the same name. `slaves`: each slave's own lines.

    Only the master knows which tables a wildcard matches: see `Placement.taken`.
    """
    lines, new_mistakes = tuple(common), dict[Mistake, None]()
    for own in [(), *map(tuple, slaves)]:
        placement = Placement(own, lines)
        rules = {rule.pattern.table: rule for rule in (*lines, *own) if not rule.pattern.wildcard and rule.replicate}
        for table, holder in placement.taken(rules).items():
            rule = next((each for each in (rules[table], rules.get(holder)) if each and each.target), None)
            if rule is not None and rule.target is not None:
                other = holder if rule is rules[table] else table
                problem = f"leads to {placement.slave_name(table).on_slave}, where {other} has its place"
                new_mistakes[rule.target.mistake(problem, _ANOTHER)] = None
        schemas: dict[str, TableRule] = {}
        for rule in (*own, *lines):
            if rule.pattern.wildcard and rule.target is not None and rule.target.schema is not None:
                first = schemas.setdefault(rule.target.schema, rule)
                if first.pattern.schema != rule.pattern.schema:
                    problem = f"leads to the schema {rule.target.schema}, as {first.pattern} does"
                    new_mistakes[rule.target.mistake(problem, _ANOTHER)] = None
    mistakes += new_mistakes
