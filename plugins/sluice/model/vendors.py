"""The vendors of databases, a line each: all that is known of one before its package is imported."""

from dataclasses import dataclass


@dataclass(frozen=True)
class VendorEntry:
    """`member`: where its `sluice.database.vendor.Vendor` is, as `module:name`. `port`: where its servers listen.
    `slave_only`: nothing captures changes there. `fails_over`: a slave can become the master. `redis_checkpoint`: a
    slave's checkpoint can be kept in Redis. `own_texts`: two servers write values alike, and compare them so for
    less than by canonical texts. `databases`: extras of an Airflow connection that name the database in place of its
    schema. `options`: driver options of this vendor alone."""

    member: str
    port: int
    slave_only: bool = False
    fails_over: bool = False
    redis_checkpoint: bool = False
    own_texts: bool = False
    databases: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


VENDORS = {
    "postgres": VendorEntry(
        "sluice.vendors.postgres.vendor:POSTGRES", 5432, fails_over=True, redis_checkpoint=True, own_texts=True
    ),
    "mysql": VendorEntry("sluice.vendors.mysql.vendor:MYSQL", 3306, slave_only=True),
    "oracle": VendorEntry(
        "sluice.vendors.oracle.vendor:ORACLE",
        1521,
        databases=("service_name", "sid"),
        options=(
            *("sid", "wallet_location", "wallet_password", "ssl_server_cert_dn"),
            *("thick_mode", "thick_mode_lib_dir", "thick_mode_config_dir"),
        ),
    ),
}
"""By the word that the configuration, an Airflow connection's type and the folders in `vendors/` and `include/sql/`
use."""

MASTERS = [name for name, entry in VENDORS.items() if not entry.slave_only]
"""Those that a master may have."""

STREAM = "stream"
REDO = "redo"
"""Ways to capture beside triggers: recorded files; redo logs, which are merged into such files."""

SOURCES = {STREAM: "sluice.vendors.stream.source:STREAM"}
"""Sources of changes that are no database system: where their `sluice.database.vendor.Source` is, by the word that
`capture` and a position's text use."""

RECORDERS = {STREAM: "sluice.vendors.stream.recorder:Recorder"}
"""What writes the changes of a database into such a source: a `sluice.database.changes.Recorder`'s class."""

MERGERS = {STREAM: "sluice.vendors.stream.redo.merger:Merger"}
"""What merges the output of redo threads into such a source: a `sluice.database.recorder.MergerClass`."""

RECEIVERS = {STREAM: "sluice.vendors.stream.redo.receiver:Receiver"}
"""What receives the output of one redo thread for such a merge: a `sluice.database.recorder.ReceiverClass`."""

TAKEOVERS = {STREAM: "sluice.vendors.stream.redo.takeover:place"}
"""What says where a slave goes on that had another source before: a `sluice.database.recorder.Takeover`."""

REDO_STREAMS = {STREAM: "sluice.vendors.stream.redo.redo_stream:Recorded"}
"""What says where in such a source a master's rows were read: a `sluice.database.recorder.RedoStreamClass`."""

LOST_FILE = "lost"
"""In the folder of a redo thread: says why its next log cannot be had any more."""

DESCRIPTION_FILE = "thread.json"
"""In the folder of a redo thread: what a person, or the supervisor, says of it."""

REDO_VENDOR = "oracle"
"""Whose redo logs are read."""

ARCHIVED_LOGS = {REDO_VENDOR: "sluice.vendors.oracle.source.archived_logs:read"}
"""What asks a master for its archived redo logs: a `sluice.database.archived_logs.ArchivedLogReader`."""

DISK_GROUPS = {REDO_VENDOR: "sluice.vendors.oracle.source.asm:connect"}
"""What reads redo logs in the master's own storage: a `sluice.database.disk_groups.DiskGroupsClass`."""

FIRST = "postgres"
"""What a configuration means that names no vendor, and a position's text that names none."""
