-- Put in front of a query: the bytes of a BLOB as hexadecimal digits, for which SQL has no function of its own.
-- Called by: a comparison, for tables with BLOBs. Placeholders: none. Parameters: none.
-- Result: a function for that query alone. Privileges: EXECUTE on DBMS_LOB. Oldest version: Oracle 12.2.
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
