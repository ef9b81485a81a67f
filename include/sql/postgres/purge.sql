-- Functions that delete changes which every slave has.
-- Called by: sluice.vendors.postgres.source.queue (housekeeping), batch by batch.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none.
-- Privileges: CREATE on the schema.
-- Oldest version: PostgreSQL 14.

-- Deletes one batch: at most p_limit changes with keys above p_above up to p_through that all of p_seen cover. p_seen has
-- the snapshot of each slave's checkpoint: a change that one of them does not cover stays, whatever its key is. Returns
-- the number of deleted changes and the last key of the batch, NULL if none was left.
CREATE OR REPLACE FUNCTION ${schema}.${prefix}purge(
    p_seen pg_snapshot[], p_above bigint, p_through bigint, p_limit integer, OUT deleted bigint, OUT last_key bigint
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $sluice$
BEGIN
    IF coalesce(cardinality(p_seen), 0) = 0 THEN
        RAISE EXCEPTION 'No position given: without one nothing says which changes every slave has'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    WITH batch AS (
        SELECT i.repl_key FROM ${schema}.${prefix}items i
        WHERE i.repl_key > p_above AND i.repl_key <= p_through
          AND (SELECT bool_and(pg_visible_in_snapshot(i.trans_key, s)) FROM unnest(p_seen) s)
        ORDER BY i.repl_key LIMIT p_limit
    ), gone AS (
        DELETE FROM ${schema}.${prefix}items i USING batch b WHERE i.repl_key = b.repl_key RETURNING i.repl_key
    )
    SELECT count(*), max(g.repl_key) INTO deleted, last_key FROM gone g;
END
$sluice$;

REVOKE ALL ON FUNCTION ${schema}.${prefix}purge(pg_snapshot[], bigint, bigint, integer) FROM PUBLIC;
