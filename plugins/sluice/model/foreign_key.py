"""A foreign key: which columns of a table refer to which of another one, and what it does by itself."""

from dataclasses import dataclass

from sluice.model.names import TableName


@dataclass(frozen=True)
class ForeignKey:
    """`columns` of `child` refer to `parent_columns` of `parent`, each to the one at its place.

    `on_update`, `on_delete`: a no action, r restrict, c cascade, n set null, d set default.
    """

    child: TableName
    parent: TableName
    on_update: str
    on_delete: str
    columns: tuple[str, ...]
    parent_columns: tuple[str, ...]

    @property
    def follows_updates(self) -> bool:
        """Whether the child's rows change when the row they refer to gets other values."""
        return self.on_update in "cnd"

    @property
    def follows_deletes(self) -> bool:
        """Whether the child's rows change, but stay, when the row they refer to goes."""
        return self.on_delete in "nd"

    @property
    def takes_along(self) -> bool:
        """Whether the child's rows go with the row they refer to."""
        return self.on_delete == "c"
