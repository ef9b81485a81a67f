-- Fills in the CONTENT of a change whose columns no trigger can read, unless another reader did.
-- Called by: sluice.vendors.oracle.source.unread_columns. Binds: :repl_key; :content; :mark, what it holds until then.
-- Placeholders: ${prefix} as in resources_v1.sql. Result: none.
-- Privileges: owner of the tables. Oldest version: Oracle 12.2.
UPDATE ${prefix}LONGS_TABLE SET CONTENT = :content WHERE REPL_KEY = :repl_key AND DBMS_LOB.INSTR(CONTENT, :mark) > 0
