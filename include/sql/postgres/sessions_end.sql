-- Ends other sessions of this account that have an application name.
-- Called by: a load job, for loaders of a dead job before it.
-- Parameter: application.
-- Result: how many sessions.
-- Privileges: none for the account's own sessions.
-- Oldest version: PostgreSQL 13.
WITH found AS MATERIALIZED ( -- else the function might be called before the conditions are looked at
    SELECT pid FROM pg_stat_activity
    WHERE application_name = %(application)s AND usename = current_user AND pid <> pg_backend_pid()
      AND datname = current_database()
)
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM found
