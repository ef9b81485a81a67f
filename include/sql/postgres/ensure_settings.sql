-- Gives this session those of the settings that it lacks. Usually it has all: they came as its startup options, which a
-- pooler may drop.
-- Called by: every session of Sluice, once, when it begins.
-- Placeholder: ${settings} VALUES of (name, value).
-- Result: a row for each setting that was lacking.
-- Privileges: none.
-- Oldest version: PostgreSQL 14. transaction_timeout exists from 17 on.
SELECT pg_catalog.set_config(s.name, s.value, false)
FROM (VALUES ${settings}, ('transaction_timeout', '0')) AS s (name, value)
WHERE pg_catalog.current_setting(s.name, true) <> s.value
