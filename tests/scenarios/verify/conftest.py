"""The rig of the apply scenarios, and what a verification of it is given."""

from tests.scenarios.apply.conftest import rig

__all__ = ["rig"]
