"""The demo's proof of a MariaDB finds every kind of difference, and nothing else."""

from collections.abc import Callable

from devstack.demo.compare_vendors import compare
from sluice.model.names import TableName
from tests.scenarios.mariadb.rig import Rig

TABLES = """
CREATE TABLE public.keyed (id integer, part varchar(5), note text, at timestamptz, PRIMARY KEY (part, id));
INSERT INTO public.keyed SELECT n, chr(97 + n % 3), 'note ' || n, now() FROM generate_series(1, 300) AS n;
CREATE TABLE public.keyless (a integer, b jsonb);
INSERT INTO public.keyless SELECT n % 5, '{"x": 1}' FROM generate_series(1, 100) AS n;
CREATE TABLE public.equal (id uuid PRIMARY KEY, value double precision, paid boolean);
INSERT INTO public.equal SELECT gen_random_uuid(), n / 7.0, n % 2 = 0 FROM generate_series(1, 50) AS n;
CREATE TABLE public.gone (id integer PRIMARY KEY);
"""
DAMAGE = [
    "UPDATE keyed SET note = 'mine' WHERE id = 5",
    "DELETE FROM keyed WHERE id = 6",
    "INSERT INTO keyed VALUES (7, 'z', NULL, NULL)",
    "INSERT INTO keyless VALUES (3, '{\"x\": 1}'), (NULL, NULL)",
    "DROP TABLE gone",
]


def test_each_difference_is_found_with_its_key_and_equal_tables_are_equal(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    pair.load()
    infos = (pair.pair.master_info, pair.pair.slave_info)
    names = [TableName("public", name) for name in ("keyed", "keyless", "equal", "gone")]
    assert {verdict.equal for verdict in compare(*infos, names)} == {True}
    for statement in DAMAGE:
        pair.slave.run(statement)
    keyed, keyless, equal, gone = compare(*infos, names)
    assert equal.equal and equal.master is not None and equal.master.rows == 50
    assert {each.key: (each.master is None, each.slave is None) for each in keyed.differences} == {
        "('c', '5')": (False, False), "('a', '6')": (False, True), "('z', '7')": (True, False),
    }  # fmt: skip
    assert [(each.master, each.slave) for each in keyless.differences] == [
        ("20 times", "21 times"), (None, "1 times"),
    ]  # fmt: skip
    assert gone.problem == "missing on the slave" and not gone.equal
