"""Each mistake in a replication file is reported with file, line, key and remedy."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice import config
from sluice.config import UnknownPrefix
from sluice.configuration.mistakes import ConfigError
from sluice.configuration.model import UnknownSlave

GOOD = """\
prefix: DEMO_
master: {conn_id: demo_master, vendor: postgres}
slaves:
  dr1: {conn_id: demo_dr1, vendor: postgres}
tables:
  public.*: {}
"""


def mistakes(folder: Path) -> list[str]:
    """Each mistake as `file:line: key: problem; remedy` without the folder; empty if there is none."""
    found = config.survey().mistakes
    if not found:
        return []
    assert all(mistake.problem and mistake.remedy for mistake in found)
    text = str(ConfigError(found))
    assert all(str(mistake) in text for mistake in found)
    return [str(mistake).replace(f"{folder}/", "") for mistake in found]


CASES = {
    "prefix missing": (("prefix: DEMO_", ""), "2: prefix: is missing; write a letter"),
    "prefix invalid": (("DEMO_", "1-DEMO"), "1: prefix: '1-DEMO' is no prefix; write a letter, then letters"),
    "prefix too long": (("DEMO_", "D" * 31), "1: prefix: 'DDDD"),
    "prefix a list": (("DEMO_", "[a]"), "1: prefix: is a list; write a letter"),
    "prefix empty": (("DEMO_", ""), "1: prefix: has no value; write a letter"),
    "feed with a strange name": (
        ("tables:", "feeds: la ke\ntables:"),
        "5: feeds: 'la ke' is no feed's name; use letters",
    ),
    "feed twice": (("tables:", "feeds: lake, lake\ntables:"), "5: feeds: 'lake' is there twice; write each name once"),
    "unknown key": (("tables:", "tabels:"), "5: tabels: is not known; did you mean tables?"),
    "unknown key inside": (
        ("conn_id: demo_dr1", "con_id: demo_dr1"),
        "4: slaves.dr1.con_id: is not known; did you mean",
    ),
    "conn_id missing": (("conn_id: demo_dr1, ", ""), "4: slaves.dr1.conn_id: is missing; name the Airflow connection"),
    "conn_id empty": (("demo_dr1", '" "'), "4: slaves.dr1.conn_id: is empty; name the Airflow connection"),
    "conn_id a mapping": (("demo_master", "{a: b}"), "2: master.conn_id: is a mapping; name the Airflow connection"),
    "conn_id of the master": (
        ("demo_dr1", "demo_master"),
        "4: slaves.dr1: has the master's own connection demo_master",
    ),
    "rules for no table": (
        ("conn_id: demo_dr1,", "conn_id: demo_dr1, conflict_rules: {},"),
        "4: slaves.dr1.conflict_rules: names no table; write one of {newest: COLUMN}",
    ),
    "a rule of two words": (
        ("conn_id: demo_dr1,", "conn_id: demo_dr1, conflict_rules: {public.*: {newest: at, wins: slave}},"),
        "4: slaves.dr1.conflict_rules.public.*: needs one of newest, wins and exit; write one of",
    ),
    "a rule without a function": (
        ("conn_id: demo_dr1,", "conn_id: demo_dr1, conflict_rules: {public.*: {exit: shop}},"),
        "4: slaves.dr1.conflict_rules.public.*.exit: 'shop' names no function; write package.module:function",
    ),
    "a rule with another winner": (
        ("conn_id: demo_dr1,", "conn_id: demo_dr1, conflict_rules: {public.*: {wins: me}},"),
        "4: slaves.dr1.conflict_rules.public.*.wins: 'me' is not known; known sides: master, slave",
    ),
    "rules without a comparison, in another word": (
        ("conn_id: demo_dr1,", "conn_id: demo_dr1, conflict_rules: {public.*: {newest: at}}, compare_values: off,"),
        "4: slaves.dr1.conflict_rules: contradicts compare_values: false, under which conflicts are not seen",
    ),
    "a list of nothing": (
        ("tables:", "verify: {tables: []}\ntables:"),
        "5: verify.tables: is empty; write",
    ),
    "an item of a list": (
        ("tables:", "verify: {mask: [a.b.c, {}]}\ntables:"),
        "5: verify.mask[1]: is a mapping; write schema.table.column",
    ),
    "a warning above what is critical": (
        ("tables:", "monitor:\n  lag_warning: 9\n  lag_critical: 5\ntables:"),
        "7: monitor.lag_critical: lag_warning 9 is above lag_critical 5; write a lag_critical of 9 or more",
    ),
    "rules without a comparison": (
        ("conn_id: demo_dr1,", "conn_id: demo_dr1, conflict_rules: {public.*: {newest: at}}, compare_values: false,"),
        "4: slaves.dr1.conflict_rules: contradicts compare_values: false, under which conflicts are not seen",
    ),
    "vendor unknown": (
        ("vendor: postgres}\nslaves", "vendor: postgresql}\nslaves"),
        "2: master.vendor: 'postgresql' is not",
    ),
    "master of a slave's vendor": (
        ("conn_id: demo_master", "conn_id: demo_master, vendor: mysql"),
        "2: master.vendor: 'mysql' is not known; known vendors of a master: oracle, postgres",
    ),
    "checkpoint in Redis where that is not supported": (
        ("demo_dr1, vendor: postgres", "demo_dr1, vendor: mysql, checkpoint: redis"),
        "slaves.dr1.checkpoint: 'redis' is not known; known places: slave",
    ),
    "vendor not supported": (
        ("demo_dr1, vendor: postgres", "demo_dr1, vendor: dbase"),
        "known vendors: mysql, oracle, postgres",
    ),
    "duplicate key": (("tables:", "slaves: {}\ntables:"), "5: slaves: is already given on line 3; keep one of the two"),
    "duplicate slave": (("tables:", "  dr1: {conn_id: x}\ntables:"), "5: slaves.dr1: is already given on line 4"),
    "slave twice by case": (
        ("tables:", "  DR1: {conn_id: x}\ntables:"),
        "5: slaves.DR1: differs from the slave on line 4",
    ),
    "connection twice": (
        ("tables:", "  b: {conn_id: demo_dr1}\ntables:"),
        "5: slaves.b: has the same connection demo_dr1",
    ),
    "slave's name": (("dr1:", '"dr 1":'), "4: slaves.dr 1: 'dr 1' is no slave's name; use letters, digits"),
    "slave called master": (
        ("dr1:", "Master:"),
        "4: slaves.Master: 'Master' means the other side in every command; choose",
    ),
    "slave without options": (("{conn_id: demo_dr1, vendor: postgres}", "x"), "4: slaves.dr1: is 'x'; write a mapping"),
    "slaves a list": (("  dr1: {conn_id: demo_dr1, vendor: postgres}", "  - dr1"), "3: slaves: is a list; write name:"),
    "tables a list": (("  public.*: {}", "  - public.a"), "5: tables: is a list; write a line for each table"),
    "no tables": (("\n  public.*: {}", " {}"), "5: tables: names no table; write a line"),
    "table without schema": (("public.*", "orders"), "6: tables.orders: 'orders' is no table; write schema.table"),
    "table of three parts": (("public.*", "a.b.c"), "6: tables.a.b.c: 'a.b.c' is no table; write schema.table"),
    "open quote": (("public.*", "'a.\"b'"), "6: tables.a.\"b: 'a.\"b' has an opening double quote"),
    "wildcard in schema": (("public.*", '"*.a"'), "6: tables.*.a: '*.a' has a wildcard in its schema; write one line"),
    "table twice": (
        ("{}", "{}\n  '\"public\".*': {}\n  public.a: {}\n  '\"public\".a': {}"),
        '9: tables."public".a: is the',
    ),
    "actions": (
        ("{}", "{actions: IXU}"),
        "6: tables.public.*.actions: 'IXU' has 'X', which is no action; write any of",
    ),
    "actions doubled": (
        ("{}", "{actions: IiD}"),
        "6: tables.public.*.actions: 'IiD' has an action twice; write any of",
    ),
    "actions without value": (
        ("{}", "{actions: }"),
        "6: tables.public.*.actions: has no value; write any of I, D and U",
    ),
    "sequence": (("{}", "{sequence: three}"), "6: tables.public.*.sequence: 'three' is not a whole number; write"),
    "sequence a fraction": (("{}", "{sequence: 1.5}"), "6: tables.public.*.sequence: '1.5' is not a whole number"),
    "sequence empty": (("{}", '{sequence: ""}'), "6: tables.public.*.sequence: '' is not a whole number"),
    "debug": (("{}", "{debug: maybe}"), "6: tables.public.*.debug: 'maybe' is neither true nor false; write true or"),
    "trigger for many": (
        ("{}", "{trigger: T1}"),
        "6: tables.public.*.trigger: would give every table of public.* the same",
    ),
    "trigger twice": (
        ("public.*: {}", "s.a: {trigger: T}\n  s.b: {trigger: t}"),
        "7: tables.s.b: has the same trigger t as",
    ),
    "trigger too long": (
        ("public.*: {}", f"s.a: {{trigger: {'é' * 30}x}}"),
        f"6: tables.s.a.trigger: '{'é' * 30}x' cannot name a trigger; use 60 bytes",
    ),
    "left out with options": (
        ("{}", "{replicate: no, sequence: 1}"),
        "6: tables.public.*: has sequence although replicate",
    ),
    "options a text": (("{}", "actions=IDU"), "6: tables.public.*: is 'actions=IDU'; write a mapping"),
    "safe mode and policy": (
        ("demo_dr1,", "demo_dr1, safe_mode: true, on_conflict: reject,"),
        "4: slaves.dr1.on_conflict: contradicts safe_mode: true, under which no change ever conflicts; take out",
    ),
    "safe mode and comparing": (
        ("demo_dr1,", "demo_dr1, safe_mode: true, compare_values: true,"),
        "4: slaves.dr1.compare_values: contradicts safe_mode: true, under which no row is compared before it is "
        "written; take out compare_values or safe_mode",
    ),
    "overwriting and comparing": (
        ("demo_dr1,", "demo_dr1, compare_values: true, on_conflict: overwrite,"),
        "4: slaves.dr1.compare_values: contradicts on_conflict: overwrite, under which no row is compared before it "
        "is written; take out compare_values or on_conflict",
    ),
    "policy": (
        ("demo_dr1,", "demo_dr1, on_conflict: ignore,"),
        "4: slaves.dr1.on_conflict: 'ignore' is not known; known",
    ),
    "checkpoint": (
        ("demo_dr1,", "demo_dr1, checkpoint: database,"),
        "4: slaves.dr1.checkpoint: 'database' is not known; known places: redis, slave",
    ),
    "location": (
        ("demo_dr1,", "demo_dr1, initial_files_location: a/b,"),
        "4: slaves.dr1.initial_files_location: 'a/b' is",
    ),
    "location that leads elsewhere": (
        ("demo_dr1,", "demo_dr1, initial_files_location: /in/../out,"),
        "4: slaves.dr1.initial_files_location: '/in/../out' is neither",
    ),
    "bucket that S3 forbids": (
        ("demo_dr1,", "demo_dr1, initial_files_location: s3://My_Bucket/in,"),
        "4: slaves.dr1.initial_files_location: 's3://My_Bucket/in' is neither",
    ),
    "locations no list": (
        ("tables:", "initial: {locations: {a: b}}\ntables:"),
        "5: initial.locations: is a mapping; write a list such as [/mnt/disk, s3://bucket/prefix]",
    ),
    "location of the list": (
        ("tables:", "initial:\n  locations:\n  - /mnt/disk\n  - mnt/disk\ntables:"),
        "8: initial.locations[1]: 'mnt/disk' is neither an absolute folder nor a place in S3",
    ),
    "location empty": (
        ("tables:", "initial: {locations: [/mnt/disk, '']}\ntables:"),
        "5: initial.locations[1]: '' is neither",
    ),
    "where": (("tables:", "initial: {where: id}\ntables:"), "5: initial.where: 'id' is neither true nor false"),
    "interval": (
        ("tables:", "apply: {checkpoint_interval: soon}\ntables:"),
        "5: apply.checkpoint_interval: 'soon' is not a",
    ),
    "interval not a number": (
        ("tables:", "apply: {lease: nan}\ntables:"),
        "5: apply.lease: 'nan' is not a number; write",
    ),
    "range": (
        ("tables:", "initial: {parallel: 0}\ntables:"),
        "5: initial.parallel: 0 is out of range; write a whole number",
    ),
    "throttle": (
        ("tables:", "initial: {throttle: {lock_waits: few}}\ntables:"),
        "5: initial.throttle.lock_waits: 'few' is not a whole number; write a whole number from 0",
    ),
    "throttle's rate": (
        ("tables:", "initial: {throttle: {megabytes_per_second: 0}}\ntables:"),
        "5: initial.throttle.megabytes_per_second: 0 is out of range; write a number from 0.001",
    ),
    "throttle's lag": (
        ("tables:", "initial: {throttle: {apply_lag: -1}}\ntables:"),
        "5: initial.throttle.apply_lag: -1 is out of range; write seconds from 0",
    ),
    "limit without query": (
        ("tables:", "initial: {throttle: {query_limit: 3}}\ntables:"),
        "5: initial.throttle.query_limit: is the limit of a query that is not there; add query, or take it out",
    ),
    "poll and lease": (
        ("tables:", "apply: {poll_interval: 9, lease: 5}\ntables:"),
        "5: apply.poll_interval: poll_interval 9",
    ),
    "tab": (("  dr1", "\tdr1"), "4: is indented with a tab; indent with spaces"),
    "bad yaml": (("demo_master,", "demo_master"), "2: is not YAML:"),
    "quoted schema": (
        ("public.*", '"Odd Schema".*'),
        "6: is not YAML: expected <block end>, but found '<scalar>'; put a key",
    ),
    "alias": (("public.*", "*.a"), "6: is not YAML:"),
    "alias of itself": (
        ("{conn_id: demo_master", "&a {conn_id: *a"),
        "2: master.conn_id: an alias stands inside of what it",
    ),
    "merge of a text": (("{}", "{<<: x}"), "6: tables.public.*.<<: merges no mapping; write <<: *name"),
    "control character": (("demo_dr1", '"a\x07b"'), "4: holds the character '\\x07', which YAML forbids; write it as"),
    "control character in a value": (
        ("demo_dr1", '"a\\x07b"'),
        "4: slaves.dr1.conn_id: holds control characters; name",
    ),
    "two documents": (("tables:", "---\ntables:"), "5: starts a second document; write one file for each prefix"),
    "odd key": (("tables:", "? [a]\n: b\ntables:"), "5: has a key that is no text; write key: value"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_reported_with_its_place_and_remedy(folder: Path, case: str) -> None:
    (old, new), told = CASES[case]
    assert old in GOOD
    (folder / "DEMO.yaml").write_text(GOOD.replace(old, new, 1))
    found = mistakes(folder)
    assert any(told in line for line in found), found
    assert all(line.startswith("DEMO.yaml:") and "; " in line for line in found)


def test_the_text_that_the_cases_change_is_good(folder: Path) -> None:
    (folder / "DEMO.yaml").write_text(GOOD)
    assert mistakes(folder) == []


def test_all_mistakes_of_all_files_are_reported_at_once(folder: Path) -> None:
    (folder / "A.yaml").write_text(GOOD.replace("DEMO_", "9").replace("{}", "{actions: Q, sequence: x}"))
    (folder / "b.properties").write_text("replication.prefix=B\ntable.a.b=actions=Z\n")
    (folder / "c.xml").write_text("<a>\n<b></a>")
    found = mistakes(folder)
    assert [line.split(": ")[0] for line in found] == [
        "A.yaml:1",
        "A.yaml:6",
        "A.yaml:6",
        "b.properties:1",
        "b.properties:2",
        "c.xml:2",
    ]
    assert str(ConfigError(config.survey().mistakes)).startswith("The configuration has 6 mistakes:\n")


@pytest.mark.parametrize("content", ["", "# only this\n", "- a\n", "text\n"])
def test_a_file_without_keys_is_reported(folder: Path, content: str) -> None:
    (folder / "A.yaml").write_text(content)
    assert "write prefix, master, slaves and tables" in mistakes(folder)[0]


def test_a_file_that_cannot_be_read_is_reported(folder: Path) -> None:
    (folder / "A.yaml").mkdir()
    (folder / "B.yaml").write_bytes(b"prefix: A\nmaster: \xff\n")
    assert mistakes(folder) == [
        "A.yaml: cannot be read: Is a directory; make it a file that can be read",
        "B.yaml:2: is not UTF-8; save it in UTF-8",
    ]


def test_a_missing_folder_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(folder / "none"))
    with pytest.raises(ConfigError, match="none: cannot be listed: No such file or directory; create it or set SLUICE"):
        config.load("DEMO_")


def test_one_prefix_in_two_files_belongs_to_neither(folder: Path) -> None:
    (folder / "A.yaml").write_text(GOOD)
    (folder / "B.yaml").write_text(GOOD.replace("DEMO_", "demo_"))
    (folder / "C.yaml").write_text(GOOD.replace("DEMO_", "FINE_"))
    assert mistakes(folder) == [
        "A.yaml:1: prefix: DEMO_ is also configured in B.yaml:1; rename one of them",
        "B.yaml:1: prefix: DEMO_ is also configured in A.yaml:1; rename one of them",
    ]
    with pytest.raises(ConfigError):
        config.load("DEMO_")
    assert config.load("fine_").prefix.name == "FINE_"


@pytest.mark.parametrize(
    "text",
    [
        "prefix: BAD_\nslaves: [",
        "prefix: BAD_\nmaster: {}\n",
        "prefix: 'bad_'\n\tx: 1",
        GOOD.replace("DEMO", "BAD") + "x: 1",
    ],
)
def test_a_broken_file_stops_its_own_replication_and_no_other(folder: Path, text: str) -> None:
    (folder / "DEMO.yaml").write_text(GOOD)
    (folder / "BAD.yaml").write_text(text)
    assert config.load("DEMO_").slave("dr1").conn_id == "demo_dr1"
    with pytest.raises(ConfigError, match=r"BAD\.yaml"):
        config.load("BAD_")
    survey = config.survey()
    assert [replication.prefix.name for replication in survey.replications] == ["DEMO_"]
    assert "BAD_" in survey.broken
    assert survey.mistakes


def test_an_unknown_prefix_names_the_known_ones(folder: Path) -> None:
    (folder / "DEMO.yaml").write_text(GOOD)
    (folder / "X.yaml").write_text("- broken\n")
    with pytest.raises(UnknownPrefix) as caught:
        config.load("DEMOO_")
    assert caught.value.known == ("DEMO_",)
    for part in ("'DEMOO_'", str(folder), "did you mean DEMO_?", "X.yaml", "add a file for it"):
        assert part in str(caught.value)


def test_an_unknown_slave_names_the_known_ones(folder: Path) -> None:
    (folder / "DEMO.yaml").write_text(GOOD)
    with pytest.raises(UnknownSlave) as caught:
        config.load("DEMO_").slave("dr9")
    assert caught.value.known == ("dr1",)
    for part in ("DEMO_", "'dr9'", "it has dr1", "DEMO.yaml"):
        assert part in str(caught.value)


PROPERTIES = {
    "replication.prefx=X\ntable.a.b=": "1: replication.prefix: is missing; did you mean replication.prefix instead of",
    "db.url=x": "replication.prefix: is missing; add it; xmlBlaster's default was REPL_",
    "table.T1=": "table.T1: names no schema; write table.public.t1",
    "table.a.b.c.d=": "table.a.b.c.d: does not name one table; write table.SCHEMA.TABLE",
    'table."a=': "has an opening double quote that is never closed; write table.SCHEMA.TABLE",
    "table.a.b=\ntable.a.b=": "table.a.b: is already given on line",
    "table.a.b=\ntable.A.B=": "table.A.B: is the same table as on line",
    "table.a.b=action=IDU": "table.a.b: action: is not known; did you mean actions?",
    "table.a.b=sequence=1,sequence=2": "table.a.b: sequence: is given twice; keep one of the two",
    "table.a.b=sequence=x": "table.a.b: sequence: 'x' is not a whole number",
    "table.a.b=actions=IQ": "table.a.b: actions: 'IQ' has 'Q', which is no action",
    "table.a.b=trigger=${nowhere}": "table.a.b: ${nowhere} stands for nothing; give nowhere a value in this file",
    "x=${x}\ntable.a.b=trigger=${x}": "table.a.b: refers to itself; write the value out",
    "sluice.slave.conn_id=c": "sluice.slave.conn_id: is not complete; write sluice.slave.<name>.<key>",
    "sluice.slave.a.b.conn_id=c": "sluice.slave.a.b.conn_id: has too many parts; write sluice.slave.<name>.<key>",
    "sluice.salve.a.conn_id=c": "sluice.salve.a.conn_id: is not known; did you mean slave?",
    "sluice.slave.a.conid=c": "sluice.slave.a.conid: is not known; did you mean conn_id?",
    "sluice.apply.leese=1": "sluice.apply.leese: is not known; did you mean lease?",
}


@pytest.mark.parametrize("text", PROPERTIES)
def test_a_mistake_in_properties_is_reported(folder: Path, text: str) -> None:
    head = "" if "is missing" in PROPERTIES[text] else "replication.prefix=X\nsluice.master.conn_id=m\n"
    (folder / "m.properties").write_text(head + text + "\n")
    found = mistakes(folder)
    assert any(PROPERTIES[text] in line for line in found), found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<a>\n<plugin>\n</a>", "x.xml:3: is not XML: mismatched tag; correct the XML there"),
        (
            '<!DOCTYPE a [\n<!ENTITY x SYSTEM "/etc/passwd">\n]>\n<a/>',
            "x.xml:2: declares an entity; write the text out",
        ),
        ("<a/>", "x.xml: has no plugin with an attribute replication.prefix; add the plugin"),
        ("<a>\n<plugin>\n<attribute id='table.a.b'/></plugin></a>", "x.xml:2: replication.prefix: is missing; add it"),
        (
            "<a><plugin>\n<attribute id='replication.prefix'>X</attribute>\n"
            "<attribute id='table.a.b'>actions=Z</attribute></plugin></a>",
            "x.xml:3: table.a.b: actions: 'Z' has 'Z', which is no action",
        ),
    ],
)
def test_a_mistake_in_plugins_xml_is_reported(folder: Path, text: str, told: str) -> None:
    (folder / "x.xml").write_text(text)
    found = mistakes(folder)
    assert any(line.startswith(told) for line in found), found


@pytest.mark.long
def test_aliases_that_multiply_are_refused_quickly(folder: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    (folder / "A.yaml").write_text("\n".join(lines))
    assert "stands for far too many values; use fewer aliases" in mistakes(folder)[0]


@pytest.mark.long
def test_bottomless_nesting_is_refused(folder: Path) -> None:
    (folder / "A.yaml").write_text("a: " + "[" * 20_000)
    assert "is nested far too deep" in mistakes(folder)[0]


SHORT_PROPERTIES = "replication.prefix=X\ntable.a.b=actions=I\nsluice.master.conn_id=m\n"
SHORT_XML = (
    "<a><plugin><attribute id='replication.prefix'>X</attribute><attribute id='table.a.b'/>"
    "<attribute id='sluice.master.conn_id'>m</attribute></plugin></a>"
)

_numbers = itertools.count()


@given(
    suffix=st.sampled_from([".yaml", ".properties", ".xml"]),
    text=st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(lambda text: text.encode(errors="replace")),
        st.builds(
            lambda text, at, noise: (text[:at] + noise + text[at:]).encode(errors="replace"),
            st.sampled_from([GOOD, SHORT_PROPERTIES, SHORT_XML]),
            st.integers(0, 150),
            st.text(max_size=5),
        ),
    ),
)
def test_any_file_gives_a_replication_or_a_list_of_mistakes(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, text: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp() / f"config{next(_numbers)}"
    folder.mkdir()
    (folder / f"A{suffix}").write_bytes(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_REPLICATIONS", str(folder))
        survey = config.survey()
    assert bool(survey.replications) != bool(survey.mistakes)
    for mistake in survey.mistakes:
        assert 0 <= mistake.line <= len(text) + 1
        assert mistake.problem
        assert mistake.remedy
