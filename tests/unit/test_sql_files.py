"""The statements that are kept as files."""

from pathlib import Path

import pytest

from sluice import sql_files

FILES = sorted(sql_files.folder().rglob("*.sql"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_statement_is_ascii_because_databases_of_other_encodings_read_it(file: Path) -> None:
    """Lines of the header, which are no part of the statement, may hold anything."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("--")]
    assert [line for line in lines if not line.isascii()] == []
