-- Names that break whoever forgets to quote or to escape: capitals, blanks, dots, quotes, reserved words, 63 bytes,
-- markup, placeholders of drivers, characters of more than one byte, tables that differ by case alone.
-- Called by: devstack.demo.master, after types.sql.
-- Privileges: owner of the database. Oldest version: PostgreSQL 14.
CREATE TABLE "Mixed Case"."Order ""Lines"".v2 ]]> & <x> %s ${y} {z}" (
    "select" integer,
    "Mixed Column" text,
    "quo""te" text,
    "apo'strophe" text,
    "dot.ted.name" numeric,
    "]]>" text,
    "<&>" text,
    "per%cent %s %(x)s" text,
    "dollar $1 ${prefix}" text,
    "braces {0}" text,
    "back\slash" text,
    "semi;colon -- /* comment" text,
    "order" integer,
    "name" text,
    "col" text,
    "Größe ☃ in €" text,
    "a_column_name_of_exactly_sixty_three_bytes_is_as_long_as_can_be" "Mixed Case"."Mixed Enum",
    PRIMARY KEY ("Mixed Column", "select")
);
CREATE INDEX "an index, with a comma" ON "Mixed Case"."Order ""Lines"".v2 ]]> & <x> %s ${y} {z}" ("order" DESC, lower("]]>"));

CREATE TABLE "Mixed Case"."ein_Name_mit_genau_dreiundsechzig_Bytes_und_einem_ß_am_Ende_ß" (
    "user" uuid PRIMARY KEY,
    "table" text NOT NULL DEFAULT 'x'
);

-- Columns that could be taken for the variables of a trigger function or the columns of ITEMS.
CREATE TABLE "Mixed Case"."trigger" (
    "new" integer PRIMARY KEY,
    "old" integer,
    "tg_op" text,
    "content" text,
    "oldcontent" text,
    "repl_key" bigint,
    "trans_key" xid8,
    "guid" uuid,
    "version" text
);

CREATE TABLE public.items (id integer PRIMARY KEY, note text);
CREATE TABLE public."Items" (id integer PRIMARY KEY, note text);
CREATE TABLE public."ITEMS" (id integer PRIMARY KEY, note text);
