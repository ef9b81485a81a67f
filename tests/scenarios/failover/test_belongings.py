"""After a failover everything belongs to whom it belonged on the master, and its owner can continue as before."""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from devstack.postgres import PostgresServer
from sluice.airflow.steps_failover import failover_of
from sluice.failover import survey
from sluice.model.checkpoint import IsMaster
from sluice.model.connection import ConnectionInfo
from sluice.model.issue import script
from sluice.vendors.postgres.connection import connect
from tests.scenarios.failover.least import NAMES, OWNER, WRITER, least
from tests.scenarios.failover.shop import ODD, PLANNED, Shop

MONTHS = "CREATE TABLE public.months (id int, at date NOT NULL, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);"
MORE = f"""
CREATE TYPE public.mood AS ENUM ('calm', 'glad');
CREATE DOMAIN public.positive AS int CHECK (VALUE > 0);
CREATE TYPE {ODD}."a ""Pair" AS (a int, b public.mood);
CREATE TYPE public.span AS RANGE (subtype = numeric);
CREATE TABLE public.moods (
    id int PRIMARY KEY, m public.mood, p public.positive, q {ODD}."a ""Pair", s public.span, "No""te" text,
    CONSTRAINT "has id" CHECK (id > 0));
CREATE INDEX moods_by_m ON public.moods (m);
INSERT INTO public.moods
    SELECT g, 'glad', g, ('(' || g || ',calm)')::{ODD}."a ""Pair", numrange(g, g + 1)::text::public.span, 'n'
    FROM generate_series(1, 20) g;
{MONTHS}
CREATE TABLE public.months_1 PARTITION OF public.months FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
INSERT INTO public.months VALUES (1, '2026-01-03');
COMMENT ON TABLE public.moods IS 'Moods $sluice$ ''quoted'' %s';
COMMENT ON COLUMN public.moods."No""te" IS 'a note';
COMMENT ON INDEX public.moods_by_m IS 'an index';
COMMENT ON CONSTRAINT "has id" ON public.moods IS 'a check';
COMMENT ON TYPE public.mood IS 'a type';
COMMENT ON DOMAIN public.positive IS 'a domain';
COMMENT ON SEQUENCE {ODD}."Invoice No" IS 'a sequence';
COMMENT ON TRIGGER "Stamp it" ON public.customers IS 'a trigger';
COMMENT ON POLICY "read it" ON public.slots IS 'a policy';
COMMENT ON FUNCTION public.stamp() IS 'a function';
GRANT SELECT (id), UPDATE (m, p) ON public.moods TO {WRITER};
GRANT USAGE ON SEQUENCE {ODD}."Invoice No" TO {WRITER};
REVOKE USAGE ON TYPE public.mood FROM PUBLIC;
GRANT USAGE ON TYPE public.mood TO {WRITER};
REVOKE EXECUTE ON FUNCTION public.stamp() FROM PUBLIC;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT ON TABLES TO {WRITER} WITH GRANT OPTION;
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
CREATE POLICY mine ON public.slots FOR UPDATE TO {WRITER} USING (id < 100) WITH CHECK (id < 200);
"""
THERE = f"""
{MONTHS}
CREATE TABLE public.months_1 PARTITION OF public.months FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE public.months_rest PARTITION OF public.months DEFAULT;
ALTER TABLE public.months OWNER TO sluice; ALTER TABLE public.months_1 OWNER TO sluice;
ALTER TABLE public.months_rest OWNER TO sluice;
"""
CATALOGUE = """
WITH n AS (SELECT * FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'sluice'))
SELECT 'relation', n.nspname, c.relname, c.relowner::regrole::text, obj_description(c.oid, 'pg_class'),
       c.relacl::text[]
FROM pg_class c JOIN n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'S', 'v', 'i')
UNION ALL SELECT 'column', n.nspname, c.relname || '.' || a.attname, '', col_description(c.oid, a.attnum),
       a.attacl::text[]
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v') AND a.attnum > 0
UNION ALL SELECT 'type', n.nspname, y.typname, y.typowner::regrole::text, obj_description(y.oid, 'pg_type'),
       y.typacl::text[]
FROM pg_type y JOIN n ON n.oid = y.typnamespace WHERE y.typtype IN ('e', 'd', 'r', 'c')
UNION ALL SELECT 'function', n.nspname, p.proname, p.proowner::regrole::text, obj_description(p.oid, 'pg_proc'),
       p.proacl::text[]
FROM pg_proc p JOIN n ON n.oid = p.pronamespace
UNION ALL SELECT 'constraint', n.nspname, k.conname, '', obj_description(k.oid, 'pg_constraint'), NULL
FROM pg_constraint k JOIN n ON n.oid = k.connamespace WHERE k.contype <> 'n'
UNION ALL SELECT 'trigger', '', g.tgname, '', obj_description(g.oid, 'pg_trigger'), NULL
FROM pg_trigger g WHERE NOT g.tgisinternal AND g.tgname !~* '^!?demo_'
UNION ALL SELECT 'policy', p.polrelid::regclass::text, p.polname, pg_get_expr(p.polqual, p.polrelid),
       obj_description(p.oid, 'pg_policy'), (SELECT array_agg(o.o::regrole::text) FROM unnest(p.polroles) o (o))
FROM pg_policy p
UNION ALL SELECT 'schema', n.nspname, '', CASE WHEN n.nspname <> 'public' THEN n.nspowner::regrole::text END, '',
       n.nspacl::text[]
FROM n
UNION ALL SELECT 'default', d.defaclnamespace::regnamespace::text, d.defaclobjtype::text,
       d.defaclrole::regrole::text, '', d.defaclacl::text[]
FROM pg_default_acl d
"""
OF_SLUICE = "sluice"


def belongings(session: psycopg.Connection[Any]) -> set[tuple[object, ...]]:
    """Who owns what, its comment, and others' privileges, read from the catalog without the product's statement."""
    found: set[tuple[object, ...]] = set()
    for kind, schema, name, owner, comment, acl in session.execute(CATALOGUE.encode()):
        # A privilege says by whom it was granted; Sluice's account has its own.
        granted = {str(one).rsplit("/", 1)[0] for one in acl or ()}
        others = {one for one in granted if not one.startswith((f"{OF_SLUICE}=", '"Shop \\"Owner\\""='))}
        if others or kind != "default":
            found.add((kind, schema, name, owner, comment, tuple(sorted(others))))
    return found


@pytest.mark.long
def test_everything_belongs_to_whom_it_belonged_on_the_master(
    shop_of: Callable[..., Shop], database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> None:
    with least(database, postgres, postgres) as ends:
        shop = shop_of(ends=ends, more=MORE, there=THERE)
        facts = survey.gather_facts(failover_of(shop.work("planned")), shop.store)
        text = survey.report(facts, [])
        assert "membership in the role" in text and "GRANT " in text
        shop.bring_functions("view", "extension")
        shop.slave.execute(script(facts.lacking).encode())
        with suppress(IsMaster), shop.applying():
            said = shop.run("planned", PLANNED)
        assert "refused (" not in said["complete"], said["complete"]
        on_master, on_slave = belongings(shop.master), belongings(shop.slave)
        # Tables that are not replicated, and partitions that the slave does not have.
        lost = {one for one in on_master - on_slave if not re.match(r"(?i)left_behind|visits|to_", str(one[2]))}
        assert not lost, "\n".join([*sorted(map(str, lost)), "on the slave:", *sorted(map(str, on_slave - on_master))])
        server, name = postgres, ends.accounts["s"].database
        with connect(server.info(name, NAMES[1]), application="test", autocommit=True) as owner:
            for statement in (
                "ALTER TYPE public.mood ADD VALUE 'angry'",
                "ALTER DOMAIN public.positive ADD CHECK (VALUE < 1000)",
                "CREATE TABLE public.months_2 PARTITION OF public.months "
                "FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')",
                "ALTER TABLE public.months ADD COLUMN extra public.mood",
                "ALTER TABLE public.moods ADD COLUMN extra public.mood DEFAULT 'angry'",
                f'ALTER TYPE {ODD}."a ""Pair" ADD ATTRIBUTE c int',
                f'ALTER SEQUENCE {ODD}."Invoice No" INCREMENT 7',
                "CREATE OR REPLACE VIEW public.big_orders AS SELECT * FROM public.orders WHERE total > 200",
                "ALTER FUNCTION public.stamp() COST 7",
                "DROP TABLE public.months_rest",
                "CREATE TABLE public.later (id int)",
                "ALTER TABLE public.slots DISABLE ROW LEVEL SECURITY; DROP TABLE public.orders CASCADE",
            ):
                owner.execute(statement.encode())
        with connect(server.info(name, NAMES[2]), application="test", autocommit=True) as writer:
            writer.execute(b"INSERT INTO public.later VALUES (1)")
            writer.execute(b"UPDATE public.moods SET m = 'angry' WHERE id = 1")


@pytest.mark.long
def test_what_cannot_be_given_away_is_listed_before(
    shop_of: Callable[..., Shop], database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> None:
    with least(database, postgres, postgres) as ends:
        shop = shop_of(ends=ends, more=MORE)
        shop.master.execute(b"ALTER TYPE public.mood OWNER TO postgres")
        text = shop.run("check", ["check"])["check"]
        listed = text.partition("what keeps a failover from creating all of it")[2]
        assert "the rights of postgres, a superuser" in listed
        assert "ALTER TYPE public.mood OWNER TO postgres" in listed
        assert f"GRANT {OWNER} TO sluice" in listed
        assert "GRANT postgres" not in listed
