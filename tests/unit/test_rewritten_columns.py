"""Which changes of a column's type make the master write all rows again, so that a slave need not convert any."""

import pytest

from sluice.vendors.common.alter import rewritten
from sluice.vendors.postgres.column_types import logical


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("text", "integer", True),
        ("integer", "uuid", True),
        ("integer", "timestamp with time zone", True),
        ("boolean", "integer", True),
        ("numeric(10,2)", "integer", True),
        ("numeric(10,2)", "numeric(10,4)", True),
        ("numeric", "numeric(10,2)", True),
        ("numeric(12,2)", "numeric(10,2)", True),
        ("numeric(10,2)", "numeric(12,2)", False),
        ("numeric(10,2)", "numeric", False),
        ("character varying(10)", "text", False),
        ("regclass", "oid", False),
        ("text[]", "integer", True),
        ("xml", "text", False),
        ("timestamp with time zone", "timestamp without time zone", False),
    ],
)
def test_a_type_of_another_kind_or_fewer_digits_rewrites_the_rows(old: str, new: str, expected: bool) -> None:
    assert rewritten(logical(old), logical(new)) is expected
