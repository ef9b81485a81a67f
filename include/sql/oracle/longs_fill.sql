-- Stores the CONTENT of a change with columns that no trigger can read, unless another reader has stored it.
-- Called by: sluice.vendors.oracle.source.reader.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Binds: repl_key; content; mark, a text that CONTENT has until then.
-- Result: none.
-- Privileges: owner of the tables.
-- Oldest version: Oracle 12.2.
UPDATE ${prefix}LONGS_TABLE SET CONTENT = :content WHERE REPL_KEY = :repl_key AND DBMS_LOB.INSTR(CONTENT, :mark) > 0
