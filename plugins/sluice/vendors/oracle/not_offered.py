"""Functions that are not available on Oracle."""

from sluice.vendors.common.not_offered import NotOffered


def not_offered(what: str, remedy: str) -> NotOffered:
    return NotOffered("an Oracle database", what, remedy, "docs/oracle.md")
