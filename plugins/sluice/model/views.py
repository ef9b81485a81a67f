"""Views of a master, and which of them a slave can have: pure."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from sluice.model.names import TableName


@dataclass(frozen=True)
class View:
    """One view."""

    name: TableName
    columns: tuple[str, ...]
    types: tuple[str, ...]
    """Of the columns. Where one changes, PostgreSQL wants the view made anew."""
    options: tuple[str, ...]
    """As `security_barrier=true`."""
    query: str
    reads: tuple[TableName, ...]
    """Tables and views in its query."""
    tables: frozenset[TableName] = frozenset()
    """All tables that it reads, also through other views."""
    readers: tuple["View", ...] = ()
    """Views that read it, also through other views, each after those that it reads itself."""

    def read_by(self, names: Collection[TableName]) -> "View":
        """The same with no other readers than `names`."""
        return replace(self, readers=tuple(reader for reader in self.readers if reader.name in names))

    @property
    def definition(self) -> str:
        """The same where two views of one name are alike."""
        return repr((self.columns, self.types, sorted(self.options), self.query))


def replicated(views: Iterable[View], tables: Collection[TableName]) -> list[View]:
    """Those that read nothing but `tables` and each other, each after the views that it reads."""
    left = {view.name: view for view in views}
    known = {table: frozenset([table]) for table in tables}
    ordered: list[View] = []
    while True:
        found = [view for view in left.values() if all(read in known for read in view.reads)]
        if not found:
            break
        for view in found:
            del left[view.name]
            known[view.name] = frozenset().union(*(known[read] for read in view.reads))
            ordered.append(replace(view, tables=known[view.name]))
    complete: list[View] = []
    for view in reversed(ordered):
        names = {view.name}
        readers = []
        for other in complete:
            if names.intersection(other.reads):
                names.add(other.name)
                readers.append(other)
        complete.insert(0, replace(view, readers=tuple(readers)))
    return complete
