-- Functions of the event triggers that notice DDL on replicated tables (event_triggers.sql).
-- Called by: sluice.capture.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none.
-- Privileges: CREATE on the schema.
-- Oldest version: PostgreSQL 14.

-- Of earlier releases, whose event triggers call it until this file has run.
DROP FUNCTION IF EXISTS ${schema}.${prefix}ddl_check(oid[]);

-- Checks the registered tables that are one of p_relids, were one, have the name of one, or have one as a partition;
-- NULL: all. p_simple: as of check_table.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}ddl_check(p_relids oid[], p_simple boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    t record;
BEGIN
    FOR t IN
        SELECT h.schemaname, h.tablename FROM ${schema}.${prefix}captures h
        WHERE p_relids IS NULL OR (h.schemaname, h.tablename) IN (
            SELECT x.schemaname, x.tablename FROM ${schema}.${prefix}captures x WHERE x.relid = ANY (p_relids)
            UNION SELECT x.schemaname, x.tablename FROM ${schema}.${prefix}captures x WHERE x.leaves <> '{}' AND x.leaves && p_relids
            UNION SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                  WHERE c.oid = ANY (p_relids))
        -- Parents first, as on a slave whose tables inherit as well the child then has followed already.
        ORDER BY (WITH RECURSIVE up (relid, height) AS (
            SELECT h.relid, 0 UNION SELECT i.inhparent, u.height + 1 FROM up u JOIN pg_inherits i ON i.inhrelid = u.relid)
            SELECT max(u.height) FROM up u)
    LOOP
        PERFORM ${schema}.${prefix}check_or_leave(t.schemaname, t.tablename, p_in_ddl => true, p_simple => p_simple);
    END LOOP;
END
$sluice$;

-- The configuration of a table that was just created: the entry of the first matching line in INFO under 'wildcards'
-- (wildcards.py). NULL without one, for a name that is or may be one of Sluice's own, and for a table without a primary
-- key if all need one.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}meant(p_schema text, p_table text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT l.line
    FROM ${schema}.${prefix}info i
    CROSS JOIN LATERAL jsonb_array_elements(i.value::jsonb -> 'lines') WITH ORDINALITY AS l (line, place)
    WHERE i.name = 'wildcards' AND l.line ->> 'schema' = p_schema AND p_table ~ (l.line ->> 'name')
      AND NOT EXISTS (SELECT FROM jsonb_array_elements_text(i.value::jsonb -> 'slave') o (ending) WHERE p_table ~ o.ending)
      -- Of DbResources, also while they are installed: the sequence is there first.
      AND NOT EXISTS (SELECT FROM jsonb_array_elements_text(i.value::jsonb -> 'master') o (ending)
                      WHERE right(p_table, length(o.ending)) = o.ending
                        AND ${schema}.${prefix}relation(p_schema, left(p_table, -length(o.ending)) || '_seq') IS NOT NULL)
      AND NOT ((i.value::jsonb ->> 'keyed')::boolean AND NOT EXISTS (
          SELECT FROM pg_index x WHERE x.indrelid = ${schema}.${prefix}relation(p_schema, p_table) AND x.indisprimary))
    ORDER BY l.place LIMIT 1
$sluice$;

-- Captures a table in the transaction that creates it, if a wildcard matches it: all of its rows follow, and slaves have
-- it from the first row on. What cannot be captured is left to reconcile_tables, because the statement must not fail.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}join_table(p_relid oid) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    made record;
BEGIN
    SELECT n.nspname AS schemaname, c.relname AS tablename, ${schema}.${prefix}meant(n.nspname, c.relname) AS line INTO made
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = p_relid AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
      AND has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'TRIGGER')
      -- What a replication brings here is captured by the one that passes it on, from its next reconcile_tables on.
      AND ${schema}.${prefix}origin() = ''
      AND NOT EXISTS (SELECT FROM ${schema}.${prefix}captures h WHERE h.schemaname = n.nspname AND h.tablename = c.relname)
      AND NOT EXISTS (SELECT FROM ${schema}.${prefix}tables x WHERE x.schemaname = n.nspname AND x.tablename = c.relname);
    IF made.line ->> 'actions' IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO ${schema}.${prefix}tables (schemaname, tablename, actions, status, repl_key, trigger_name, debug)
    SELECT made.schemaname, made.tablename, made.line ->> 'actions', 'OK', k.key, '${prefix}' || k.key, (made.line ->> 'debug')::integer
    FROM (SELECT ${schema}.${prefix}next_key() AS key) k;
    -- As one of a name that was left: check_table makes the triggers, and says that all rows follow.
    INSERT INTO ${schema}.${prefix}captures (schemaname, tablename, relid, mode, stem, triggers, functions, fingerprint,
        trigger_fingerprint, filenode, signature, basis, leaves, rewritten)
    VALUES (made.schemaname, made.tablename, p_relid, 'dropped',
        ${schema}.${prefix}free_stem(made.schemaname, made.tablename), '{}', '{}', '', '', '', '', '', '{}', false);
    PERFORM ${schema}.${prefix}check_table(made.schemaname, made.tablename, p_in_ddl => true);
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'Table % is not captured yet: %', p_relid::regclass, SQLERRM
        USING HINT = 'Start the DAG reconcile_tables of ${prefix}.';
END
$sluice$;

-- Runs after every command of the database that created or changed something, so it first checks whether a replicated
-- table is concerned, and otherwise returns.
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
    PERFORM ${schema}.${prefix}ddl_check(CASE WHEN TG_TAG <> 'ALTER SCHEMA' THEN coalesce(relids, '{}') END,
        TG_TAG NOT IN ('ALTER SCHEMA', 'CREATE TRIGGER'));
    -- CREATE TABLE AS makes rows before this: it joins by a load. So does a table of a serializable transaction: what is read
    -- and written to register it would take part in the conflicts of such transactions.
    IF TG_TAG = 'CREATE TABLE' AND current_setting('transaction_isolation') <> 'serializable' THEN
        PERFORM ${schema}.${prefix}join_table(c.objid)
        FROM pg_event_trigger_ddl_commands() c
        WHERE c.command_tag = 'CREATE TABLE' AND c.schema_name <> 'pg_temp' AND NOT c.in_extension
          AND EXISTS (SELECT FROM ${schema}.${prefix}info i WHERE i.name = 'wildcards');
    END IF;
END
$sluice$;

-- Runs after objects were dropped, with CASCADE also dependent ones: a table, a column of it or its default. An index may
-- have been the key of a table that can no longer be determined. A table that a serializable transaction drops is left to
-- the next comparison.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}ddl_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    gone record;
    relids oid[] := '{}';
    indexes boolean := false;
BEGIN
    IF TG_TAG = 'DROP TABLE' AND current_setting('transaction_isolation') = 'serializable' THEN
        -- What it would read and write of ours would take part in the conflicts of serializable transactions.
        RETURN;
    END IF;
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

-- Runs before the rows of a table are rewritten, perhaps with other values although the definition stays the same (ALTER
-- COLUMN … TYPE … USING): then ddl_end queues them. 4: the type of a column was named.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}ddl_rewrite() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    IF pg_event_trigger_table_rewrite_reason() & 4 <> 0 THEN
        BEGIN
            UPDATE ${schema}.${prefix}captures h SET rewritten = true
            WHERE h.mode <> 'dropped'
              AND (h.relid = pg_event_trigger_table_rewrite_oid() OR pg_event_trigger_table_rewrite_oid() = ANY (h.leaves));
        EXCEPTION WHEN serialization_failure THEN
            NULL;  -- As in ddl_check, which is called next.
        END;
    END IF;
END
$sluice$;

REVOKE ALL ON FUNCTION ${schema}.${prefix}ddl_end(), ${schema}.${prefix}ddl_drop(), ${schema}.${prefix}ddl_rewrite() FROM PUBLIC;

-- The planner settings of a role or database are for the application's own queries: with some of them a query of ours would
-- not end. What begins inside the application's transactions, and everything it calls, has PostgreSQL's defaults.
DO $sluice$
DECLARE
    function text;
BEGIN
    FOR function IN
        SELECT p.oid::regprocedure::text FROM pg_catalog.pg_proc p
        WHERE p.pronamespace = $s$ ${schema}$s$::regnamespace AND p.proname IN ('${prefix}ddl_end', '${prefix}ddl_drop',
            '${prefix}ddl_rewrite', '${prefix}late_code', '${prefix}check_table', '${prefix}create_trigger', '${prefix}recapture',
            '${prefix}structure_changed', '${prefix}capture_faults', '${prefix}capture_general_00000000_x', '${prefix}fitting',
            '${prefix}unreadable', '${prefix}note_partition', '${prefix}differ_once')
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET enable_nestloop = on SET enable_hashjoin = on SET enable_mergejoin = on'
            ' SET enable_sort = on SET enable_material = on SET enable_hashagg = on SET enable_seqscan = on SET enable_indexscan = on'
            ' SET enable_indexonlyscan = on SET enable_bitmapscan = on SET jit = off SET join_collapse_limit = 8'
            ' SET from_collapse_limit = 8 SET geqo = on SET geqo_threshold = 12 SET plan_cache_mode = auto'
            ' SET random_page_cost = 4 SET seq_page_cost = 1 SET cpu_tuple_cost = 0.01 SET cpu_operator_cost = 0.0025'
            ' SET cpu_index_tuple_cost = 0.005 SET max_parallel_workers_per_gather = 0 SET work_mem = %L', function, '4MB');
    END LOOP;
END
$sluice$;
