-- Functions of the event triggers that notice DDL on replicated tables (event_triggers.sql).
-- Called by: sluice.capture. Placeholders: ${prefix}, ${schema} as in resources_v1.sql. Result: none.
-- Privileges: CREATE on the schema. Oldest version: PostgreSQL 14.

-- Checks the registered tables that are, were or are named like one of p_relids, or hold one as a partition; all: NULL.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}ddl_check(p_relids oid[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    t record;
BEGIN
    FOR t IN
        SELECT h.schemaname, h.tablename FROM ${schema}.${prefix}captures h
        WHERE p_relids IS NULL OR h.relid = ANY (p_relids) OR h.leaves && p_relids
           OR ${schema}.${prefix}relation(h.schemaname, h.tablename) = ANY (p_relids)
        -- Parents first, as on a slave whose tables inherit as well the child then has followed already.
        ORDER BY (WITH RECURSIVE up (relid, height) AS (
            SELECT h.relid, 0 UNION SELECT i.inhparent, u.height + 1 FROM up u JOIN pg_inherits i ON i.inhrelid = u.relid)
            SELECT max(u.height) FROM up u)
    LOOP
        PERFORM ${schema}.${prefix}check_table(t.schemaname, t.tablename, p_in_ddl => true);
    END LOOP;
END
$sluice$;

-- After a command that made or changed something. Runs for every such command of the database, so it first looks
-- whether a replicated table is concerned, and returns.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}ddl_end() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    relids oid[];
BEGIN
    IF ${schema}.${prefix}is_noted('capturing'::text) THEN
        RETURN;  -- create_trigger makes a trigger.
    ELSIF TG_TAG = 'ALTER TYPE' THEN
        -- Tables that were made OF a type follow it, and the command does not name them; nor those with columns of it,
        -- or of one that it is a part of.
        SELECT coalesce(array_agg(DISTINCT h.relid), '{}') INTO relids
        FROM ${schema}.${prefix}captures h
        JOIN pg_class c ON c.oid = h.relid
        JOIN pg_attribute a ON a.attrelid = h.relid AND a.attnum > 0 AND NOT a.attisdropped
        JOIN pg_type y ON y.oid = a.atttypid
        WHERE c.reloftype <> 0 OR y.typnamespace <> 'pg_catalog'::regnamespace;
        PERFORM ${schema}.${prefix}ddl_check(relids);
        RETURN;
    END IF;
    WITH RECURSIVE named (relid, objid) AS (
        SELECT coalesce(i.indrelid, g.tgrelid, p.relid, c.objid), c.objid
        FROM pg_event_trigger_ddl_commands() c
        LEFT JOIN pg_index i ON c.classid = 'pg_class'::regclass AND i.indexrelid = c.objid
        LEFT JOIN pg_trigger g ON c.classid = 'pg_trigger'::regclass AND g.oid = c.objid
        -- A change of a partition is one of the table it belongs to.
        LEFT JOIN LATERAL pg_partition_ancestors(CASE WHEN c.classid = 'pg_class'::regclass THEN c.objid END) p (relid) ON true
        WHERE c.classid IN ('pg_class'::regclass, 'pg_trigger'::regclass, 'pg_namespace'::regclass)
          AND c.schema_name IS DISTINCT FROM 'pg_temp'
    ), concerned (relid) AS (
        SELECT n.relid FROM named n
        -- The command names the parent alone, whatever it did to the tables that inherit from it.
        UNION
        SELECT h.inhrelid FROM concerned d JOIN pg_inherits h ON h.inhparent = d.relid
    )
    SELECT array_agg(r.relid) INTO relids
    FROM (SELECT d.relid FROM concerned d UNION SELECT h.inhparent FROM named n JOIN pg_inherits h ON h.inhrelid = n.objid) r;
    PERFORM ${schema}.${prefix}ddl_check(CASE WHEN TG_TAG <> 'ALTER SCHEMA' THEN coalesce(relids, '{}') END);
END
$sluice$;

-- After objects were dropped, and with CASCADE what hung on them: a table, a column of it or its default. An index may
-- have been the key of a table that cannot be told any more.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}ddl_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    gone record;
    relids oid[] := '{}';
    indexes boolean := false;
BEGIN
    FOR gone IN
        SELECT * FROM pg_event_trigger_dropped_objects() d
        WHERE d.classid IN ('pg_class'::regclass, 'pg_attrdef'::regclass) AND NOT d.is_temporary
    LOOP
        IF gone.object_type = 'index' THEN
            indexes := true;
        ELSIF gone.classid = 'pg_attrdef'::regclass THEN
            -- NULL where the table went, too: array_append then appends what equals nothing.
            relids := relids || ${schema}.${prefix}relation(gone.address_names[1], gone.address_names[2]);
        ELSE
            relids := relids || gone.objid;
        END IF;
    END LOOP;
    IF indexes OR relids <> '{}' THEN
        PERFORM ${schema}.${prefix}ddl_check(CASE WHEN NOT indexes OR TG_TAG <> 'DROP INDEX' THEN relids END);
    END IF;
END
$sluice$;

-- Before the rows of a table are written anew. With other values perhaps, though the definition stays the same (ALTER
-- COLUMN … TYPE … USING): then ddl_end queues them. 4: a column's type was named.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}ddl_rewrite() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    IF pg_event_trigger_table_rewrite_reason() & 4 <> 0 THEN
        UPDATE ${schema}.${prefix}captures h SET rewritten = true
        WHERE h.mode <> 'dropped'
          AND (h.relid = pg_event_trigger_table_rewrite_oid() OR pg_event_trigger_table_rewrite_oid() = ANY (h.leaves));
    END IF;
END
$sluice$;

REVOKE ALL ON FUNCTION ${schema}.${prefix}ddl_end(), ${schema}.${prefix}ddl_drop(), ${schema}.${prefix}ddl_rewrite() FROM PUBLIC;
