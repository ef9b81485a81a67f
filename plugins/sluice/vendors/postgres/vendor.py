"""PostgreSQL: which function is which part of a master, and of a slave."""

from sluice.database.apply import ApplyTarget
from sluice.database.changes import ReaderClass
from sluice.database.load import LoadTarget
from sluice.database.preflight import MasterPreflight
from sluice.database.row_images import RowImageCodec
from sluice.database.rows import MasterRows, RowFormat
from sluice.database.schema import MasterSchemas
from sluice.database.vendor import Master
from sluice.vendors.postgres import (
    accounts,
    catalog,
    column_types,
    domains,
    failover,
    fetch_rows,
    issues,
    key_order,
    queries,
    row_copy,
    row_selection,
    sequences,
    sessions,
    types,
    views,
)
from sluice.vendors.postgres.digester import PostgresDigester
from sluice.vendors.postgres.row_copy import RowStream
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from sluice.vendors.postgres.source import preflight_master, server_load, snapshot
from sluice.vendors.postgres.source.broadcasts import PostgresBroadcasts
from sluice.vendors.postgres.source.queue import PostgresQueue
from sluice.vendors.postgres.source.resources import PostgresCapture
from sluice.vendors.postgres.target import constraints, following, load_ownership, not_null, preflight_slave
from sluice.vendors.postgres.target import tables as table_definitions
from sluice.vendors.postgres.target.control_tables import PostgresTables


class PostgresRows(MasterRows):
    """Tables, keys and snapshots."""

    formats = frozenset(RowFormat)
    stream = RowStream
    shape = staticmethod(catalog.shape)
    shapes = staticmethod(catalog.shapes)
    tables = staticmethod(catalog.tables)
    estimates = staticmethod(catalog.estimates)
    key_order = staticmethod(key_order.key_order)
    begin_snapshot = staticmethod(snapshot.begin)
    export_snapshot = staticmethod(snapshot.export)
    reading_exported = staticmethod(snapshot.reading_exported)
    whole = staticmethod(snapshot.whole)
    rows_under = staticmethod(fetch_rows.rows)
    copies = staticmethod(fetch_rows.copies)
    special = staticmethod(fetch_rows.example)


class PostgresSchemas(MasterSchemas):
    """Definitions of tables."""

    tables = staticmethod(table_definitions.define)
    locked = staticmethod(catalog.locked)
    collations = staticmethod(types.collations)
    types = staticmethod(types.needed)
    indexes = staticmethod(constraints.indexes)
    lacking = staticmethod(constraints.lacking)
    surplus = staticmethod(constraints.surplus)
    constraints = staticmethod(constraints.constraints)
    free_sequences = staticmethod(sequences.free)
    sequences = staticmethod(sequences.read)
    comments = staticmethod(domains.comments)
    views = staticmethod(views.read)
    domain_checks = staticmethod(domains.checks)
    missing_domain_checks = staticmethod(domains.lacking)


class PostgresPreflight(MasterPreflight):
    """What a server or an account on it lacks."""

    of_refusal = staticmethod(issues.of_refusal)
    of_master = staticmethod(preflight_master.find)
    sequences_of_master = staticmethod(preflight_master.of_sequences)
    requirements = staticmethod(preflight_slave.requirements)
    of_slave = staticmethod(preflight_slave.find)
    sequences_of_slave = staticmethod(preflight_slave.of_sequences)


class PostgresLoadTarget(LoadTarget):
    """A slave that is loaded."""

    refusals = staticmethod(table_definitions.refusals)
    not_tables = staticmethod(table_definitions.not_tables)
    missing_privileges = staticmethod(table_definitions.missing_privileges)
    foreign_keys = staticmethod(table_definitions.foreign_keys)
    with_unique_values = staticmethod(table_definitions.with_unique_values)
    type_differences = staticmethod(types.differences)
    type_extensions = staticmethod(types.extensions_of_enums)
    missing_collations = staticmethod(types.missing_collations)
    create_types = staticmethod(types.create)
    extend_types = staticmethod(types.extend_enums)
    create_table = staticmethod(table_definitions.create)
    create_scratch = staticmethod(table_definitions.create_scratch)
    drop_table = staticmethod(table_definitions.drop)
    strip = staticmethod(constraints.strip)
    empty = staticmethod(table_definitions.empty)
    formats = staticmethod(row_copy.formats)
    write = staticmethod(row_copy.write)
    clear = staticmethod(row_copy.clear)
    delete = staticmethod(row_selection.delete)
    analyze = staticmethod(table_definitions.analyze)
    complete_indexes = staticmethod(constraints.complete_indexes)
    complete_constraints = staticmethod(constraints.complete_constraints)
    complete_columns = staticmethod(not_null.complete_columns)
    advance_sequences = staticmethod(sequences.advance)


class Postgres(Master):
    """Parts that need pyarrow are imported at their first use."""

    position = staticmethod(SnapshotPosition.parse)
    located = staticmethod(accounts.located)
    own_tables = PostgresTables
    sessions = sessions
    queue = PostgresQueue
    capture = PostgresCapture
    broadcasts = PostgresBroadcasts
    types = column_types
    load_locks = load_ownership
    following = following
    queries = queries
    digests = PostgresDigester()
    rows = PostgresRows()
    schemas = PostgresSchemas()
    selection = row_selection
    load_target = PostgresLoadTarget()
    preflight = PostgresPreflight()
    failover = failover
    accounts = accounts
    contents = accounts
    server_load = server_load

    @property
    def images(self) -> RowImageCodec:
        from sluice.database import xml_images

        return xml_images

    @property
    def reader(self) -> ReaderClass:
        from sluice.vendors.postgres.source.reader import PostgresReader

        return PostgresReader

    @property
    def applying(self) -> ApplyTarget:
        from sluice.vendors.postgres.target.apply_target import APPLYING

        return APPLYING


POSTGRES = Postgres()
