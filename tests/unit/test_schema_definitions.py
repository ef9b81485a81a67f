"""Differences of a slave's definitions from its master's, and statements that undo those of a failover."""

from hypothesis import given
from hypothesis import strategies as st

from sluice.model.schema_definitions import READ_ONLY, TREATMENTS, Definition, differences


def definition(kind: str, name: str, text: str) -> Definition:
    return Definition(kind, "s", "t", name, text, (f"make {kind} {name} {text}",), (f"remove {kind} {name}",))


KINDS = st.sampled_from(sorted(TREATMENTS))
DATABASES = st.dictionaries(st.tuples(KINDS, st.sampled_from("abc")), st.sampled_from("xyz")).map(
    lambda found: [definition(kind, name, text) for (kind, name), text in found.items()]
)


def after(database: list[Definition], statements: tuple[str, ...]) -> list[Definition]:
    """The database after the statements above."""
    there = {one.object_id: one for one in database}
    for statement in statements:
        verb, *words, name, text = statement.split(" ") if statement.startswith("make") else [*statement.split(" "), ""]
        made = definition(" ".join(words), name, text)
        if verb == "make":
            assert made.object_id not in there, "nothing is made twice"
            there[made.object_id] = made
        else:
            del there[made.object_id]
    return list(there.values())


@given(DATABASES, DATABASES)
def test_made_differences_are_gone_and_their_undo_brings_them_back(
    master: list[Definition], slave: list[Definition]
) -> None:
    now, undo = slave, []
    for one in differences(master, slave):
        now, undo = after(now, one.statements), [one.undo, *undo]
    assert all(one.stays for one in differences(master, now))
    for statements in undo:
        now = after(now, statements)
    assert sorted(now, key=lambda one: one.object_id) == sorted(slave, key=lambda one: one.object_id)


def test_the_slaves_own_definitions_stay_and_are_named_if_the_application_would_notice_them() -> None:
    read_only = Definition(*READ_ONLY, "on", ("set it",), ("reset it",))
    own = definition("trigger", "own", "x")
    found = differences([], [read_only, own, definition("index", "own", "x"), definition("view", "own", "x")])
    assert [(str(one), one.statements, one.automatic) for one in found] == [
        ("index own of s.t: only the slave has it, and it stays", (), False),
        ("trigger own of s.t: only the slave has it, and it stays", (), False),
        ("setting default_transaction_read_only: only the slave has it", ("reset it",), True),
    ]


def test_foreign_keys_are_made_after_what_they_refer_to() -> None:
    kinds = ["trigger", "foreign key", "primary key", "sequence", "default"]
    found = differences([definition(kind, "a", "x") for kind in kinds], [])
    assert [one.kind for one in found] == ["sequence", "default", "primary key", "foreign key", "trigger"]


def test_what_belongs_to_an_object_that_the_slave_lacks_is_told_by_that_object_alone() -> None:
    def of(kind: str, name: str, thing: str, text: str) -> Definition:
        return Definition(kind, "s", name, thing, text, ("make",), ())

    master = [
        of("owner", "f(int)", "function", "shop"), of("privilege", "f(int)", "function to PUBLIC", "EXECUTE"),
        of("comment", "mood", "type", "a mood"), of("owner", "mood", "type", "shop"),
        of("owner", "orders", "", "shop"), of("comment", "orders", 'column "a type"', "a note"),
    ]  # fmt: skip
    lacks_all = [of("owner", "orders", "", "sluice")]
    assert [str(one) for one in differences(master, lacks_all)] == [
        'comment of column "a type" of s.orders: is missing', "owner of s.orders: differs"
    ]  # fmt: skip
    has_all = [*lacks_all, of("owner", "f(int)", "function", "sluice"), of("owner", "mood", "type", "sluice")]
    assert [str(one) for one in differences(master, has_all)] == [
        "comment of type s.mood: is missing", 'comment of column "a type" of s.orders: is missing',
        "owner of function s.f(int): differs", "owner of type s.mood: differs", "owner of s.orders: differs",
        "privilege function to PUBLIC of s.f(int): is missing",
    ]  # fmt: skip
