"""Views of a master, and which of them a slave can have. No I/O."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from sluice.model.names import TableName


@dataclass(frozen=True)
class View:
    """One view."""

    name: TableName
    columns: tuple[str, ...]
    types: tuple[str, ...]
    """The types of the columns. If one changes, PostgreSQL requires the view to be created again."""
    options: tuple[str, ...]
    """Options such as `security_barrier=true`."""
    query: str
    reads: tuple[TableName, ...]
    """The tables and views in its query."""
    tables: frozenset[TableName] = frozenset()
    """All tables that it reads, also through other views."""
    readers: tuple["View", ...] = ()
    """The views that read it, also through other views, each after those that it reads itself."""

    def read_by(self, names: Collection[TableName]) -> "View":
        """The same, without readers other than `names`."""
        return replace(self, readers=tuple(reader for reader in self.readers if reader.name in names))

    @property
    def definition(self) -> str:
        """A value that is equal for two equal views of one name."""
        return repr((self.columns, self.types, sorted(self.options), self.query))


def replicated(views: Iterable[View], tables: Collection[TableName]) -> list[View]:
    """The views that read only `tables` and each other, each after those that it reads."""
    left = {view.name: view for view in views}
    known = {table: frozenset([table]) for table in tables}
    ordered: list[View] = []
    while True:
        ready = [view for view in left.values() if all(read in known for read in view.reads)]
        if not ready:
            break
        for view in ready:
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
