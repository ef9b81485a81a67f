-- A function of one query that returns the bytes of a BLOB as hexadecimal digits, since SQL has none. It goes before
-- SELECT.
-- Called by: a comparison, for tables with BLOBs.
-- Parameters: none.
-- Result: the function sluice_hex.
-- Privileges: EXECUTE on DBMS_LOB.
-- Oldest version: Oracle 12.2.
WITH FUNCTION sluice_hex(p_value BLOB) RETURN CLOB IS
    l_text CLOB;
    l_piece VARCHAR2(4000);
    l_at PLS_INTEGER := 1;
BEGIN
    DBMS_LOB.CREATETEMPORARY(l_text, TRUE);
    WHILE l_at <= DBMS_LOB.GETLENGTH(p_value) LOOP
        l_piece := LOWER(RAWTOHEX(DBMS_LOB.SUBSTR(p_value, 2000, l_at)));
        DBMS_LOB.WRITEAPPEND(l_text, LENGTH(l_piece), l_piece);
        l_at := l_at + 2000;
    END LOOP;
    RETURN l_text;
END;
