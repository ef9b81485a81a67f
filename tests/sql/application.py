"""What an application may do on its master: a schema, its three roles, and scenarios of statements as data.

Each scenario runs on a fresh copy of the schema. A statement is `(role, text)`; the rows of a COPY … FROM STDIN follow
its first line.
"""

ADMINISTRATOR, OWNER, WRITER, OTHER = "postgres", "Shop Owner", "select", "Other"
"""A superuser; who owns the tables; who has rights of DML on them; who owns some partitions."""
ROLES = (OWNER, WRITER, OTHER)

SCHEMA = (
    (ADMINISTRATOR, 'CREATE SCHEMA app AUTHORIZATION "Shop Owner"'),
    (ADMINISTRATOR, 'GRANT USAGE ON SCHEMA app TO "select", "Other"'),
    (ADMINISTRATOR, 'ALTER DEFAULT PRIVILEGES FOR ROLE "Shop Owner" IN SCHEMA app GRANT ALL ON TABLES TO "select"'),
    (OWNER, "CREATE TYPE app.mood AS ENUM ('sad', 'ok')"),
    (OWNER, "CREATE DOMAIN app.short AS text CHECK (length(VALUE) < 20)"),
    (OWNER, "CREATE TYPE app.pair AS (a int, b text)"),
    (OWNER, 'CREATE TABLE app."Order" (id int PRIMARY KEY, v text, n int)'),
    (OWNER, """INSERT INTO app."Order" SELECT g, 'v' || g, g FROM generate_series(1, 20) g"""),
    (
        OWNER,
        'CREATE TABLE app.line (id int PRIMARY KEY, o int REFERENCES app."Order" ON DELETE CASCADE ON UPDATE CASCADE '
        "DEFERRABLE, v text)",
    ),
    (OWNER, "INSERT INTO app.line SELECT g, g, 'l' FROM generate_series(1, 10) g"),
    (OWNER, "CREATE TABLE app.log (at int, what text)"),
    (OWNER, "CREATE TABLE app.feeling (id int PRIMARY KEY, m app.mood, s app.short, p app.pair)"),
    (OWNER, "INSERT INTO app.feeling VALUES (1, 'ok', 's', '(1,x)')"),
    (OWNER, "CREATE TABLE app.events (id int PRIMARY KEY, v text, w int DEFAULT 7) PARTITION BY RANGE (id)"),
    (OWNER, "CREATE TABLE app.events_1 PARTITION OF app.events FOR VALUES FROM (0) TO (100)"),
    (OWNER, "CREATE TABLE app.events_2 PARTITION OF app.events FOR VALUES FROM (100) TO (200) PARTITION BY RANGE (id)"),
    (OWNER, "CREATE TABLE app.events_2_1 PARTITION OF app.events_2 FOR VALUES FROM (100) TO (150)"),
    (OWNER, "CREATE TABLE app.events_3 PARTITION OF app.events FOR VALUES FROM (200) TO (300)"),
    (OWNER, "INSERT INTO app.events SELECT g, 'e' FROM generate_series(1, 149) g"),
    (OWNER, "INSERT INTO app.events VALUES (250, 'other''s')"),
    (ADMINISTRATOR, 'ALTER TABLE app.events_3 OWNER TO "Other"'),
    (OWNER, "CREATE TABLE app.hashed (id int PRIMARY KEY, v text) PARTITION BY HASH (id)"),
    (OWNER, "CREATE TABLE app.hashed_0 PARTITION OF app.hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0)"),
    (OWNER, "CREATE TABLE app.hashed_1 PARTITION OF app.hashed FOR VALUES WITH (MODULUS 2, REMAINDER 1)"),
    (OWNER, "INSERT INTO app.hashed SELECT g, 'h' FROM generate_series(1, 20) g"),
    (OWNER, "CREATE TABLE app.city (name text PRIMARY KEY, people int)"),
    (OWNER, "CREATE TABLE app.capital (country text, PRIMARY KEY (name)) INHERITS (app.city)"),
    (OWNER, "INSERT INTO app.capital VALUES ('Bern', 134, 'CH')"),
    (OWNER, 'CREATE VIEW app.ruled AS SELECT id, v FROM app."Order"'),
    (
        OWNER,
        'CREATE RULE ruled AS ON UPDATE TO app.ruled DO INSTEAD UPDATE app."Order" SET v = NEW.v WHERE id = OLD.id '
        "RETURNING id, v",
    ),
    (OWNER, 'CREATE VIEW app.instead AS SELECT id, v FROM app."Order"'),
    (
        OWNER,
        "CREATE FUNCTION app.instead() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        'INSERT INTO app."Order" VALUES (NEW.id, NEW.v); RETURN NEW; END $$',
    ),
    (OWNER, "CREATE TRIGGER instead INSTEAD OF INSERT ON app.instead FOR EACH ROW EXECUTE FUNCTION app.instead()"),
    (OWNER, 'GRANT ALL ON app.ruled, app.instead TO "select"'),
)

TABLES = ("Order", "line", "log", "feeling", "events", "hashed", "city", "capital")
"""Tables of schema app that are replicated."""

Scenario = tuple[tuple[str, str], ...]


def by(role: str, *statements: str) -> Scenario:
    """The statements of one role."""
    return tuple((role, statement) for statement in statements)
