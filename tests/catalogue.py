"""Everything in a database's catalogue of its objects and privileges, to compare before and after."""

from typing import Any

import psycopg

OWN = "!~ '^pg_'"
QUERIES = {
    "namespaces": "SELECT nspname, nspowner::regrole FROM pg_namespace WHERE nspname !~ '^pg_(temp|toast_temp)'",
    "relations": f"""
        SELECT oid::regclass, relkind, relowner::regrole, relpersistence, relispartition, relreplident, reloptions
        FROM pg_class WHERE relnamespace::regnamespace::text {OWN}""",
    "columns": f"""
        SELECT a.attrelid::regclass, a.attname, a.atttypid::regtype, a.attnotnull, a.attacl::text
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relnamespace::regnamespace::text {OWN} AND a.attnum > 0""",
    "functions": "SELECT oid::regprocedure, proowner::regrole, md5(prosrc) FROM pg_proc",
    "triggers": "SELECT tgrelid::regclass, tgname, tgfoid::regproc, tgenabled FROM pg_trigger WHERE NOT tgisinternal",
    "event triggers": "SELECT evtname, evtevent, evtowner::regrole, evtfoid::regproc, evtenabled FROM pg_event_trigger",
    "types": f"""
        SELECT oid::regtype, typowner::regrole, typtype FROM pg_type WHERE typnamespace::regnamespace::text {OWN}""",
    "extensions": "SELECT extname, extversion FROM pg_extension",
    "memberships": "SELECT roleid::regrole, member::regrole FROM pg_auth_members",
    "publications": "SELECT pubname FROM pg_publication",
    "dependencies": """
        SELECT pg_describe_object(classid, objid, objsubid), pg_describe_object(refclassid, refobjid, refobjsubid),
               deptype
        FROM pg_depend WHERE objid >= 16384""",
    "comments": """
        SELECT pg_describe_object(classoid, objoid, objsubid), description FROM pg_description WHERE objoid >= 16384""",
    # A list of privileges that was never written and one that says the same are equal.
    "privileges": f"""
        SELECT what, grantor::regrole, CASE grantee WHEN 0 THEN 'public' ELSE grantee::regrole::text END,
               privilege_type, is_grantable
        FROM (
            SELECT oid::regclass::text AS what,
                   coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", relowner)) AS acl
            FROM pg_class WHERE relnamespace::regnamespace::text {OWN} AND relkind <> 'i'
            UNION ALL
            SELECT 'schema ' || nspname, coalesce(nspacl, acldefault('n', nspowner)) FROM pg_namespace
            WHERE nspname !~ '^pg_(temp|toast_temp)'
            UNION ALL
            SELECT oid::regprocedure::text, coalesce(proacl, acldefault('f', proowner)) FROM pg_proc
            UNION ALL
            SELECT 'type ' || oid::regtype, coalesce(typacl, acldefault('T', typowner)) FROM pg_type
            WHERE typnamespace::regnamespace::text {OWN}
            UNION ALL
            SELECT 'language ' || lanname, coalesce(lanacl, acldefault('l', lanowner)) FROM pg_language
            UNION ALL
            SELECT 'database', coalesce(datacl, acldefault('d', datdba)) FROM pg_database
            WHERE datname = current_database()
            UNION ALL
            SELECT concat_ws(' ', 'default', defaclrole::regrole, defaclnamespace::regnamespace, defaclobjtype),
                   defaclacl
            FROM pg_default_acl
        ) AS x (what, acl)
        CROSS JOIN LATERAL aclexplode(acl)""",
}


def catalogue(connection: psycopg.Connection[Any]) -> dict[str, list[str]]:
    """One sorted text for each object, by kind of object. Needs a superuser's connection."""
    connection.execute("SET search_path = pg_catalog")
    found = {}
    for kind, query in QUERIES.items():
        rows = connection.execute(query.encode()).fetchall()
        found[kind] = sorted(" | ".join(str(value) for value in row) for row in rows)
    connection.execute("RESET search_path")
    return found


def differences(before: dict[str, list[str]], after: dict[str, list[str]]) -> list[str]:
    """The added (+) and removed (-) objects, by kind."""
    told = []
    for kind in before:
        was, now = set(before[kind]), set(after[kind])
        told += [f"- {kind}: {text}" for text in sorted(was - now)] + [
            f"+ {kind}: {text}" for text in sorted(now - was)
        ]
    return told
