-- Types that the demo's tables use, made by an ordinary owner.
-- Called by: devstack.demo.master, as the owner of the demo's tables, in an empty database.
-- Privileges: owner of the database. Oldest version: PostgreSQL 14.
CREATE SCHEMA "Mixed Case";

CREATE TYPE public.mood AS ENUM ('sad', 'so so', 'happy', 'It''s "great"', 'Ünïcode ☃', ']]>');
-- Sorts as declared, which is not the order of its labels.
CREATE TYPE "Mixed Case"."Mixed Enum" AS ENUM ('zz top', 'Aa', '', 'null', 'a,b', '{x}');
CREATE DOMAIN public.percentage AS numeric(5, 2) CHECK (VALUE >= 0 AND VALUE <= 100);
CREATE DOMAIN "Mixed Case"."Code.Domain" AS text CHECK (VALUE <> 'forbidden');
CREATE TYPE public.address AS (street text, "House No" integer, tags text[], since date);
CREATE TYPE "Mixed Case"."pair ""of"" things" AS ("left" "Mixed Case"."Mixed Enum", "right" public.address);
CREATE TYPE public.float_range AS RANGE (subtype = float8, multirange_type_name = float_multirange);
