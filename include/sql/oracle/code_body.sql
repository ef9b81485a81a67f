-- Package CODE, its body.
-- Called by: sluice.vendors.oracle.source.resources; or a person after code.sql.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Result: none.
-- Privileges: CREATE PROCEDURE; EXECUTE on DBMS_LOB, DBMS_TRANSACTION, UTL_RAW, UTL_ENCODE.
-- Oldest version: Oracle 12.2.
--
-- The settings of the session that writes a row must not change the text of a value. Each conversion names its format,
-- calendar and characters. Texts are compared as bytes, by TRANSLATE, UTL_RAW.COMPARE or INSTR of DBMS_LOB: with NLS_COMP =
-- LINGUISTIC, =, INSTR and REPLACE may treat 'a' as 'A', and ignore '.'.
SET DEFINE OFF

-- The package has no variables, and its constants are literals: otherwise a session that has used it gets ORA-04068 when
-- a new release compiles the package.
CREATE OR REPLACE NONEDITIONABLE PACKAGE BODY ${prefix}CODE AS
    c_gregorian CONSTANT VARCHAR2(30) := 'NLS_CALENDAR=GREGORIAN';
    c_point CONSTANT VARCHAR2(40) := 'NLS_NUMERIC_CHARACTERS=''.,''';
    -- Bytes of a BLOB that are converted at once: a multiple of three, whose base64 has no end.
    c_piece CONSTANT PLS_INTEGER := 12000;

    FUNCTION INCREMENT RETURN NUMBER IS
    BEGIN
        RETURN ${prefix}SEQ.NEXTVAL;
    END INCREMENT;

    FUNCTION HAS_CONTROL(p_value VARCHAR2) RETURN BOOLEAN IS
        -- The bytes of control characters, which base64 protects, behind the number sign, which stays.
        c_number_sign CONSTANT RAW(1) := HEXTORAW('23');
        c_control CONSTANT RAW(40) := HEXTORAW('23'
            || '000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F7F');
        l_bytes RAW(32767) := UTL_RAW.CAST_TO_RAW(p_value);
        l_rest RAW(32767);
    BEGIN
        IF l_bytes IS NULL THEN
            RETURN FALSE;
        END IF;
        l_rest := UTL_RAW.TRANSLATE(l_bytes, c_control, c_number_sign);
        RETURN l_rest IS NULL OR UTL_RAW.LENGTH(l_rest) <> UTL_RAW.LENGTH(l_bytes);
    END HAS_CONTROL;

    -- Whether any of these characters is in a text.
    FUNCTION HAS_ANY(p_value VARCHAR2, p_characters VARCHAR2) RETURN BOOLEAN IS
    BEGIN
        RETURN NVL(LENGTH(TRANSLATE(p_value, 'A' || p_characters, 'A')), 0) <> LENGTH(p_value);
    END HAS_ANY;

    FUNCTION NEEDS_PROT(p_value VARCHAR2) RETURN PLS_INTEGER IS
    BEGIN
        IF HAS_CONTROL(p_value) THEN
            RETURN 2;
        ELSIF HAS_ANY(p_value, '>') AND DBMS_LOB.INSTR(TO_CLOB(p_value), ']]>') > 0 THEN
            RETURN 2;
        ELSIF HAS_ANY(p_value, '<&') THEN
            RETURN 1;
        END IF;
        RETURN 0;
    END NEEDS_PROT;

    FUNCTION NEEDS_PROT_CLOB(p_value CLOB) RETURN PLS_INTEGER IS
        l_at PLS_INTEGER := 1;
        l_length PLS_INTEGER := NVL(DBMS_LOB.GETLENGTH(p_value), 0);
    BEGIN
        IF DBMS_LOB.INSTR(p_value, ']]>') > 0 THEN
            RETURN 2;
        END IF;
        WHILE l_at <= l_length LOOP
            IF HAS_CONTROL(DBMS_LOB.SUBSTR(p_value, 8000, l_at)) THEN
                RETURN 2;
            END IF;
            l_at := l_at + 8000;
        END LOOP;
        IF DBMS_LOB.INSTR(p_value, '<') > 0 OR DBMS_LOB.INSTR(p_value, '&') > 0 THEN
            RETURN 1;
        END IF;
        RETURN 0;
    END NEEDS_PROT_CLOB;

    FUNCTION XML_ESCAPE(p_text VARCHAR2) RETURN VARCHAR2 IS
    BEGIN
        IF NOT HAS_ANY(p_text, '&<>"') THEN
            RETURN p_text;
        END IF;
        RETURN REPLACE(REPLACE(REPLACE(REPLACE(p_text, '&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;');
    END XML_ESCAPE;

    FUNCTION OPENING(p_name VARCHAR2, p_attribute VARCHAR2) RETURN VARCHAR2 IS
    BEGIN
        RETURN '<col name="' || XML_ESCAPE(p_name) || '"' || p_attribute || '>';
    END OPENING;

    -- Appends base64 of a BLOB.
    PROCEDURE APPEND_BASE64(p_to IN OUT NOCOPY CLOB, p_value BLOB) IS
        l_at PLS_INTEGER := 1;
        l_length PLS_INTEGER := DBMS_LOB.GETLENGTH(p_value);
        l_text VARCHAR2(32767);
    BEGIN
        WHILE l_at <= l_length LOOP
            l_text := UTL_RAW.CAST_TO_VARCHAR2(UTL_ENCODE.BASE64_ENCODE(DBMS_LOB.SUBSTR(p_value, c_piece, l_at)));
            DBMS_LOB.APPEND(p_to, TRANSLATE(l_text, 'A' || CHR(13) || CHR(10), 'A'));
            l_at := l_at + c_piece;
        END LOOP;
    END APPEND_BASE64;

    -- Appends the hexadecimal digits of a BLOB.
    PROCEDURE APPEND_HEX(p_to IN OUT NOCOPY CLOB, p_value BLOB) IS
        l_at PLS_INTEGER := 1;
        l_length PLS_INTEGER := DBMS_LOB.GETLENGTH(p_value);
        l_text VARCHAR2(32767);
    BEGIN
        WHILE l_at <= l_length LOOP
            l_text := LOWER(RAWTOHEX(DBMS_LOB.SUBSTR(p_value, c_piece, l_at)));
            DBMS_LOB.APPEND(p_to, l_text);
            l_at := l_at + c_piece;
        END LOOP;
    END APPEND_HEX;

    -- Not by WRITEAPPEND: how many characters a text has, a LOB counts otherwise than LENGTH. Beyond U+FFFF it counts two.
    PROCEDURE APPEND(p_to IN OUT NOCOPY CLOB, p_text VARCHAR2) IS
    BEGIN
        IF p_to IS NULL THEN
            p_to := p_text;
        ELSIF p_text IS NOT NULL THEN
            DBMS_LOB.APPEND(p_to, p_text);
        END IF;
    END APPEND;

    -- Appends base64 of the text in UTF-8.
    PROCEDURE APPEND_ENCODED(p_to IN OUT NOCOPY CLOB, p_name VARCHAR2, p_value CLOB) IS
        l_bytes BLOB;
        l_to INTEGER := 1;
        l_from INTEGER := 1;
        l_language INTEGER := DBMS_LOB.DEFAULT_LANG_CTX;
        l_warning INTEGER;
    BEGIN
        DBMS_LOB.CREATETEMPORARY(l_bytes, TRUE, DBMS_LOB.CALL);
        DBMS_LOB.CONVERTTOBLOB(l_bytes, p_value, DBMS_LOB.LOBMAXSIZE, l_to, l_from, NLS_CHARSET_ID('AL32UTF8'), l_language,
            l_warning);
        APPEND(p_to, OPENING(p_name, ' encoding="base64"'));
        APPEND_BASE64(p_to, l_bytes);
        APPEND(p_to, '</col>');
        DBMS_LOB.FREETEMPORARY(l_bytes);
    END APPEND_ENCODED;

    -- Appends the column of a LOB that is not NULL. Of what EMPTY_CLOB() gives nothing but the length is asked.
    PROCEDURE APPEND_CLOB(p_to IN OUT NOCOPY CLOB, p_name VARCHAR2, p_value CLOB) IS
        l_protection PLS_INTEGER;
    BEGIN
        IF DBMS_LOB.GETLENGTH(p_value) = 0 THEN
            APPEND(p_to, OPENING(p_name, NULL) || '</col>');
            RETURN;
        END IF;
        l_protection := NEEDS_PROT_CLOB(p_value);
        IF l_protection = 2 THEN
            APPEND_ENCODED(p_to, p_name, p_value);
            RETURN;
        END IF;
        APPEND(p_to, OPENING(p_name, NULL));
        IF l_protection = 1 THEN
            APPEND(p_to, '<![CDATA[');
        END IF;
        DBMS_LOB.APPEND(p_to, p_value);
        IF l_protection = 1 THEN
            APPEND(p_to, ']]>');
        END IF;
        APPEND(p_to, '</col>');
    END APPEND_CLOB;

    FUNCTION COL2XML_CLOB(p_name VARCHAR2, p_value CLOB) RETURN CLOB IS
        l_result CLOB;
    BEGIN
        IF p_value IS NULL THEN
            APPEND(l_result, OPENING(p_name, ' type="null"') || '</col>');
        ELSE
            APPEND_CLOB(l_result, p_name, p_value);
        END IF;
        RETURN l_result;
    END COL2XML_CLOB;

    FUNCTION COL2XML(p_name VARCHAR2, p_value VARCHAR2) RETURN CLOB IS
    BEGIN
        RETURN COL2XML_CLOB(p_name, p_value);
    END COL2XML;

    PROCEDURE DEBUG(p_line VARCHAR2) IS
        PRAGMA AUTONOMOUS_TRANSACTION;
    BEGIN
        INSERT INTO ${prefix}DEBUG_TABLE (REPL_KEY, LINE) VALUES (${prefix}SEQ.NEXTVAL, SUBSTRB(p_line, 1, 4000));
        COMMIT;
    END DEBUG;

    -- With a digit before the point and without an exponent, which TM9 writes where there would be more than 64 characters.
    FUNCTION NUMBER_TEXT(p_value NUMBER) RETURN VARCHAR2 IS
        l_text VARCHAR2(80) := TO_CHAR(p_value, 'TM9', c_point);
        l_digits VARCHAR2(80);
        l_power PLS_INTEGER;
    BEGIN
        IF HAS_ANY(l_text, 'E') THEN
            l_digits := RTRIM(TRANSLATE(SUBSTR(l_text, 1, INSTR(l_text, 'E') - 1), '0-.', '0'), '0');
            l_power := TO_NUMBER(SUBSTR(l_text, INSTR(l_text, 'E') + 1));
            RETURN CASE WHEN p_value < 0 THEN '-' END || CASE
                WHEN l_power > 0 THEN RPAD(l_digits, l_power + 1, '0')
                ELSE '0.' || LPAD(l_digits, LENGTH(l_digits) - l_power - 1, '0')
            END;
        END IF;
        IF ASCII(l_text) = 46 THEN
            RETURN '0' || l_text;
        ELSIF ASCII(l_text) = 45 AND ASCII(SUBSTR(l_text, 2)) = 46 THEN
            RETURN '-0' || SUBSTR(l_text, 2);
        END IF;
        RETURN l_text;
    END NUMBER_TEXT;

    -- Seventeen digits say which BINARY_DOUBLE it is. So a BINARY_FLOAT is written, too: slaves keep it as a double.
    FUNCTION DOUBLE_TEXT(p_value BINARY_DOUBLE) RETURN VARCHAR2 IS
    BEGIN
        RETURN CASE
            WHEN p_value IS NULL THEN NULL
            WHEN p_value IS NAN THEN 'NaN'
            WHEN p_value = BINARY_DOUBLE_INFINITY THEN 'Infinity'
            WHEN p_value = -BINARY_DOUBLE_INFINITY THEN '-Infinity'
            ELSE TRIM(TO_CHAR(p_value, '9.9999999999999999EEEE', c_point))
        END;
    END DOUBLE_TEXT;

    -- From a text that begins with the year's sign, a minus or a blank.
    FUNCTION WITH_ERA(p_text VARCHAR2) RETURN VARCHAR2 IS
    BEGIN
        IF ASCII(p_text) = 45 THEN
            RETURN SUBSTR(p_text, 2) || ' BC';
        END IF;
        RETURN LTRIM(p_text);
    END WITH_ERA;

    FUNCTION DATE_TEXT(p_value DATE) RETURN VARCHAR2 IS
    BEGIN
        RETURN WITH_ERA(TO_CHAR(p_value, 'SYYYY-MM-DD HH24:MI:SS".000000"', c_gregorian));
    END DATE_TEXT;

    FUNCTION TIMESTAMP_TEXT(p_value TIMESTAMP_UNCONSTRAINED, p_digits PLS_INTEGER) RETURN VARCHAR2 IS
    BEGIN
        RETURN WITH_ERA(TO_CHAR(p_value, 'SYYYY-MM-DD HH24:MI:SS.FF' || p_digits, c_gregorian));
    END TIMESTAMP_TEXT;

    -- In UTC: which moment it was is kept, in which zone it was written is not.
    FUNCTION ZONED_TEXT(p_value TIMESTAMP_TZ_UNCONSTRAINED, p_digits PLS_INTEGER) RETURN VARCHAR2 IS
    BEGIN
        RETURN TIMESTAMP_TEXT(SYS_EXTRACT_UTC(p_value), p_digits);
    END ZONED_TEXT;

    -- WITH LOCAL TIME ZONE: in UTC, whatever the session's zone.
    FUNCTION LOCAL_TEXT(p_value TIMESTAMP_LTZ_UNCONSTRAINED, p_digits PLS_INTEGER) RETURN VARCHAR2 IS
    BEGIN
        RETURN TIMESTAMP_TEXT(SYS_EXTRACT_UTC(p_value), p_digits);
    END LOCAL_TEXT;

    -- 1 day, 2 days, -1 days; NULL for none.
    FUNCTION UNITS_TEXT(p_number NUMBER, p_unit VARCHAR2) RETURN VARCHAR2 IS
    BEGIN
        IF p_number = 0 THEN
            RETURN NULL;
        END IF;
        RETURN NUMBER_TEXT(p_number) || ' ' || p_unit || CASE WHEN p_number <> 1 THEN 's' END;
    END UNITS_TEXT;

    -- Intervals as PostgreSQL writes them: 3 years -2 mons, -1 days -02:03:04.5.
    FUNCTION MONTHS_TEXT(p_value YMINTERVAL_UNCONSTRAINED) RETURN VARCHAR2 IS
        l_years NUMBER := EXTRACT(YEAR FROM p_value);
        l_months NUMBER := EXTRACT(MONTH FROM p_value);
    BEGIN
        IF p_value IS NULL THEN
            RETURN NULL;
        ELSIF l_years = 0 AND l_months = 0 THEN
            RETURN '00:00:00';
        END IF;
        RETURN TRIM(UNITS_TEXT(l_years, 'year') || ' ' || UNITS_TEXT(l_months, 'mon'));
    END MONTHS_TEXT;

    FUNCTION SECONDS_TEXT(p_value DSINTERVAL_UNCONSTRAINED) RETURN VARCHAR2 IS
        l_days NUMBER := EXTRACT(DAY FROM p_value);
        l_hours NUMBER := EXTRACT(HOUR FROM p_value);
        l_minutes NUMBER := EXTRACT(MINUTE FROM p_value);
        l_seconds NUMBER := EXTRACT(SECOND FROM p_value);
    BEGIN
        IF p_value IS NULL THEN
            RETURN NULL;
        ELSIF l_days <> 0 AND l_hours = 0 AND l_minutes = 0 AND l_seconds = 0 THEN
            RETURN UNITS_TEXT(l_days, 'day');
        END IF;
        RETURN LTRIM(UNITS_TEXT(l_days, 'day') || ' ') || CASE WHEN LEAST(l_hours, l_minutes, l_seconds) < 0 THEN '-' END
            || TO_CHAR(ABS(l_hours), 'FM00') || ':' || TO_CHAR(ABS(l_minutes), 'FM00') || ':'
            || RTRIM(TO_CHAR(ABS(l_seconds), 'FM00.999999999'), '.');
    END SECONDS_TEXT;

    FUNCTION RAW_TEXT(p_value RAW) RETURN VARCHAR2 IS
    BEGIN
        IF p_value IS NULL THEN
            RETURN NULL;
        END IF;
        RETURN '\x' || LOWER(RAWTOHEX(p_value));
    END RAW_TEXT;

    PROCEDURE START_ITEM(p_item IN OUT NOCOPY ITEM, p_action VARCHAR2) IS
    BEGIN
        p_item.DB_ACTION := p_action;
    END START_ITEM;

    -- What the buffer holds goes behind the LOB.
    PROCEDURE FLUSH_BUFFER(p_to IN OUT NOCOPY CLOB, p_buffer IN OUT NOCOPY VARCHAR2) IS
    BEGIN
        APPEND(p_to, p_buffer);
        p_buffer := NULL;
    END FLUSH_BUFFER;

    -- Small columns are gathered in a buffer: appending to a LOB costs more than all else. Most rows need none.
    PROCEDURE ADD_MARKUP(p_to IN OUT NOCOPY CLOB, p_buffer IN OUT NOCOPY VARCHAR2, p_markup VARCHAR2) IS
    BEGIN
        IF NVL(LENGTHB(p_buffer), 0) + LENGTHB(p_markup) > 32767 THEN
            FLUSH_BUFFER(p_to, p_buffer);
        END IF;
        p_buffer := p_buffer || p_markup;
    END ADD_MARKUP;

    PROCEDURE ADD_TEXT(p_to IN OUT NOCOPY CLOB, p_buffer IN OUT NOCOPY VARCHAR2, p_name VARCHAR2, p_value VARCHAR2) IS
        l_protection PLS_INTEGER;
    BEGIN
        IF p_value IS NULL THEN
            ADD_MARKUP(p_to, p_buffer, OPENING(p_name, ' type="null"') || '</col>');
            RETURN;
        END IF;
        l_protection := NEEDS_PROT(p_value);
        IF l_protection = 2 OR LENGTHB(p_value) > 30000 THEN
            FLUSH_BUFFER(p_to, p_buffer);
            APPEND_CLOB(p_to, p_name, p_value);
        ELSIF l_protection = 1 THEN
            ADD_MARKUP(p_to, p_buffer, OPENING(p_name, NULL) || '<![CDATA[' || p_value || ']]></col>');
        ELSE
            ADD_MARKUP(p_to, p_buffer, OPENING(p_name, NULL) || p_value || '</col>');
        END IF;
    END ADD_TEXT;

    -- A part of GUID: the value, or its length and the value where the key has several columns.
    FUNCTION GUID_PART(p_value VARCHAR2, p_key PLS_INTEGER) RETURN VARCHAR2 IS
    BEGIN
        RETURN CASE WHEN p_key = 1 THEN p_value ELSE NVL(LENGTH(p_value), 0) || ':' || p_value END;
    END GUID_PART;

    -- Byte by byte. COMPARE takes a shorter value for one that ends in zeros.
    FUNCTION DIFFERS(p_one VARCHAR2, p_other VARCHAR2) RETURN BOOLEAN IS
    BEGIN
        IF p_one IS NULL OR p_other IS NULL THEN
            RETURN NOT (p_one IS NULL AND p_other IS NULL);
        END IF;
        RETURN LENGTHB(p_one) <> LENGTHB(p_other)
            OR UTL_RAW.COMPARE(UTL_RAW.CAST_TO_RAW(p_one), UTL_RAW.CAST_TO_RAW(p_other)) <> 0;
    END DIFFERS;

    PROCEDURE ADD_COLUMN(p_item IN OUT NOCOPY ITEM, p_name VARCHAR2, p_old VARCHAR2, p_new VARCHAR2, p_key PLS_INTEGER) IS
    BEGIN
        IF p_key > 0 THEN
            p_item.OLD_GUID := p_item.OLD_GUID || GUID_PART(p_old, p_key);
            p_item.NEW_GUID := p_item.NEW_GUID || GUID_PART(p_new, p_key);
        END IF;
        IF p_item.DB_ACTION <> 'DELETE' THEN
            ADD_TEXT(p_item.CONTENT, p_item.NEW_BUFFER, p_name, p_new);
        END IF;
        IF p_item.DB_ACTION = 'DELETE' OR (p_item.DB_ACTION = 'UPDATE' AND (p_key > 0 OR DIFFERS(p_old, p_new))) THEN
            ADD_TEXT(p_item.OLDCONTENT, p_item.OLD_BUFFER, p_name, p_old);
        END IF;
    END ADD_COLUMN;

    -- As a text of the database's character set, which is Unicode: CAPTURE refuses the table otherwise.
    PROCEDURE ADD_NATIONAL(p_item IN OUT NOCOPY ITEM, p_name VARCHAR2, p_old NVARCHAR2, p_new NVARCHAR2, p_key PLS_INTEGER) IS
    BEGIN
        ADD_COLUMN(p_item, p_name, TO_CHAR(p_old), TO_CHAR(p_new), p_key);
    END ADD_NATIONAL;

    PROCEDURE ADD_LOB(p_to IN OUT NOCOPY CLOB, p_buffer IN OUT NOCOPY VARCHAR2, p_name VARCHAR2, p_value CLOB) IS
    BEGIN
        IF p_value IS NULL THEN
            ADD_TEXT(p_to, p_buffer, p_name, NULL);
        ELSE
            FLUSH_BUFFER(p_to, p_buffer);
            APPEND_CLOB(p_to, p_name, p_value);
        END IF;
    END ADD_LOB;

    FUNCTION CLOBS_DIFFER(p_one CLOB, p_other CLOB) RETURN BOOLEAN IS
        l_one NUMBER := NVL(DBMS_LOB.GETLENGTH(p_one), -1);
        l_other NUMBER := NVL(DBMS_LOB.GETLENGTH(p_other), -1);
    BEGIN
        RETURN l_one <> l_other OR (l_one > 0 AND NVL(DBMS_LOB.COMPARE(p_one, p_other), 1) <> 0);
    END CLOBS_DIFFER;

    FUNCTION BLOBS_DIFFER(p_one BLOB, p_other BLOB) RETURN BOOLEAN IS
        l_one NUMBER := NVL(DBMS_LOB.GETLENGTH(p_one), -1);
        l_other NUMBER := NVL(DBMS_LOB.GETLENGTH(p_other), -1);
    BEGIN
        RETURN l_one <> l_other OR (l_one > 0 AND NVL(DBMS_LOB.COMPARE(p_one, p_other), 1) <> 0);
    END BLOBS_DIFFER;

    PROCEDURE ADD_CLOB(p_item IN OUT NOCOPY ITEM, p_name VARCHAR2, p_old CLOB, p_new CLOB) IS
    BEGIN
        IF p_item.DB_ACTION <> 'DELETE' THEN
            ADD_LOB(p_item.CONTENT, p_item.NEW_BUFFER, p_name, p_new);
        END IF;
        IF p_item.DB_ACTION = 'DELETE' OR (p_item.DB_ACTION = 'UPDATE' AND CLOBS_DIFFER(p_old, p_new)) THEN
            ADD_LOB(p_item.OLDCONTENT, p_item.OLD_BUFFER, p_name, p_old);
        END IF;
    END ADD_CLOB;

    PROCEDURE ADD_NCLOB(p_item IN OUT NOCOPY ITEM, p_name VARCHAR2, p_old NCLOB, p_new NCLOB) IS
    BEGIN
        ADD_CLOB(p_item, p_name, TO_CLOB(p_old), TO_CLOB(p_new));
    END ADD_NCLOB;

    PROCEDURE ADD_BYTES(p_to IN OUT NOCOPY CLOB, p_buffer IN OUT NOCOPY VARCHAR2, p_name VARCHAR2, p_value BLOB) IS
    BEGIN
        IF p_value IS NULL THEN
            ADD_TEXT(p_to, p_buffer, p_name, NULL);
        ELSE
            FLUSH_BUFFER(p_to, p_buffer);
            APPEND(p_to, OPENING(p_name, NULL) || '\x');
            APPEND_HEX(p_to, p_value);
            APPEND(p_to, '</col>');
        END IF;
    END ADD_BYTES;

    PROCEDURE ADD_BLOB(p_item IN OUT NOCOPY ITEM, p_name VARCHAR2, p_old BLOB, p_new BLOB) IS
    BEGIN
        IF p_item.DB_ACTION <> 'DELETE' THEN
            ADD_BYTES(p_item.CONTENT, p_item.NEW_BUFFER, p_name, p_new);
        END IF;
        IF p_item.DB_ACTION = 'DELETE' OR (p_item.DB_ACTION = 'UPDATE' AND BLOBS_DIFFER(p_old, p_new)) THEN
            ADD_BYTES(p_item.OLDCONTENT, p_item.OLD_BUFFER, p_name, p_old);
        END IF;
    END ADD_BLOB;

    PROCEDURE ADD_UNREAD(p_item IN OUT NOCOPY ITEM, p_name VARCHAR2) IS
        l_column VARCHAR2(1000) := OPENING(p_name, ' type="unchanged"') || '</col>';
    BEGIN
        IF p_item.DB_ACTION <> 'DELETE' THEN
            ADD_MARKUP(p_item.CONTENT, p_item.NEW_BUFFER, l_column);
        END IF;
        IF p_item.DB_ACTION <> 'INSERT' THEN
            ADD_MARKUP(p_item.OLDCONTENT, p_item.OLD_BUFFER, l_column);
        END IF;
    END ADD_UNREAD;

    -- The transaction gets its ID before its key is drawn: positions depend on it. p_unread: content for LONGS_TABLE.
    PROCEDURE PUT(
        p_action VARCHAR2, p_schema VARCHAR2, p_table VARCHAR2, p_guid VARCHAR2, p_content CLOB, p_oldcontent CLOB,
        p_version VARCHAR2, p_unread CLOB DEFAULT NULL) IS
        l_transaction VARCHAR2(30) := DBMS_TRANSACTION.LOCAL_TRANSACTION_ID(TRUE);
        l_key NUMBER(19) := ${prefix}SEQ.NEXTVAL;
        l_origin VARCHAR2(128) := NVL(${prefix}ORIGIN.NAMED, SYS_CONTEXT('USERENV', 'DB_NAME'));
    BEGIN
        INSERT INTO ${prefix}ITEMS
            (REPL_KEY, TRANS_KEY, DBID, TABLENAME, GUID, DB_ACTION, DB_SCHEMA, CONTENT, OLDCONTENT, VERSION)
        VALUES (l_key, l_transaction, l_origin, p_table, p_guid, p_action, p_schema,
            p_content, p_oldcontent, p_version);
        IF p_unread IS NOT NULL THEN
            INSERT INTO ${prefix}LONGS_TABLE (REPL_KEY, CONTENT) VALUES (l_key, p_unread);
        END IF;
    END PUT;

    PROCEDURE PUT_ITEM(
        p_item IN OUT NOCOPY ITEM, p_schema VARCHAR2, p_table VARCHAR2, p_rowid VARCHAR2, p_unread BOOLEAN) IS
        l_guid VARCHAR2(32767);
        l_version VARCHAR2(10) := '1';
    BEGIN
        IF p_item.CONTENT IS NOT NULL THEN
            FLUSH_BUFFER(p_item.CONTENT, p_item.NEW_BUFFER);
        END IF;
        IF p_item.OLDCONTENT IS NOT NULL THEN
            FLUSH_BUFFER(p_item.OLDCONTENT, p_item.OLD_BUFFER);
        END IF;
        IF p_rowid IS NOT NULL THEN
            l_guid := p_rowid;
            l_version := '1R';
        ELSIF p_item.DB_ACTION = 'INSERT' THEN
            l_guid := p_item.NEW_GUID;
        ELSIF p_item.DB_ACTION = 'DELETE' OR NOT DIFFERS(p_item.OLD_GUID, p_item.NEW_GUID) THEN
            l_guid := p_item.OLD_GUID;
        END IF;
        IF p_unread AND p_item.DB_ACTION <> 'DELETE' THEN
            PUT(p_item.DB_ACTION, p_schema, p_table, l_guid, NULL, NVL(p_item.OLDCONTENT, TO_CLOB(p_item.OLD_BUFFER)),
                l_version, NVL(p_item.CONTENT, TO_CLOB(p_item.NEW_BUFFER)));
        ELSE
            PUT(p_item.DB_ACTION, p_schema, p_table, l_guid, NVL(p_item.CONTENT, TO_CLOB(p_item.NEW_BUFFER)),
                NVL(p_item.OLDCONTENT, TO_CLOB(p_item.OLD_BUFFER)), l_version);
        END IF;
        IF p_item.CONTENT IS NOT NULL THEN
            DBMS_LOB.FREETEMPORARY(p_item.CONTENT);
        END IF;
        IF p_item.OLDCONTENT IS NOT NULL THEN
            DBMS_LOB.FREETEMPORARY(p_item.OLDCONTENT);
        END IF;
    END PUT_ITEM;

    PROCEDURE PUT_DEFINITION(p_action VARCHAR2, p_schema VARCHAR2, p_table VARCHAR2, p_content CLOB, p_oldcontent CLOB) IS
    BEGIN
        PUT(p_action, p_schema, p_table, NULL, p_content, p_oldcontent, '1');
    END PUT_DEFINITION;
END ${prefix}CODE;
/
