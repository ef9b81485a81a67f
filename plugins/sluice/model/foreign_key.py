"""A foreign key: the referring and the referred columns, and its actions."""

from dataclasses import dataclass

from sluice.model.names import TableName


@dataclass(frozen=True)
class ForeignKey:
    """`columns` of `child` refer to `parent_columns` of `parent`, in the same order.

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
        """Whether an update of a referred row changes the child's rows."""
        return self.on_update in "cnd"

    @property
    def follows_deletes(self) -> bool:
        """Whether a delete of a referred row changes the child's rows without deleting them."""
        return self.on_delete in "nd"

    @property
    def takes_along(self) -> bool:
        """Whether a delete of a referred row deletes the child's rows."""
        return self.on_delete == "c"
