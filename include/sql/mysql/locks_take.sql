-- Locks one of these rows until the transaction ends. Placeholders: ${prefix}, ${schema}; ${how}: FOR UPDATE for oneself alone,
-- LOCK IN SHARE MODE together with others. Parameter: name. Result: a row where it is there. Privileges: UPDATE on LOCKS.
SELECT name FROM ${schema}.${prefix}locks WHERE name = %(name)s ${how}
