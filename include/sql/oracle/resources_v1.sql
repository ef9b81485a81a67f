-- DbResources of one prefix on an Oracle master, step 1: sequence, tables, index.
-- Called by: sluice.vendors.oracle.source.resources; or a person, as the account that captures, whose schema gets the
--   objects:
--   for f in resources_v1 cols_view origin code code_body capture structure; do sed -e 's/${prefix}/DEMO_/g' $f.sql; done > demo.sql
--   sqlplus USER@DATABASE @demo.sql
--   SELECT * FROM USER_ERRORS
--   Not through a pipe: sqlplus would read its first line as the password. The last statement shows what does not compile.
-- Placeholders: ${prefix} upper-case prefix, e.g. DEMO_.
-- Result: none. Existing objects are not changed: a second run changes nothing.
-- Privileges: CREATE SESSION, CREATE TABLE, CREATE SEQUENCE, a quota.
-- Oldest version: Oracle 12.2.
WHENEVER SQLERROR EXIT FAILURE ROLLBACK

DECLARE
    PROCEDURE make(p_name VARCHAR2, p_statement VARCHAR2) IS
        l_found PLS_INTEGER;
    BEGIN
        SELECT COUNT(*) INTO l_found FROM USER_OBJECTS o WHERE o.OBJECT_NAME = p_name;
        IF l_found = 0 THEN
            EXECUTE IMMEDIATE p_statement;
        END IF;
    END make;
BEGIN
    -- The source of every unique number. ORDER: on a cluster numbers rise in the order in which they are drawn; positions
    -- depend on it. NOCYCLE: a number is never given out twice.
    make('${prefix}SEQ', q'~
        CREATE SEQUENCE ${prefix}SEQ MINVALUE 1 MAXVALUE 9223372036854775807 INCREMENT BY 1 CACHE 1000 ORDER NOCYCLE
    ~');

    -- What is installed: ('version', number of the last step); what the last purge knew, and up to where feeds have read.
    make('${prefix}INFO', q'~
        CREATE TABLE ${prefix}INFO (
            NAME VARCHAR2(400) NOT NULL,
            VALUE CLOB NOT NULL,
            CONSTRAINT ${prefix}INFO_PK PRIMARY KEY (NAME)
        )
    ~');

    -- The queue of changes; one row a changed row. VERSION is 1, or 1R where GUID is a ROWID because the table has no key.
    make('${prefix}ITEMS', q'~
        CREATE TABLE ${prefix}ITEMS (
            REPL_KEY NUMBER(19) NOT NULL,
            TRANS_KEY VARCHAR2(30) NOT NULL,
            DBID VARCHAR2(128),
            TABLENAME VARCHAR2(128) NOT NULL,
            GUID VARCHAR2(4000),
            DB_ACTION VARCHAR2(15) NOT NULL,
            DB_CATALOG VARCHAR2(128),
            DB_SCHEMA VARCHAR2(128),
            CONTENT CLOB,
            OLDCONTENT CLOB,
            VERSION VARCHAR2(10),
            CONSTRAINT ${prefix}ITEMS_PK PRIMARY KEY (REPL_KEY)
        )
    ~');

    -- A position asks of each running transaction whether a change of it can be seen.
    make('${prefix}ITEMS_TRANS', q'~
        CREATE INDEX ${prefix}ITEMS_TRANS ON ${prefix}ITEMS (TRANS_KEY)
    ~');

    -- The tables that are replicated. CATALOGNAME is one space: there are no catalogues within a database.
    -- ACTIONS: any of I, U, D; NULL means all three, one space means registered without capture ('' is NULL here).
    make('${prefix}TABLES', q'~
        CREATE TABLE ${prefix}TABLES (
            CATALOGNAME VARCHAR2(128) DEFAULT ' ' NOT NULL,
            SCHEMANAME VARCHAR2(128) DEFAULT ' ' NOT NULL,
            TABLENAME VARCHAR2(128) NOT NULL,
            ACTIONS VARCHAR2(3),
            STATUS VARCHAR2(10) DEFAULT 'CREATING' NOT NULL,
            REPL_KEY NUMBER(19) NOT NULL,
            TRIGGER_NAME VARCHAR2(128) NOT NULL,
            DEBUG NUMBER(1) DEFAULT 0 NOT NULL,
            CONSTRAINT ${prefix}TABLES_PK PRIMARY KEY (CATALOGNAME, SCHEMANAME, TABLENAME),
            CONSTRAINT ${prefix}TABLES_TRIGGER UNIQUE (TRIGGER_NAME),
            CONSTRAINT ${prefix}TABLES_STATUS CHECK (STATUS IN ('CREATING', 'OK')),
            CONSTRAINT ${prefix}TABLES_DEBUG CHECK (DEBUG IN (0, 1))
        )
    ~');

    -- The replicated tables that exist, as of the last comparison. SCHEMANAME tells tables of one name apart.
    make('${prefix}CURRENT_TABLES', q'~
        CREATE TABLE ${prefix}CURRENT_TABLES (
            RELNAME VARCHAR2(128) NOT NULL,
            SCHEMANAME VARCHAR2(128) NOT NULL,
            DEFINITION CLOB,
            CONSTRAINT ${prefix}CURRENT_TABLES_PK PRIMARY KEY (SCHEMANAME, RELNAME)
        )
    ~');

    -- Filled by CODE.DEBUG for tables with DEBUG = 1, whether or not the transaction commits.
    make('${prefix}DEBUG_TABLE', q'~
        CREATE TABLE ${prefix}DEBUG_TABLE (
            REPL_KEY NUMBER(19) NOT NULL,
            LINE VARCHAR2(4000)
        )
    ~');

    -- The CONTENT of changes to tables with a LONG, LONG RAW or XMLTYPE, which no trigger can read: such a column is marked
    -- type="unchanged" until the change is read, which looks for its value by the key that GUID is.
    make('${prefix}LONGS_TABLE', q'~
        CREATE TABLE ${prefix}LONGS_TABLE (
            REPL_KEY NUMBER(19) NOT NULL,
            CONTENT CLOB,
            CONSTRAINT ${prefix}LONGS_TABLE_PK PRIMARY KEY (REPL_KEY)
        )
    ~');
END;
/

INSERT INTO ${prefix}INFO (NAME, VALUE)
SELECT 'version', '1' FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM ${prefix}INFO i WHERE i.NAME = 'version');
COMMIT;
