"""The vendors of databases, one line each: all that is known of a vendor before its package is imported."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class VendorEntry:
    """What a vendor is and can do."""

    member: str
    """The place of its `sluice.database.vendor.Target`, or `Master`, as `module:name`."""
    port: int
    """The default port of its servers."""
    slave_only: bool = False
    """It cannot be a master."""
    fails_over: bool = False
    """A slave can become the master."""
    redis_checkpoint: bool = False
    """A slave's checkpoint can be kept in Redis."""
    transactional_ddl: bool = False
    """A rollback undoes DDL, like the other statements of a transaction."""
    shared_snapshots: bool = False
    """Other sessions can import an exported snapshot. If not, they must begin while nobody writes."""
    own_texts: bool = False
    """Two servers write values alike, and compare them at less cost than by canonical texts."""
    several_rows: bool = True
    """A slave can have several rows that an exit makes of one."""
    rehearsed: bool = False
    """Migrations of a master that triggers capture can be rehearsed on throw-away servers."""
    databases: tuple[str, ...] = ()
    """Extras of an Airflow connection that name the database in place of its schema."""
    options: tuple[str, ...] = ()
    """Driver options of this vendor."""
    fold: Callable[[str], str] = str.lower
    """How its SQL reads a name without double quotes."""
    logged_master: str = ""
    """What reads rows of its servers beside their recorded log: a `sluice.database.vendor.Master`."""
    change_log: str = ""
    """What reads the log of its servers: a `sluice.database.change_log.ChangeLogClass`."""
    archived_logs: str = ""
    """Queries a master for its archived redo logs: gives `sluice.database.redo_files.ArchivedLogs` of a session."""
    disk_groups: str = ""
    """Reads redo logs in the master's own storage: gives `sluice.database.redo_files.DiskGroups` of an address."""


VENDORS = {
    "postgres": VendorEntry(
        "sluice.vendors.postgres.vendor:POSTGRES",
        5432,
        fails_over=True,
        redis_checkpoint=True,
        transactional_ddl=True,
        shared_snapshots=True,
        own_texts=True,
        rehearsed=True,
        options=("require_auth",),
    ),
    "mysql": VendorEntry(
        "sluice.vendors.mysql.vendor:MYSQL",
        3306,
        slave_only=True,
        fold=str,
        logged_master="sluice.vendors.mysql.master.vendor:MASTER",
        change_log="sluice.vendors.mysql.binlog.log:BinaryLog",
    ),
    "oracle": VendorEntry(
        "sluice.vendors.oracle.vendor:ORACLE",
        1521,
        several_rows=False,
        databases=("service_name", "sid"),
        options=(
            *("sid", "wallet_location", "wallet_password", "ssl_server_cert_dn"),
            *("thick_mode", "thick_mode_lib_dir", "thick_mode_config_dir"),
        ),
        fold=str.upper,
        archived_logs="sluice.vendors.oracle.source.archived_logs:read",
        disk_groups="sluice.vendors.oracle.source.asm:connect",
    ),
}
"""The vendors by their word in the configuration, in an Airflow connection's type, and in the folders `vendors/` and
`include/sql/`."""

MASTERS = [name for name, entry in VENDORS.items() if not entry.slave_only]
"""The vendors that a master may have."""

LOGGED_MASTERS = [name for name, entry in VENDORS.items() if entry.logged_master]
"""The vendors that a master may have whose log is recorded."""

CAPTURED = [*MASTERS, *LOGGED_MASTERS]
"""The vendors that a master may have, by one way to capture or another."""

STREAM = "stream"
REDO = "redo"
BINLOG = "binlog"
"""Ways to capture other than triggers: recorded files; redo logs, which are merged into such files; a server's own log,
which is recorded into them."""

SOURCES = {STREAM: "sluice.vendors.stream.source:RECORDED"}
"""Sources of changes that are no databases: the place of their `sluice.database.vendor.Source`, by the word in
`capture` and in the text of a position."""

LOST_FILE = "lost"
"""A file in the folder of a redo thread: the reason why its next log is lost."""

DESCRIPTION_FILE = "thread.json"
"""A file in the folder of a redo thread: what a person or the supervisor says about the thread."""

REDO_VENDOR = "oracle"
"""The vendor whose redo logs are read."""

FIRST = "postgres"
"""The default vendor of a configuration and of a position's text."""
