"""Tests ask for an error by its code."""

import pytest

from sluice.errors import SluiceError


def raises_code(code: str, match: str | None = None) -> pytest.RaisesExc[SluiceError]:
    """Like `pytest.raises`, for the error of Sluice with this code."""
    return pytest.raises(SluiceError, match=match, check=lambda error: error.code == code)
