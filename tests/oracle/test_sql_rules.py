"""Rules for all of include/sql/oracle: prefixes, second runs, completeness of uninstalling and of grants, names of
parameters."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sluice.vendors.oracle
from sluice import sql_files
from sluice.vendors.oracle import catalog, preflight
from sluice.vendors.oracle.source.server import Server
from tests.oracle import server, sql_units


def with_heads() -> Iterator[tuple[str, str]]:
    """Each statement with its comments, and with those at the top of a file of several."""
    for file in sorted((sql_files.folder() / "oracle").glob("*.sql")):
        head, *sections = re.split(r"^-- name: (\w+)$\n", file.read_text(encoding="ascii"), flags=re.MULTILINE)
        yield from zip(sections[::2], (head.strip() + "\n" + text for text in sections[1::2]), strict=True)
        if not sections:
            yield file.stem, head


FILES = dict(with_heads())
CODE = {name: re.sub(r"--.*", "", text) for name, text in FILES.items()}
CREATED = re.compile(
    r"CREATE (?P<again>OR REPLACE )?(?:NONEDITIONABLE )?"
    r"(?P<kind>TABLE|SEQUENCE|INDEX|VIEW|PACKAGE BODY|PACKAGE|TRIGGER) (?P<name>[^\s(']+)"
)


def created() -> set[tuple[str, str, bool]]:
    """Kind and name of each created object, and whether a second run replaces it."""
    return {
        (found["kind"], found["name"], found["again"] is not None)
        for name, text in CODE.items()
        if name
        not in ("grants", "grants_slave", "slave_resources")  # of privileges; on a slave, which makes what is not there
        for found in CREATED.finditer(text)
    }


def test_every_object_bears_the_prefix() -> None:
    assert [name for _, name, _ in created() if not name.startswith("${prefix}")] == []


def test_a_second_run_makes_nothing_twice() -> None:
    """Objects that cannot be replaced are created by the procedure that first looks for their name."""
    looked_for = re.findall(r"make\('([^']+)', q'~\s*CREATE \w+ (\S+)", CODE["resources_v1"])
    assert all(asked == made for asked, made in looked_for)
    assert {name for _, name, again in created() if not again} == {name for _, name in looked_for}


def test_uninstalling_names_all_that_was_made() -> None:
    gone = {tuple(found) for found in re.findall(r"remove\('(\w+)', '([^']+)'", CODE["uninstall"])}
    # An index goes with its table, a body with its package.
    assert gone == {(kind, name) for kind, name, _ in created() if kind not in ("INDEX", "PACKAGE BODY")}


def test_items_has_the_columns_that_other_programs_read() -> None:
    (table,) = re.findall(r"CREATE TABLE \$\{prefix\}ITEMS \((.*?)CONSTRAINT", CODE["resources_v1"], re.DOTALL)
    assert re.findall(r"^ +(\w+) ", table, re.MULTILINE) == [
        *("REPL_KEY", "TRANS_KEY", "DBID", "TABLENAME", "GUID", "DB_ACTION"),
        *("DB_CATALOG", "DB_SCHEMA", "CONTENT", "OLDCONTENT", "VERSION"),
    ]


def test_the_view_and_the_catalogue_take_a_key_from_the_same_kinds_of_indexes() -> None:
    (kinds,) = re.findall(r"i\.INDEX_TYPE IN \(([^)]*)\)", CODE["cols_view"])
    assert tuple(re.findall(r"'([^']*)'", kinds)) == catalog.OF_COLUMNS


def test_every_view_of_the_server_that_is_read_is_granted() -> None:
    # On an ASM instance nothing can be granted: its accounts are administrators.
    of_masters = [text for name, text in CODE.items() if not name.startswith("asm_")]
    read = {view for text in of_masters for view in re.findall(r"(?:FROM|JOIN) (G?V\$\w+|DBA_\w+)", text)}
    granted = {
        view.replace("V_$", "V$")
        for view in re.findall(
            r"ON SYS\.(\w+\$?\w*) TO", CODE["grants"] + CODE["grants_redo"] + CODE["grants_redo_rows"]
        )
    }
    assert read == {view for view in granted if "$" in view or view.startswith("DBA_")}


def test_every_package_that_blocks_call_is_granted() -> None:
    blocks = [CODE[name] for name in ("origin", "code_body", "capture", "structure", "uninstall")]
    called = {package for text in blocks for package in re.findall(r"\b((?:DBMS|UTL)_\w+)\.", text)}
    assert called and called <= set(re.findall(r"GRANT EXECUTE ON SYS\.(\w+) TO", CODE["grants"]))


@pytest.mark.parametrize("slave", [False, True])
def test_accounts_of_the_tests_get_the_documented_grants(slave: bool) -> None:
    granted = server.grants("TRIED", slave=slave)
    assert ("GRANT EXECUTE ON SYS.DBMS_FLASHBACK TO TRIED" in granted) is not slave
    assert "GRANT EXECUTE ON SYS.DBMS_LOCK TO TRIED" in granted
    revoked = "REVOKE INHERIT PRIVILEGES ON USER TRIED FROM PUBLIC"
    assert granted.count(revoked) == 1
    assert all(re.fullmatch(r"GRANT [^;]+ TO TRIED", statement) for statement in granted if statement != revoked)


@pytest.mark.parametrize("name", ["grants", "grants_slave", "grants_redo_rows"])
def test_code_of_others_inherits_no_privilege_of_an_account(name: str) -> None:
    assert "REVOKE INHERIT PRIVILEGES ON USER ${account} FROM PUBLIC;" in CODE[name]


def test_packages_run_with_the_rights_of_their_owner_and_no_view_with_those_of_its_reader() -> None:
    heads = [
        head
        for text in CODE.values()
        for head in re.findall(r"CREATE OR REPLACE NONEDITIONABLE PACKAGE (?!BODY).*", text)
    ]
    assert heads and all(" AUTHID DEFINER AS" in head for head in heads)
    assert not any("BEQUEATH CURRENT_USER" in text or "AUTHID CURRENT_USER" in text for text in CODE.values())


def test_a_slave_is_granted_all_that_its_check_asks_for_and_its_statements_call() -> None:
    grants = CODE["grants_slave"]
    (privileges,) = re.findall(r"GRANT (CREATE [^;]*) TO", grants)
    assert set(privileges.split(", ")) == set(preflight.PRIVILEGES)
    packages = set(re.findall(r"GRANT EXECUTE ON SYS\.(\w+) TO", grants))
    modules = [VENDOR / f"{name}.py" for name in ("session", "digester", "column_texts")]
    modules += (VENDOR / "target").glob("*.py")
    called = {package for path in modules for package in re.findall(r"\b((?:DBMS|UTL)_\w+)\.", path.read_text())}
    of_files = [CODE[name] for name in FILES if "%(" in CODE[name] or name == "blob_hex"]
    called |= {package for text in of_files for package in re.findall(r"\b((?:DBMS|UTL)_\w+)\.", text)}
    # A slave's snapshots are transactions.
    assert called - {"DBMS_FLASHBACK"} <= packages and set(preflight.PACKAGES) <= packages
    assert "GENERATED" not in CODE["slave_resources"] or "CREATE SEQUENCE" in privileges


@pytest.mark.parametrize("name", FILES)
def test_a_header_names_callers_and_privileges(name: str) -> None:
    head = FILES[name].split("\n\n", 1)[0]
    assert ("Called by:" in head or "Binds:" in head) and "Privileges:" in head and "Oldest version:" in head
    for method in re.findall(r"Server\.(\w+)", head):
        assert hasattr(Server, method)


_RESERVED = """
access add all alter and any as asc audit between by char check cluster column column_value comment compress
connect create current date decimal default delete desc distinct drop else exclusive exists file float for
from grant group having identified immediate in increment index initial insert integer intersect into is level
like lock long maxextents minus mlslabel mode modify nested_table_id noaudit nocompress not nowait null number
of offline on online option or order pctfree prior public raw rename resource revoke row rowid rownum rows
select session set share size smallint start successful synonym sysdate table then to trigger uid union unique
update user validate values varchar varchar2 view whenever where with
"""
RESERVED = frozenset(_RESERVED.split())
"""Words of Oracle's SQL that no parameter can have as its name: ORA-01745."""


def texts_of_statements() -> Iterator[tuple[str, str]]:
    """The files, and the strings in the vendor's modules, some of which are statements."""
    for name in sql_units.names():
        yield name, "\n".join(sql_units.units(name).values())
    for module in sorted(VENDOR.rglob("*.py")):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield module.stem, node.value


def test_no_parameter_has_a_reserved_word_as_its_name() -> None:
    found = [(name, bind) for name, text in texts_of_statements() for bind in re.findall(r"(?<![:\w?]):(\w+)", text)]
    assert ("compile_errors", "beginning") in found and ("tables_registry", "repl_key") in found
    assert [(name, bind) for name, bind in found if bind.lower() in RESERVED] == []


VENDOR = Path(sluice.vendors.oracle.__file__).parent
PAGES = [Path(__file__).resolve().parents[2] / "docs" / f"{name}.md" for name in ("oracle", "oracle-slave")]


@pytest.mark.parametrize("name", FILES)
def test_a_page_lists_for_each_file_where_it_ran(name: str) -> None:
    rows = [line for page in PAGES for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert any(f"`{name}`" in row or f"`{name}.sql`" in row for row in rows)
