-- What row triggers miss on partitioned tables: TRUNCATE of a partition, and partitions that come or go with rows.
-- Called by: capture_code.sql and structure.sql. A partitioned table is replicated under its own name; which partition
-- a row is in is each database's own matter.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql. Result: none.
-- Privileges: CREATE on the schema; SELECT and TRIGGER on the partitions as well. Oldest version: PostgreSQL 14.

-- The partitions that hold the rows of a table.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}leaves(p_relid oid) RETURNS oid[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT coalesce(array_agg(t.relid::oid ORDER BY t.relid), '{}') FROM pg_partition_tree(p_relid) t
    JOIN pg_class c ON c.oid = t.relid AND c.relkind = 'r'
    WHERE t.isleaf AND t.relid <> p_relid
$sluice$;

-- Whether partitions of a table get this function's trigger as their own: those by row, which end in _i, _u and _d.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}is_inherited(p_relid oid, p_function text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT c.relkind = 'p' AND right(p_function, 2) IN ('_i', '_u', '_d') FROM pg_class c WHERE c.oid = p_relid
$sluice$;

-- The code that lets a row trigger's function do nothing for tables that are not the captured one or its partitions. Who
-- makes a partition needs EXECUTE on the functions of the row triggers that it gets, so PUBLIC has it (create_trigger): an
-- EXECUTE for the table's owner alone would fail the next owner's statements, and DROP ROLE of a former owner. So anybody
-- may have them called for a table of his own.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}partition_guard_code(p_relid oid, p_event text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT format(E'    IF TG_LEVEL OPERATOR(pg_catalog.<>) %L OR TG_WHEN OPERATOR(pg_catalog.<>) %L'
            ' OR TG_OP OPERATOR(pg_catalog.<>) %L THEN\n        RETURN NULL;\n    END IF;\n', 'ROW', 'AFTER', p_event)
        -- The partitions there are now are known without a look at the catalogue.
        || format(E'    IF TG_RELID OPERATOR(pg_catalog.<>) ALL (%L::pg_catalog.oid[]) THEN\n'
            '        IF NOT EXISTS (SELECT FROM pg_catalog.pg_partition_ancestors(TG_RELID) a (relid)\n'
            '                       WHERE a.relid::pg_catalog.oid OPERATOR(pg_catalog.=) %s::pg_catalog.oid) THEN\n'
            '            RETURN NULL;\n        END IF;\n    END IF;\n', ${schema}.${prefix}leaves(p_relid), p_relid)
$sluice$;

-- Triggers for TRUNCATE: one on the table, that tells those on its partitions to keep quiet, and one on each partition,
-- that queues the rows about to go as DELETEs. The function of the latter comes once without a target, for a table that
-- has no partitions yet.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}partition_code(
    p_schema text, p_table text, p_relid oid, p_trigger text, p_stem text,
    OUT target oid, OUT triggername text, OUT functionname text, OUT function_code text, OUT trigger_code text
)
RETURNS SETOF record
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    leaf oid;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = p_relid AND c.relkind = 'p') THEN
        RETURN;
    END IF;
    target := p_relid;
    triggername := p_trigger || '_b';
    functionname := p_stem || '_b';
    function_code := format('CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS %L',
        ${schema}.${prefix}own(functionname), format(E'\nBEGIN\n    PERFORM pg_catalog.set_config(''sluice.truncating'', %L, true);\n'
            '    RETURN NULL;\nEND\n', p_relid::text));
    trigger_code := format('CREATE OR REPLACE TRIGGER %I BEFORE TRUNCATE ON %I.%I FOR EACH STATEMENT EXECUTE FUNCTION %s()',
        triggername, p_schema, p_table, ${schema}.${prefix}own(functionname))
        || ${schema}.${prefix}always_code(format('%I.%I', p_schema, p_table), triggername);
    RETURN NEXT;

    triggername := p_trigger || '_p';
    functionname := p_stem || '_p';
    function_code := format('CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER'
        ' SET search_path TO pg_catalog, pg_temp AS %L', ${schema}.${prefix}own(functionname),
        format(E'\nBEGIN\n    IF %s OR current_setting(''sluice.truncating'', true) = %L\n'
            '        OR pg_partition_root(TG_RELID) IS DISTINCT FROM %s::oid::regclass THEN\n        RETURN NULL;\n    END IF;\n'
            '    PERFORM %s(%L, %L, ''DELETE'', TG_RELID);\n    RETURN NULL;\nEND\n',
            ${schema}.${prefix}replayed_code(), p_relid::text, p_relid, ${schema}.${prefix}own('recapture'), p_schema, p_table));
    target := NULL;
    trigger_code := NULL;
    RETURN NEXT;
    FOREACH leaf IN ARRAY ${schema}.${prefix}leaves(p_relid) LOOP
        -- Reconcile refuses the table where this is lacking; a new partition must not fail for it.
        CONTINUE WHEN NOT has_table_privilege(leaf, 'TRIGGER');
        target := leaf;
        trigger_code := format('CREATE OR REPLACE TRIGGER %I BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION %s()',
            triggername, leaf::regclass, ${schema}.${prefix}own(functionname))
            || ${schema}.${prefix}always_code(leaf::regclass::text, triggername);
        RETURN NEXT;
    END LOOP;
END
$sluice$;

-- Queues the rows that came or went with partitions since the capture was last renewed. True when there were any.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}follow_partitions(p_schema text, p_table text, p_relid oid, p_had oid[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    now oid[] := ${schema}.${prefix}leaves(p_relid);
    leaf oid;
BEGIN
    IF now = p_had THEN
        RETURN false;
    END IF;
    FOREACH leaf IN ARRAY p_had LOOP
        IF leaf <> ALL (now) AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = leaf) THEN
            RAISE EXCEPTION 'A partition of the replicated table %.% was dropped with its rows',
                quote_ident(p_schema), quote_ident(p_table)
                USING ERRCODE = 'object_not_in_prerequisite_state',
                    HINT = 'Use ALTER TABLE ... DETACH PARTITION first: then its rows are deleted on the slaves too.';
        ELSIF leaf <> ALL (now) AND pg_relation_size(leaf) > 0 THEN
            PERFORM ${schema}.${prefix}recapture(p_schema, p_table, 'DELETE', leaf);
        END IF;
    END LOOP;
    FOREACH leaf IN ARRAY now LOOP
        IF leaf <> ALL (p_had) AND pg_relation_size(leaf) > 0 THEN
            PERFORM ${schema}.${prefix}recapture(p_schema, p_table, 'INSERT', leaf);
        END IF;
    END LOOP;
    RETURN true;
END
$sluice$;
