-- What the demo's master has beside workload.tables: a table that refers to itself, one without a key, one whose key is a
-- unique index alone, and the heartbeat.
-- Called by: devstack.demo.master, after types.sql.
-- Privileges: owner of the database. Oldest version: PostgreSQL 14.
CREATE TABLE public.staff (
    id integer PRIMARY KEY,
    name text NOT NULL,
    boss integer REFERENCES public.staff DEFERRABLE INITIALLY IMMEDIATE
);

-- No key: duplicates are meant, and one of several equal rows may change or go.
CREATE TABLE public.readings (
    sensor integer,
    value double precision,
    detail jsonb,
    at timestamp
);

-- No primary key, but a unique index that identifies a row.
CREATE TABLE public.rates (
    currency text NOT NULL,
    day date NOT NULL,
    rate numeric,
    remark text
);
CREATE UNIQUE INDEX ON public.rates (day, currency);

CREATE TABLE public.heartbeat (id integer PRIMARY KEY, beat bigint NOT NULL, written_at timestamptz NOT NULL);
