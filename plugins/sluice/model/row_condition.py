"""Conditions on rows, independent of a vendor's SQL, with which a reader filters rows in the database."""

from dataclasses import dataclass
from enum import StrEnum


class Operator(StrEnum):
    """A comparison operator. NULL matches only IS_NULL."""

    EQUAL = "="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    IS_NULL = "IS NULL"
    NOT_NULL = "IS NOT NULL"


@dataclass(frozen=True)
class RowCondition:
    """`column operator value`; EQUAL matches any of `values`. Texts are as in ITEMS."""

    column: str
    operator: Operator
    values: tuple[str, ...] = ()
