"""Texts handed over to PostgreSQL as one array a column."""

from collections.abc import Sequence

from sluice.model.shape import Column


def array_type(column: Column) -> str:
    """The type in which the texts of a key column are handed over.

    Array input uses the input function of the elements' type; a cast from text could call a function that the type's
    owner has defined.
    """
    # Elements that are arrays would be taken for further dimensions.
    return ("text[]" if column.type.endswith("[]") else f"{column.type}[]").replace("%", "%%")


def array_literal(texts: Sequence[str | None]) -> str:
    """Texts as the literal of an array; None is NULL."""
    escaped = ("NULL" if text is None else '"' + _escaped(text) + '"' for text in texts)
    return "{" + ",".join(escaped) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
