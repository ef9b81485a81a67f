-- The tables that Sluice keeps on a slave: CHECKPOINT, BLOCKS, REJECTS, THROTTLE, DEFINITIONS, LOCKS.
-- Called by: the initial update, before anything else touches the slave; the apply that starts; an admin's closure of the
--   gate.
-- Placeholders: ${prefix} e.g. demo_; ${schema} the database, quoted; ${collation}: one in which two different texts are
--   never equal.
-- Result: none. A second run changes nothing. Each statement ends with a semicolon at the end of a line.
-- Privileges: CREATE.
-- Oldest version: MariaDB 10.6, MySQL 8.0.
CREATE TABLE IF NOT EXISTS ${schema}.${prefix}checkpoint (
    slave         varchar(128) PRIMARY KEY,
    state         varchar(20) NOT NULL,
    message       longtext NOT NULL,
    position      longtext COMMENT 'master transactions applied (JSON)',
    position_time datetime(6) COMMENT 'UTC; the slave is current as of this time of the master''s clock',
    epoch         bigint NOT NULL DEFAULT 0 COMMENT 'raised by each apply that starts; one with a lower epoch can no longer write',
    target        longtext COMMENT 'the window under way when it is applied in slices: the slave is CATCHING_UP',
    slice_key     bigint COMMENT 'the last REPL_KEY of that window which is applied',
    safemode_exit longtext COMMENT 'safe mode stays on until this position is passed',
    changes       bigint NOT NULL DEFAULT 0,
    update_id     varchar(512) COMMENT 'the initial update under way, or the last one',
    closed        longtext COMMENT 'an admin''s closure of the gate (JSON): nothing is applied; NULL: none',
    tables        longtext COMMENT 'tables that are not ready (JSON); NULL: none',
    updated_at    datetime(6) NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE ${collation} COMMENT 'Sluice: what this slave has durably applied, one row a slave';
CREATE TABLE IF NOT EXISTS ${schema}.${prefix}blocks (
    slave      varchar(128) NOT NULL,
    "schema"   varchar(64) NOT NULL,
    tablename  varchar(64) NOT NULL,
    block      integer NOT NULL,
    lo         longtext COMMENT 'first key (JSON array of texts), inclusive; NULL: open',
    hi         longtext COMMENT 'end of the keys, exclusive; NULL: open',
    state      varchar(10) NOT NULL,
    marker     longtext COMMENT 'the master''s position at which the block was read',
    planned_at datetime(6) NOT NULL,
    begun_at   datetime(6),
    stored_at  datetime(6),
    "rows"     bigint,
    bytes      bigint,
    loader     varchar(512),
    file       varchar(512) COMMENT 'the file that holds the rows, when they travel as files',
    sha256     varchar(64) COMMENT 'of that file',
    made       tinyint(1) NOT NULL DEFAULT 0 COMMENT 'the table was made by the initial update under way',
    snapshot   longtext COMMENT 'the exported snapshot of the master in which it is read (read: snapshot)',
    tries      integer NOT NULL DEFAULT 0 COMMENT 'how often its reading gave way to the application (read: locked)',
    retry_at   datetime(6) COMMENT 'when it is tried again after that',
    PRIMARY KEY (slave, "schema", tablename, block),
    KEY in_order (slave, state, planned_at, "schema", tablename, block),
    KEY in_files (slave, state, file)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE ${collation} COMMENT 'Sluice: the restart table of loads, one row a block';
CREATE TABLE IF NOT EXISTS ${schema}.${prefix}throttle (
    slave            varchar(128) PRIMARY KEY,
    paused           tinyint(1) NOT NULL COMMENT 'no block is begun',
    reason           longtext NOT NULL,
    rows_per_second  double,
    bytes_per_second double,
    loaders          integer NOT NULL,
    since            datetime(6) NOT NULL COMMENT 'from when on the rate is in force',
    updated_at       datetime(6) NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE ${collation} COMMENT 'Sluice: what the load of a slave is held to just now';
CREATE TABLE IF NOT EXISTS ${schema}.${prefix}definitions (
    slave      varchar(128) NOT NULL,
    kind       varchar(20) NOT NULL,
    "schema"   varchar(64) NOT NULL,
    tablename  varchar(64) NOT NULL,
    name       varchar(64) NOT NULL,
    definition longtext NOT NULL,
    making     tinyint(1) NOT NULL DEFAULT 0 COMMENT 'it was begun on the slave, and may be there in part',
    updated_at datetime(6) NOT NULL,
    PRIMARY KEY (slave, kind, "schema", tablename, name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE ${collation} COMMENT 'Sluice: indexes and constraints that this slave has from its master';
CREATE TABLE IF NOT EXISTS ${schema}.${prefix}rejects (
    id          bigint AUTO_INCREMENT PRIMARY KEY,
    slave       varchar(128) NOT NULL,
    repl_key    bigint,
    "schema"    varchar(64) NOT NULL,
    tablename   varchar(64) NOT NULL,
    action      varchar(20) NOT NULL,
    content     longtext COMMENT 'the row after the change on the master',
    oldcontent  longtext COMMENT 'the row before it: of an UPDATE the key and what changed',
    held        longtext COMMENT 'the row of that key on the slave; NULL: none',
    reason      longtext NOT NULL,
    rejected_at datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) COMMENT 'UTC',
    key_columns longtext NOT NULL COMMENT 'JSON array',
    "keys"      longtext NOT NULL COMMENT 'JSON array: texts of the keys it touches, as in GUID',
    newer       bigint COMMENT 'the last change of the same row that was applied since',
    status      varchar(10) NOT NULL DEFAULT 'set aside',
    "force"     tinyint(1) NOT NULL DEFAULT 0,
    asked_by    longtext,
    asked_at    datetime(6),
    settled_by  longtext,
    settled_at  datetime(6),
    answer      longtext COMMENT 'why it was not applied when somebody asked for it',
    KEY of_slave (slave, status)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE ${collation} COMMENT 'Sluice: changes set aside by the policy on_conflict: reject';
CREATE TABLE IF NOT EXISTS ${schema}.${prefix}locks (
    name varchar(160) PRIMARY KEY
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE ${collation} COMMENT 'Sluice: what loaders lock; a row a slave and kind';
