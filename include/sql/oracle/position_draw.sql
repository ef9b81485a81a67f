-- Draws a REPL_KEY, for the ends of a position.
-- Called by: sluice.vendors.oracle.source.server.Server.draw.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Binds: none.
-- Result: one number.
-- Privileges: owner of the sequence.
-- Oldest version: Oracle 12.2.
SELECT ${prefix}SEQ.NEXTVAL FROM DUAL
