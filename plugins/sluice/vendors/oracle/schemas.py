"""Definitions of tables of an Oracle database (`sluice.database.schema.MasterSchemas`)."""

from sluice.vendors.common.master_schemas import PlainMasterSchemas
from sluice.vendors.oracle.target.tables import OracleDefinitions


class OracleSchemas(OracleDefinitions, PlainMasterSchemas):
    """Definitions of tables, on a master and on a slave."""
