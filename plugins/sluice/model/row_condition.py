"""Conditions on rows, in no vendor's SQL: what a reader of a table asks its database for."""

from dataclasses import dataclass
from enum import StrEnum


class Operator(StrEnum):
    """How a column is compared. NULL meets none of them but IS_NULL."""

    EQUAL = "="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    IS_NULL = "IS NULL"
    NOT_NULL = "IS NOT NULL"


@dataclass(frozen=True)
class RowCondition:
    """`column operator value`, of EQUAL any of `values`, whose texts are as the change queue has them."""

    column: str
    operator: Operator
    values: tuple[str, ...] = ()
