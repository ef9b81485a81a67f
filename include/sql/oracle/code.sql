-- Package CODE, its specification: values as texts, columns as XML, items. The generated triggers call it.
-- Called by: sluice.vendors.oracle.source.resources; or a person after resources_v1.sql and origin.sql.
-- Placeholders: ${prefix} as in resources_v1.sql.
-- Result: none.
-- Privileges: CREATE PROCEDURE.
-- Oldest version: Oracle 12.2.
SET DEFINE OFF

CREATE OR REPLACE NONEDITIONABLE PACKAGE ${prefix}CODE AUTHID DEFINER AS
    -- A change that is being put together.
    TYPE ITEM IS RECORD (
        DB_ACTION VARCHAR2(15),
        CONTENT CLOB,
        OLDCONTENT CLOB,
        NEW_BUFFER VARCHAR2(32767),
        OLD_BUFFER VARCHAR2(32767),
        NEW_GUID VARCHAR2(32767),
        OLD_GUID VARCHAR2(32767)
    );

    -- Draws a number that no one else gets.
    FUNCTION INCREMENT RETURN NUMBER;
    -- How a value must be protected inside CONTENT: 0 not at all, 1 as CDATA, 2 as base64.
    FUNCTION NEEDS_PROT(p_value VARCHAR2) RETURN PLS_INTEGER;
    FUNCTION NEEDS_PROT_CLOB(p_value CLOB) RETURN PLS_INTEGER;
    -- One value as an element of CONTENT.
    FUNCTION COL2XML(p_name VARCHAR2, p_value VARCHAR2) RETURN CLOB;
    FUNCTION COL2XML_CLOB(p_name VARCHAR2, p_value CLOB) RETURN CLOB;
    -- Text that stands in an XML attribute between double quotes, or between tags.
    FUNCTION XML_ESCAPE(p_text VARCHAR2) RETURN VARCHAR2;
    -- Writes one line to DEBUG_TABLE, in a transaction of its own.
    PROCEDURE DEBUG(p_line VARCHAR2);

    -- Values as texts.
    FUNCTION NUMBER_TEXT(p_value NUMBER) RETURN VARCHAR2;
    FUNCTION DOUBLE_TEXT(p_value BINARY_DOUBLE) RETURN VARCHAR2;
    FUNCTION DATE_TEXT(p_value DATE) RETURN VARCHAR2;
    FUNCTION TIMESTAMP_TEXT(p_value TIMESTAMP_UNCONSTRAINED, p_digits PLS_INTEGER) RETURN VARCHAR2;
    FUNCTION ZONED_TEXT(p_value TIMESTAMP_TZ_UNCONSTRAINED, p_digits PLS_INTEGER) RETURN VARCHAR2;
    FUNCTION LOCAL_TEXT(p_value TIMESTAMP_LTZ_UNCONSTRAINED, p_digits PLS_INTEGER) RETURN VARCHAR2;
    FUNCTION MONTHS_TEXT(p_value YMINTERVAL_UNCONSTRAINED) RETURN VARCHAR2;
    FUNCTION SECONDS_TEXT(p_value DSINTERVAL_UNCONSTRAINED) RETURN VARCHAR2;
    FUNCTION RAW_TEXT(p_value RAW) RETURN VARCHAR2;

    -- Begins an item: INSERT, UPDATE or DELETE.
    PROCEDURE START_ITEM(p_item IN OUT NOCOPY ITEM, p_action VARCHAR2);
    -- Adds a column. A key's old value, and one that changed, go into OLDCONTENT. p_key: how many columns the key has, if this
    -- is one of it, else 0.
    PROCEDURE ADD_COLUMN(p_item IN OUT NOCOPY ITEM, p_name VARCHAR2, p_old VARCHAR2, p_new VARCHAR2, p_key PLS_INTEGER);
    PROCEDURE ADD_NATIONAL(p_item IN OUT NOCOPY ITEM, p_name VARCHAR2, p_old NVARCHAR2, p_new NVARCHAR2, p_key PLS_INTEGER);
    PROCEDURE ADD_CLOB(p_item IN OUT NOCOPY ITEM, p_name VARCHAR2, p_old CLOB, p_new CLOB);
    PROCEDURE ADD_NCLOB(p_item IN OUT NOCOPY ITEM, p_name VARCHAR2, p_old NCLOB, p_new NCLOB);
    PROCEDURE ADD_BLOB(p_item IN OUT NOCOPY ITEM, p_name VARCHAR2, p_old BLOB, p_new BLOB);
    -- A column that no trigger can read. The reader of the item reads its value from the row, by the key.
    PROCEDURE ADD_UNREAD(p_item IN OUT NOCOPY ITEM, p_name VARCHAR2);
    -- Puts the item into ITEMS. p_rowid: the row's, of tables without a key. p_unread: columns of it were not read; then its
    -- CONTENT goes into LONGS_TABLE.
    PROCEDURE PUT_ITEM(
        p_item IN OUT NOCOPY ITEM, p_schema VARCHAR2, p_table VARCHAR2, p_rowid VARCHAR2, p_unread BOOLEAN);
    -- Puts a change of a definition into ITEMS.
    PROCEDURE PUT_DEFINITION(p_action VARCHAR2, p_schema VARCHAR2, p_table VARCHAR2, p_content CLOB, p_oldcontent CLOB);
END ${prefix}CODE;
/
