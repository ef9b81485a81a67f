"""A PostgreSQL slave that is loaded (`sluice.database.load.LoadTarget`)."""

# ruff: noqa: F401 (what is imported here is offered)

from sluice.vendors.postgres.row_copy import clear, formats, write
from sluice.vendors.postgres.row_selection import delete
from sluice.vendors.postgres.sequences import advance as advance_sequences
from sluice.vendors.postgres.target.constraints import complete_constraints, complete_indexes, strip
from sluice.vendors.postgres.target.not_null import complete_columns
from sluice.vendors.postgres.target.tables import (
    analyze,
    create_scratch,
    empty,
    foreign_keys,
    lacking_privileges,
    not_tables,
    refusals,
    with_unique_values,
)
from sluice.vendors.postgres.target.tables import create as create_table
from sluice.vendors.postgres.target.tables import drop as drop_table
from sluice.vendors.postgres.types import collations_lacking
from sluice.vendors.postgres.types import create as create_types
from sluice.vendors.postgres.types import differences as type_differences
from sluice.vendors.postgres.types import extend_enums as extend_types
from sluice.vendors.postgres.types import extensions_of_enums as type_extensions
