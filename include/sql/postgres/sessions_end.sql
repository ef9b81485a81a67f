-- Ends this account's other sessions of an application. Called by: a load job, for loaders of its dead predecessor.
-- Parameter: application. Result: how many were told to end. Privileges: none for the account's own sessions.
-- Oldest version: PostgreSQL 13.
SELECT count(*) FROM pg_stat_activity
WHERE application_name = %(application)s AND usename = current_user AND pid <> pg_backend_pid()
  AND pg_terminate_backend(pid)
