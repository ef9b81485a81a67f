-- What row triggers miss on partitioned tables: TRUNCATE of a partition, and partitions that are added or removed with
-- rows. A partitioned table is replicated under its own name, whatever the partitions are.
-- Called by: capture_code.sql and structure.sql.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none.
-- Privileges: CREATE on the schema; SELECT and TRIGGER on the partitions as well.
-- Oldest version: PostgreSQL 14.

-- The tables of a partitioned table, itself first; none if it is not partitioned. pg_partition_tree() would lock the
-- partitions before their table; DROP TABLE of a partition locks in the other order.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}partition_tree(p_relid oid, OUT relid oid, OUT kind "char", OUT depth integer)
RETURNS SETOF record
LANGUAGE sql STABLE ROWS 10 SET search_path = pg_catalog, pg_temp
AS $sluice$
    WITH RECURSIVE tree (oid, relkind, depth) AS (
        SELECT c.oid, c.relkind, 0 FROM pg_class c WHERE c.oid = p_relid AND c.relkind = 'p'
        UNION ALL
        SELECT c.oid, c.relkind, t.depth + 1
        FROM tree t
        JOIN pg_inherits i ON i.inhparent = t.oid AND NOT i.inhdetachpending
        JOIN pg_class c ON c.oid = i.inhrelid
    )
    SELECT t.oid, t.relkind, t.depth FROM tree t
$sluice$;

-- The partitions with the rows of a table.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}leaves(p_relid oid) RETURNS oid[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    RETURN (SELECT coalesce(array_agg(t.relid ORDER BY t.relid), '{}') FROM ${schema}.${prefix}partition_tree(p_relid) t WHERE t.kind = 'r');
END
$sluice$;

-- Which function of an untrusted owner the partition keys of a table call, or of tables below it; NULL without one. To
-- make a trigger there, PostgreSQL calculates constant parts of the keys with the rights of this account.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}unsafe_key(p_relid oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT format('the partition key of %s calls %s of %I', t.relid::regclass, p.oid::regprocedure, pg_get_userbyid(p.proowner))
    FROM ${schema}.${prefix}partition_tree(p_relid) t
    JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = t.relid
    LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
    JOIN pg_proc p ON p.oid = CASE d.refclassid WHEN 'pg_proc'::regclass THEN d.refobjid ELSE o.oprcode END
    WHERE t.kind = 'p' AND p.oid >= 16384
      AND (NOT ${schema}.${prefix}is_trusted(p.proowner) OR ${schema}.${prefix}runs_texts(p.oid))
    ORDER BY t.relid, p.oid LIMIT 1
$sluice$;

-- Raises an error for such a table, before a trigger is made on it. Until the transaction ends, its name means this table: a
-- wait for the lock of the trigger must not end at another one that took the name, nor at a partition that was attached.
DROP FUNCTION IF EXISTS ${schema}.${prefix}expect_safe_key(oid);
CREATE OR REPLACE FUNCTION ${schema}.${prefix}expect_safe_key(p_schema text, p_table text, p_relid oid) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    name text := format('%I.%I', p_schema, p_table);
    reason text;
BEGIN
    IF has_table_privilege(p_relid, 'SELECT') AND to_regclass(name) IS NOT NULL THEN
        EXECUTE format('LOCK TABLE ONLY %s IN ACCESS SHARE MODE', name);
    END IF;
    IF to_regclass(name)::oid IS DISTINCT FROM p_relid OR EXISTS (
        SELECT FROM pg_locks l JOIN ${schema}.${prefix}partition_tree(p_relid) t ON t.relid = l.relation AND t.kind = 'p'
        WHERE l.locktype = 'relation' AND l.granted AND l.mode = 'ShareUpdateExclusiveLock' AND l.pid <> pg_backend_pid()
          AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())) THEN
        RAISE lock_not_available USING MESSAGE = format('%s is being renamed, or gets a partition', name);
    END IF;
    reason := ${schema}.${prefix}unsafe_key(p_relid);
    IF reason IS NOT NULL THEN
        RAISE insufficient_privilege USING MESSAGE = format('%s: %s, which must not run with the rights of %I',
            name, reason, current_user), HINT = 'Partition it by its columns, or by functions of a superuser.';
    END IF;
END
$sluice$;

-- Prevents that a partition of the table is removed until the transaction ends, by locks on the partitioned tables, from
-- the table down, as DROP TABLE of a partition does: another order could deadlock with it.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}keep_partitions(p_relid oid) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    node oid;
BEGIN
    FOR node IN SELECT t.relid FROM ${schema}.${prefix}partition_tree(p_relid) t WHERE t.kind = 'p' ORDER BY t.depth, t.relid LOOP
        BEGIN
            -- To plan a query would calculate what the owner put into indexes and policies.
            PERFORM ${schema}.${prefix}run_reading(format('LOCK TABLE ONLY %s IN ACCESS SHARE MODE', node::regclass));
        EXCEPTION WHEN undefined_table OR invalid_schema_name OR syntax_error OR insufficient_privilege OR wrong_object_type THEN
            NULL;  -- It is gone, and has no name; or a privilege is lacking, which must not fail anybody's statement.
        END;
    END LOOP;
END
$sluice$;

-- Whether partitions of a table get this function's trigger as their own: those by row, which end in _i, _u and _d.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}is_inherited(p_relid oid, p_function text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT c.relkind = 'p' AND right(p_function, 2) IN ('_i', '_u', '_d') FROM pg_class c WHERE c.oid = p_relid
$sluice$;

-- Triggers for TRUNCATE: one on the table, which disables those on its partitions, and one on each partition, which
-- queues its rows as DELETEs. The function of the latter is returned once without a target for a table that has no
-- partitions yet.
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
    PERFORM ${schema}.${prefix}keep_partitions(p_relid);
    target := p_relid;
    triggername := p_trigger || '_b';
    functionname := p_stem || '_b';
    function_code := format('CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS %L',
        ${schema}.${prefix}own(functionname), format(E'\nBEGIN\n    PERFORM %s(%L::pg_catalog.text);\n'
            '    RETURN NULL;\nEND\n', ${schema}.${prefix}own('note'), 'truncating ' || p_relid));
    trigger_code := ${schema}.${prefix}trigger_code(triggername, 'BEFORE TRUNCATE', format('%I.%I', p_schema, p_table),
        'FOR EACH STATEMENT', ${schema}.${prefix}own(functionname));
    RETURN NEXT;

    triggername := p_trigger || '_p';
    functionname := p_stem || '_p';
    function_code := format('CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER'
        ' SET search_path TO pg_catalog, pg_temp AS %L', ${schema}.${prefix}own(functionname),
        format(E'\nBEGIN\n    IF %s OR %s(%L::text)\n'
            '        OR pg_partition_root(TG_RELID) IS DISTINCT FROM %s::oid::regclass THEN\n        RETURN NULL;\n    END IF;\n'
            '    PERFORM %s(%s::oid, TG_RELID);\n    RETURN NULL;\nEND\n',
            ${schema}.${prefix}replayed_code(), ${schema}.${prefix}own('is_noted'), 'truncating ' || p_relid, p_relid,
            ${schema}.${prefix}own('empty_leaf'), p_relid));
    target := NULL;
    trigger_code := NULL;
    RETURN NEXT;
    FOREACH leaf IN ARRAY ${schema}.${prefix}leaves(p_relid) LOOP
        -- Reconcile refuses the table where this is lacking; a new partition must not fail for it. NULL: it is gone.
        CONTINUE WHEN has_table_privilege(leaf, 'TRIGGER') IS NOT TRUE;
        target := leaf;
        trigger_code := ${schema}.${prefix}trigger_code(triggername, 'BEFORE TRUNCATE', leaf::regclass::text,
            'FOR EACH STATEMENT', ${schema}.${prefix}own(functionname));
        RETURN NEXT;
    END LOOP;
END
$sluice$;

-- Queues the rows of a partition that is emptied as DELETEs, of its table as it is now: a change of that comes first.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}empty_leaf(p_relid oid, p_leaf oid) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    PERFORM ${schema}.${prefix}late_code(p_relid, p_relid, 'BEFORE', false);
    PERFORM ${schema}.${prefix}recapture(n.nspname, c.relname, 'DELETE', p_leaf)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = p_relid
          AND EXISTS (SELECT FROM ${schema}.${prefix}captures x WHERE x.relid = p_relid AND x.mode <> 'dropped');
END
$sluice$;

-- A constant as PostgreSQL writes it in a bound, with its type.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}typed(p_literal text, p_type text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT CASE WHEN p_type = 'integer' AND p_literal ~ '^[0-9]+$' THEN p_literal
        WHEN right(p_literal, 1) = '''' THEN format('%s::%s', p_literal, p_type) ELSE format('%L::%s', p_literal, p_type) END
$sluice$;

-- The condition for the rows of one child among the rows of its partitioned table, over the table's columns. It is put
-- together from the catalogue, of constants and PostgreSQL's own operators. pg_get_partition_constraintdef() would load the
-- partition key, and so calculate what the owner wrote into it. pg_get_expr() with 0 locks no table. NULL if the key has
-- anything but plain columns of built-in types, compared in the usual way.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}bound_of_child(p_child oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
SET "DateStyle" = 'ISO, YMD' SET "TimeZone" = 'UTC' SET "IntervalStyle" = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off SET standard_conforming_strings = on
AS $sluice$
DECLARE
    -- As PostgreSQL writes constants in a bound.
    literal CONSTANT text := $r$(?:NULL|MINVALUE|MAXVALUE|true|false|-?[0-9][0-9.eE+-]*|[EBX]?'(?:[^'\\]|''|\\.)*')$r$;
    parent oid;
    bound text;
    rest oid;
    strategy "char";
    names text[];
    types text[];
    usual boolean;
    listed text[];
    ends text[];
    side text;
    reached text;
BEGIN
    SELECT i.inhparent, pg_get_expr(c.relpartbound, 0), t.partdefid, t.partstrat INTO parent, bound, rest, strategy
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_partitioned_table t ON t.partrelid = i.inhparent
    WHERE i.inhrelid = p_child;
    SELECT array_agg(quote_ident(a.attname) ORDER BY k.n), array_agg(format_type(a.atttypid, -1) ORDER BY k.n),
        count(a.attnum) = t.partnatts AND bool_and(a.atttypid < 16384 AND y.typtype = 'b' AND o.opcdefault AND o.oid < 16384
            AND k.coll IN (0, a.attcollation))
        INTO names, types, usual
    FROM pg_partitioned_table t
    CROSS JOIN LATERAL unnest(t.partattrs::int2[], t.partclass::oid[], t.partcollation::oid[])
        WITH ORDINALITY AS k (attnum, opclass, coll, n)
    LEFT JOIN pg_attribute a ON a.attrelid = t.partrelid AND a.attnum = k.attnum AND k.attnum > 0
    LEFT JOIN pg_type y ON y.oid = a.atttypid
    LEFT JOIN pg_opclass o ON o.oid = k.opclass
    WHERE t.partrelid = parent GROUP BY t.partnatts;
    IF usual IS NOT TRUE OR bound IS NULL THEN
        RETURN NULL;
    ELSIF p_child = rest THEN
        SELECT coalesce('(NOT (' || string_agg(x.rows, ' OR ' ORDER BY x.child) || '))', 'true'),
            count(*) = count(x.rows) INTO reached, usual
        FROM (SELECT i.inhrelid AS child, ${schema}.${prefix}bound_of_child(i.inhrelid) AS rows
              FROM pg_inherits i WHERE i.inhparent = parent AND i.inhrelid <> rest) x;
        RETURN CASE WHEN usual THEN reached END;
    ELSIF strategy = 'h' THEN
        listed := regexp_match(bound, '^FOR VALUES WITH \(modulus (\d+), remainder (\d+)\)$');
        RETURN format('satisfies_hash_partition(''%s''::oid, %s, %s, %s)', parent, listed[1], listed[2],
            array_to_string(names, ', '));
    ELSIF strategy = 'l' THEN
        side := substring(bound FROM '^FOR VALUES IN \((' || literal || '(?:, ' || literal || ')*)\)$');
        SELECT array_agg(${schema}.${prefix}typed(m[1], types[1])) FILTER (WHERE m[1] <> 'NULL') INTO listed
        FROM regexp_matches(side, '(' || literal || ')(?:, |$)', 'g') AS m;
        RETURN CASE WHEN side IS NULL THEN NULL
            WHEN listed IS NULL THEN format('(%s IS NULL)', names[1])
            WHEN side ~ ('^(?:' || literal || ', )*NULL(?:, |$)') THEN format('(%1$s IS NULL OR %1$s IN (%2$s))', names[1], array_to_string(listed, ', '))
            ELSE format(CASE cardinality(listed) WHEN 1 THEN '((%1$s IS NOT NULL) AND (%1$s = %2$s))'
                ELSE '((%1$s IS NOT NULL) AND %1$s IN (%2$s))' END, names[1], array_to_string(listed, ', ')) END;
    END IF;
    ends := regexp_match(bound, '^FOR VALUES FROM \((' || literal || '(?:, ' || literal || ')*)\) TO \(('
        || literal || '(?:, ' || literal || ')*)\)$');
    IF ends IS NULL THEN
        RETURN NULL;
    END IF;
    bound := (SELECT string_agg(format('(%s IS NOT NULL)', name), ' AND ') FROM unnest(names) AS u (name));
    FOR place IN 1 .. 2 LOOP
        listed := ARRAY(SELECT m[1] FROM regexp_matches(ends[place], '(' || literal || ')(?:, |$)', 'g') AS m);
        reached := NULL;
        FOR n IN REVERSE cardinality(names) .. 1 LOOP
            side := ${schema}.${prefix}typed(listed[n], types[n]);
            reached := CASE
                WHEN listed[n] IN ('MINVALUE', 'MAXVALUE') THEN ((listed[n] = 'MINVALUE') = (place = 1))::text
                WHEN reached IS NULL THEN format('(%s %s %s)', names[n], (ARRAY['>=', '<'])[place], side)
                ELSE format('((%1$s %2$s %3$s) OR ((%1$s = %3$s) AND %4$s))', names[n], (ARRAY['>', '<'])[place], side, reached) END;
        END LOOP;
        bound := bound || ' AND ' || reached;
    END LOOP;
    RETURN '(' || bound || ')';
END
$sluice$;

-- The condition for the rows of a partition among those of the outermost table; NULL: unknown.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}rows_of_leaf(p_leaf oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    -- true where a partition has all rows, as the only one of a table without others.
    SELECT CASE WHEN count(*) = count(b.rows) THEN '(' || string_agg(b.rows, ' AND ' ORDER BY b.n DESC) || ')' END
    FROM (SELECT a.relid::oid AS relid, a.n FROM pg_partition_ancestors(p_leaf) WITH ORDINALITY AS a (relid, n)
          WHERE EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = a.relid)) x
    CROSS JOIN LATERAL (SELECT x.n, ${schema}.${prefix}bound_of_child(x.relid) AS rows) b
$sluice$;

-- The same as in an item DELETE WHERE: <rows>, the condition; before it <hash oid="16385">HASH (id)</hash> for each table
-- partitioned by hash that it refers to. Empty: unknown.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}partition_bound(p_leaf oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
AS $sluice$
    SELECT coalesce('<partition>'
        || coalesce((SELECT string_agg(format('<hash oid="%s">HASH (%s)</hash>', t.partrelid, ${schema}.${prefix}xml_escape(
                         (SELECT string_agg(quote_ident(c.attname), ', ' ORDER BY k.n)
                          FROM unnest(t.partattrs::int2[]) WITH ORDINALITY AS k (attnum, n)
                          JOIN pg_attribute c ON c.attrelid = t.partrelid AND c.attnum = k.attnum))), '' ORDER BY t.partrelid)
                     FROM pg_partition_ancestors(p_leaf) a JOIN pg_partitioned_table t ON t.partrelid = a.relid
                     WHERE t.partstrat = 'h'), '')
        || '<rows>' || ${schema}.${prefix}xml_escape(${schema}.${prefix}rows_of_leaf(p_leaf)) || '</rows></partition>', '')
$sluice$;

-- The condition in such a text.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}bound_rows(p_bound text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT replace(replace(replace(replace(substring(p_bound FROM '<rows>(.*)</rows>'), '&quot;', '"'), '&gt;', '>'), '&lt;', '<'),
        '&amp;', '&')
$sluice$;

-- Records the present partitions of a table, while they can be read: their rows are queued.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}note_partitions(p_relid oid) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
    WITH now AS MATERIALIZED (
        SELECT leaf, ${schema}.${prefix}partition_bound(leaf) AS bound FROM unnest(${schema}.${prefix}leaves(p_relid)) AS l (leaf)
    ), outdated AS (
        DELETE FROM ${schema}.${prefix}partitions p USING now n
        WHERE p.relid = p_relid AND p.leaf = n.leaf AND (p.bound IS DISTINCT FROM n.bound OR NOT p.followed)
    )
    INSERT INTO ${schema}.${prefix}partitions (relid, leaf, bound, followed)
    SELECT p_relid, n.leaf, n.bound, true FROM now n WHERE NOT EXISTS (
        SELECT FROM ${schema}.${prefix}partitions p
        WHERE p.relid = p_relid AND p.leaf = n.leaf AND p.bound IS NOT DISTINCT FROM n.bound AND p.followed)
$sluice$;

-- Records a partition that got a row before the capture knew it: if it is removed soon, its rows are known.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}note_partition(p_relid oid, p_leaf oid) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
    INSERT INTO ${schema}.${prefix}partitions (relid, leaf, bound, followed)
    SELECT p_relid, p_leaf, ${schema}.${prefix}partition_bound(p_leaf), false
    WHERE NOT EXISTS (SELECT FROM ${schema}.${prefix}partitions p WHERE p.relid = p_relid AND p.leaf = p_leaf)
$sluice$;

-- The partitions on all levels, each with a number that changes when it, or one above it, is detached and attached again.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}attachments(p_relid oid, OUT relid oid, OUT attached integer) RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    WITH RECURSIVE below (relid, path) AS (
        SELECT i.inhrelid, i.xmin::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent AND c.relkind = 'p'
        WHERE i.inhparent = p_relid
        UNION ALL
        SELECT i.inhrelid, b.path || ' ' || i.xmin::text FROM below b JOIN pg_inherits i ON i.inhparent = b.relid
    ) SELECT b.relid, hashtext(b.path) FROM below b
$sluice$;

-- Records partitions that were detached and attached again as removed: as others (leaf 0), and those that are there as new.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}note_attached_again(p_relid oid) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
    UPDATE ${schema}.${prefix}partitions p SET leaf = 0
    FROM ${schema}.${prefix}captures x
    CROSS JOIN regexp_matches(split_part(x.filenode, ' ', 4), '(\d+):(-?\d+)', 'g') AS m
    JOIN ${schema}.${prefix}attachments(p_relid) t ON t.relid = m[1]::oid AND t.attached <> m[2]::integer
    WHERE x.relid = p_relid AND x.mode <> 'dropped' AND split_part(x.filenode, ' ', 1) = ${schema}.${prefix}key_base()::text
      AND p.relid = p_relid AND p.leaf = t.relid AND p.followed
$sluice$;

-- The recorded partitions that were removed.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}partitions_gone(p_relid oid, OUT leaf oid, OUT bound text) RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT p.leaf, max(p.bound) FROM ${schema}.${prefix}partitions p
    WHERE p.relid = p_relid AND p.leaf <> ALL (${schema}.${prefix}leaves(p_relid))
    GROUP BY p.leaf, CASE WHEN p.leaf = 0 THEN p.bound END ORDER BY p.leaf
$sluice$;

-- Whether partitions were added or removed since they were recorded, or were recorded without a condition (by an earlier
-- release).
CREATE OR REPLACE FUNCTION ${schema}.${prefix}partitions_changed(p_relid oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT ${schema}.${prefix}leaves(p_relid) <> ARRAY(
        SELECT DISTINCT p.leaf FROM ${schema}.${prefix}partitions p WHERE p.relid = p_relid AND p.followed ORDER BY 1)
        OR EXISTS (SELECT FROM ${schema}.${prefix}partitions p WHERE p.relid = p_relid AND (NOT p.followed OR p.bound IS NULL))
$sluice$;

-- The added partitions with rows. p_in_ddl: all of them; otherwise those that may have rows which no trigger saw: attached
-- (also with a partition above), or rewritten since they were created (for example by a TRUNCATE).
CREATE OR REPLACE FUNCTION ${schema}.${prefix}partitions_come(p_relid oid, p_in_ddl boolean) RETURNS SETOF oid
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $sluice$
    SELECT l.leaf FROM unnest(${schema}.${prefix}leaves(p_relid)) AS l (leaf)
    WHERE NOT EXISTS (SELECT FROM ${schema}.${prefix}partitions p WHERE p.relid = p_relid AND p.leaf = l.leaf AND p.followed)
      AND (CASE WHEN p_in_ddl THEN pg_relation_size(l.leaf) > 0
           ELSE pg_relation_filenode(l.leaf) <> l.leaf OR (pg_relation_size(l.leaf) > 0 AND EXISTS (
               -- CREATE TABLE ... PARTITION OF makes the columns in one go with the table, ATTACH changes them again: of the
               -- partition itself, or of the one that was attached with it.
               SELECT FROM pg_partition_ancestors(l.leaf) n WHERE n.relid <> p_relid AND NOT EXISTS (
                   SELECT FROM pg_type y JOIN pg_attribute a ON a.attrelid = y.typrelid AND a.attnum > 0
                   WHERE y.typrelid = n.relid AND a.xmin = y.xmin AND a.cmin = y.cmin))) END)
    ORDER BY 1
$sluice$;

-- Blocks the writers of a table whose partitions changed unnoticed: all who could write to rows of a removed or added
-- partition. The lock on the table prevents further partitions.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}hold_off_partitions(p_schema text, p_table text, p_relid oid) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    c record;
BEGIN
    FOR c IN
        SELECT x.trigger_code FROM ${schema}.${prefix}capture_code(p_schema, p_table) x
        WHERE x.trigger_code IS NOT NULL AND (right(x.triggername, 2) = '_b' OR (right(x.triggername, 2) = '_p' AND (
            NOT EXISTS (SELECT FROM ${schema}.${prefix}partitions p WHERE p.relid = p_relid AND p.leaf = x.target AND p.followed)
            OR EXISTS (SELECT FROM pg_partition_ancestors(x.target) a JOIN pg_partitioned_table k ON k.partdefid = a.relid))))
        ORDER BY x.target <> p_relid
    LOOP
        PERFORM ${schema}.${prefix}make_trigger(c.trigger_code);
    END LOOP;
END
$sluice$;

-- Queues that the rows of a bound were removed, and the rows that the table now has within it.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}replace_rows(p_schema text, p_table text, p_relid oid, p_bound text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    PERFORM ${schema}.${prefix}ddl_item('DELETE WHERE', p_schema, p_table, p_bound, NULL);
    PERFORM ${schema}.${prefix}recapture(p_schema, p_table, 'INSERT', NULL, ${schema}.${prefix}bound_rows(p_bound));
END
$sluice$;

-- Whether this account may evaluate a condition for the rows of a table: it has no column of a user-defined type, whose
-- operators, casts and checks could be anything, and the table may be read. The type of a column may have changed since.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}bound_is_harmless(p_relid oid, p_rows text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
AS $sluice$
    SELECT p_rows IS NOT NULL AND ${schema}.${prefix}unreadable(p_relid) IS NULL AND NOT EXISTS (
        SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
        WHERE a.attrelid = p_relid AND a.attnum > 0 AND NOT a.attisdropped AND t.oid >= 16384
          AND strpos(p_rows, quote_ident(a.attname)) > 0)
$sluice$;

-- Whether a recorded condition still fits its table: a column may have been renamed, or a table that it refers to
-- dropped.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}bound_holds(p_relid oid, p_bound text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    IF NOT ${schema}.${prefix}bound_is_harmless(p_relid, ${schema}.${prefix}bound_rows(p_bound)) THEN
        RETURN false;
    END IF;
    PERFORM ${schema}.${prefix}run_reading(format('SELECT FROM %s n WHERE %s LIMIT 0', p_relid::regclass,
        ${schema}.${prefix}bound_rows(p_bound)));
    RETURN true;
EXCEPTION WHEN OTHERS THEN
    RETURN false;
END
$sluice$;

-- Queues the rows of added and removed partitions, and records the present partitions. Returns whether there were any.
-- p_in_ddl: in the transaction of the change itself. Otherwise, by comparison, other rows may have taken the place of
-- removed ones: then the present rows are queued as well, while nobody can write to them.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}follow_partitions(p_schema text, p_table text, p_relid oid, p_in_ddl boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
DECLARE
    moved boolean := false;
    had record;
    leaf oid;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = p_relid AND c.relkind = 'p') THEN
        RETURN false;
    END IF;
    PERFORM ${schema}.${prefix}keep_partitions(p_relid);
    IF NOT p_in_ddl THEN
        PERFORM ${schema}.${prefix}note_attached_again(p_relid);
        IF ${schema}.${prefix}partitions_changed(p_relid) THEN
            PERFORM ${schema}.${prefix}expect_safe_key(p_schema, p_table, p_relid);
        END IF;
    END IF;
    IF NOT ${schema}.${prefix}partitions_changed(p_relid) THEN
        PERFORM ${schema}.${prefix}note_partitions(p_relid);  -- A column may have another name.
        RETURN false;
    END IF;
    moved := EXISTS (SELECT FROM ${schema}.${prefix}partitions_gone(p_relid))
        OR EXISTS (SELECT FROM ${schema}.${prefix}partitions_come(p_relid, p_in_ddl));
    IF moved AND NOT p_in_ddl THEN
        PERFORM ${schema}.${prefix}hold_off_partitions(p_schema, p_table, p_relid);
    END IF;
    FOR had IN SELECT * FROM ${schema}.${prefix}partitions_gone(p_relid) LOOP
        IF p_in_ddl AND EXISTS (SELECT FROM pg_class c WHERE c.oid = had.leaf) AND has_table_privilege(had.leaf, 'SELECT') THEN
            PERFORM ${schema}.${prefix}recapture(p_schema, p_table, 'DELETE', had.leaf);
        ELSIF had.bound IS NULL OR NOT ${schema}.${prefix}bound_holds(p_relid, had.bound) THEN
            PERFORM ${schema}.${prefix}ddl_item('DIFFER', p_schema, p_table,
                'a partition of it is gone, and nothing tells its rows from others', NULL);
        ELSIF p_in_ddl THEN
            PERFORM ${schema}.${prefix}ddl_item('DELETE WHERE', p_schema, p_table, had.bound, NULL);
        ELSE
            PERFORM ${schema}.${prefix}replace_rows(p_schema, p_table, p_relid, had.bound);
        END IF;
    END LOOP;
    FOR leaf IN SELECT * FROM ${schema}.${prefix}partitions_come(p_relid, p_in_ddl) LOOP
        IF p_in_ddl THEN
            PERFORM ${schema}.${prefix}recapture(p_schema, p_table, 'INSERT', leaf);
        ELSIF pg_relation_size(leaf) > 64 * 1024 * 1024 THEN
            -- To queue so many rows would hold off writers for long.
            PERFORM ${schema}.${prefix}ddl_item('DIFFER', p_schema, p_table, format('%s was attached with its rows', leaf::regclass), NULL);
        ELSIF NOT ${schema}.${prefix}bound_holds(p_relid, ${schema}.${prefix}partition_bound(leaf)) THEN
            PERFORM ${schema}.${prefix}ddl_item('DIFFER', p_schema, p_table, format('%s was attached with its rows, '
                'and nothing that this account may calculate tells them from others', leaf::regclass), NULL);
        ELSE
            PERFORM ${schema}.${prefix}replace_rows(p_schema, p_table, p_relid, ${schema}.${prefix}partition_bound(leaf));
        END IF;
    END LOOP;
    DELETE FROM ${schema}.${prefix}partitions p
        WHERE p.relid = p_relid AND p.leaf IN (SELECT g.leaf FROM ${schema}.${prefix}partitions_gone(p_relid) g);
    PERFORM ${schema}.${prefix}note_partitions(p_relid);
    RETURN moved;
END
$sluice$;
