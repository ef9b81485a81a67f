-- Removes all DbResources of a prefix, and nothing else: objects are named one by one, so that the prefix demo_ does
-- not affect demo_2_. Changes in ITEMS are deleted. A master that a failover made read-only accepts writes again. The
-- schema is dropped if it is empty then and belongs to the account.
-- Called by: sluice.capture, after it removed each table's capture; by hand as resources_v1.sql, after
--   event_triggers_remove.sql.
-- Placeholders: ${prefix}, ${schema} as in resources_v1.sql.
-- Result: none.
-- Privileges: the account that installed.
-- Oldest version: PostgreSQL 14.

-- These statements may fire triggers and functions of the account, which must not run as anybody else, least of all as a
-- superuser.
DO $sluice$
DECLARE
    owner name;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    SELECT pg_get_userbyid(c.relowner) INTO owner FROM pg_class c
    WHERE c.relnamespace = to_regnamespace($s$ ${schema}$s$) AND c.relname IN ('${prefix}tables')
      AND pg_get_userbyid(c.relowner) <> current_user LIMIT 1;
    IF FOUND THEN
        RAISE insufficient_privilege USING MESSAGE = format('Run this as %s, to whom the tables of ${prefix} belong', owner);
    END IF;
END
$sluice$;
DO $sluice$
DECLARE
    functions text;
    guard text;
BEGIN
    FOR guard IN
        SELECT p.oid::regprocedure::text FROM pg_proc p
        WHERE p.pronamespace = to_regnamespace($s$ ${schema}$s$)
          AND p.proname ~ '^${prefix}capture_(guard_[0-9a-f]{8}|general_0{8})_x$'
    LOOP
        EXECUTE 'DROP FUNCTION ' || guard || ' CASCADE';
    END LOOP;
    IF to_regclass($s$ ${schema}.${prefix}tables$s$) IS NOT NULL THEN
        DELETE FROM ${schema}.${prefix}tables;
        DROP TRIGGER IF EXISTS ${prefix}tables_created ON ${schema}.${prefix}tables;
        DROP TRIGGER IF EXISTS ${prefix}tables_deleted ON ${schema}.${prefix}tables;
    END IF;
    -- Defaults call functions.
    IF to_regclass($s$ ${schema}.${prefix}items$s$) IS NOT NULL THEN
        ALTER TABLE ${schema}.${prefix}items ALTER COLUMN repl_key DROP DEFAULT;
        ALTER TABLE ${schema}.${prefix}tables ALTER COLUMN repl_key DROP DEFAULT;
        ALTER TABLE ${schema}.${prefix}debug_table ALTER COLUMN repl_key DROP DEFAULT;
    END IF;
    SELECT string_agg(p.oid::regprocedure::text, ', ') INTO functions
    FROM pg_proc p
    WHERE p.pronamespace = $s$ ${schema}$s$::regnamespace
      AND p.proname = ANY (SELECT '${prefix}' || f FROM unnest(ARRAY[
        'account', 'alike', 'attachments', 'basis', 'body_code', 'bound_holds', 'bound_is_harmless', 'bound_of_child', 'bound_rows',
        'capture_code', 'capture_faults', 'capture_general_00000000_x', 'capture_generally', 'capture_late', 'capture_mode', 'changed_code', 'check_code',
        'check_alone', 'check_or_leave', 'check_structure', 'check_table', 'col2xml', 'collation_name', 'columns_of', 'complete_item', 'composite_types', 'concat_code', 'content_code', 'create_trigger',
        'dbid_code', 'ddl_check', 'ddl_drop', 'ddl_end', 'ddl_item', 'ddl_rewrite', 'debug', 'desc_column',
        'desc_domains', 'desc_enums', 'desc_types', 'describe', 'describe_relation', 'described', 'differ_once', 'draw_keys', 'draw_pieces',
        'drop_trigger', 'empty_leaf', 'end_note', 'enum_types', 'expect_safe_key', 'filenode', 'fitting', 'fitting_code',
        'follow_partitions', 'foreign_triggers', 'free_stem', 'forget', 'forget_notes', 'from_record_code', 'grant_execute',
        'guard_code', 'guid_code', 'has_event_triggers', 'hold_off_partitions', 'hold_off_writers', 'identity',
        'increment', 'insertion_code', 'is_inherited', 'is_noted', 'is_outdated', 'is_rekeyed', 'is_rewritten', 'is_single', 'is_trusted', 'is_valid', 'join_table',
        'keep_partitions', 'kept_code', 'key_base', 'key_code', 'key_index', 'keys_code', 'last_key', 'late_call_code', 'late_code',
        'late_signature', 'leaves', 'lockstep_code', 'make_trigger', 'meant', 'member_code', 'needs_prot', 'next_key',
        'next_rows', 'no_rows', 'note', 'note_attached_again', 'note_partition', 'note_partitions', 'oldcontent_code', 'origin', 'origins',
        'oversized_code', 'own', 'partition_bound', 'partition_code', 'partition_tree', 'partitions_changed', 'partitions_come',
        'partitions_gone', 'position', 'protection_code', 'purge', 'quoted', 'recapture', 'refused', 'relation',
        'remember', 'rename', 'renew_capture', 'renew_functions', 'replace_rows', 'replayed_code', 'row_code', 'row_name',
        'rows_of_leaf', 'run_reading', 'runs_texts', 'settings_code', 'settle_code', 'shape_differs', 'signature',
        'signature_code', 'store',
        'structure_changed',
        'tables_trigger', 'tell_late', 'tell_unseen', 'text_bytes', 'transition_code', 'trigger_code', 'trigger_fault', 'try_hold_off_writers', 'type_parts',
        'type_traits', 'typed', 'unreadable', 'unseen', 'unreadable_since', 'unsafe_key', 'value_code', 'xml_escape'
      ]) f);
    IF functions IS NOT NULL THEN
        EXECUTE 'DROP FUNCTION ' || functions;
    END IF;
END
$sluice$;
DROP VIEW IF EXISTS ${schema}.${prefix}items_view, ${schema}.${prefix}cols_view, ${schema}.${prefix}cols_all;
DROP TABLE IF EXISTS ${schema}.${prefix}cols_table, ${schema}.${prefix}captures, ${schema}.${prefix}longs_table,
    ${schema}.${prefix}debug_table, ${schema}.${prefix}current_tables, ${schema}.${prefix}tables, ${schema}.${prefix}items,
    ${schema}.${prefix}partitions, ${schema}.${prefix}info, ${schema}.${prefix}statements, ${schema}.${prefix}answers;
DROP TYPE IF EXISTS ${schema}.${prefix}captured_column;
DROP SEQUENCE IF EXISTS ${schema}.${prefix}seq, ${schema}.${prefix}key_base;
DO $sluice$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.oid = to_regnamespace($s$ ${schema}$s$)
               AND n.nspname <> 'public' AND pg_catalog.pg_get_userbyid(n.nspowner) = current_user) THEN
        DROP SCHEMA ${schema};
    END IF;
EXCEPTION WHEN dependent_objects_still_exist THEN
    NULL;
END
$sluice$;
