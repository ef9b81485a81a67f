-- The objects that have one of some names.
-- Called by: sluice.vendors.oracle.catalog.
-- Placeholder: ${names} the condition on o.OWNER and o.OBJECT_NAME.
-- Parameters: those of ${names}.
-- Result: owner, name, TABLE, VIEW or another type.
-- Privileges: none.
-- Oldest version: Oracle 12.2.
SELECT o.OWNER, o.OBJECT_NAME, o.OBJECT_TYPE FROM ALL_OBJECTS o
WHERE ${names} AND o.OBJECT_TYPE IN ('TABLE', 'VIEW', 'SYNONYM', 'SEQUENCE', 'MATERIALIZED VIEW')
ORDER BY o.OWNER, o.OBJECT_NAME, o.OBJECT_TYPE DESC
