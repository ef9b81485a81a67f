"""Where keys lie among the bounds of blocks, on a PostgreSQL master."""

from collections.abc import Sequence

from sluice import sql_files
from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.model.shape import Column, TableShape
from sluice.vendors.postgres.key_order import typed


def locate(connection: Session, shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]) -> list[int]:
    """For each key the place of its block in `TableBlocks.blocks`: how many `bounds` are at or below it.

    `bounds` as `TableBlocks.bounds` gives them, keys as canonical texts; both in the order of
    `shape.key`. Asks the MASTER: the slave, or Python, could order texts differently.
    """
    if not bounds or not keys:
        return [0] * len(keys)
    names = [f"k{number}" for number in range(1, len(shape.key) + 1)]
    statement = sql_files.render(
        "postgres",
        "blocks_locate",
        columns=", ".join(
            f"unnest(%({name})s::{array_type(column)}) AS {name}" for name, column in zip(names, shape.key, strict=True)
        ),
        typed=", ".join(typed(column, name) for name, column in zip(names, shape.key, strict=True)).replace("%", "%%"),
    )
    texts = [*bounds, *keys]
    parameters: dict[str, object] = {
        name: array_literal([text[place] for text in texts]) for place, name in enumerate(names)
    }
    rows = connection.execute(statement, {**parameters, "bounds": len(bounds), "texts": len(texts)}).fetchall()
    return [place for (place,) in rows]


def array_type(column: Column) -> str:
    """The type in which the texts of a key column are handed over: the input function of an array reads its elements
    by their own, where a cast from text would call whatever function the type's owner made one of."""
    # Elements that are arrays would be taken for further dimensions.
    return ("text[]" if column.type.endswith("[]") else f"{column.type}[]").replace("%", "%%")


def array_literal(texts: Sequence[str | None]) -> str:
    """Texts as the literal of an array; None is NULL."""
    escaped = ("NULL" if text is None else '"' + _escaped(text) + '"' for text in texts)
    return "{" + ",".join(escaped) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
