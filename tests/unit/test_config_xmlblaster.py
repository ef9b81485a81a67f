"""xmlBlaster's own files are used unchanged: a YAML names the connections and points at them."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice import config
from sluice.configuration.mistakes import ConfigError
from sluice.configuration.model import Endpoint, SlaveConfig
from sluice.configuration.options import ThrottleOptions
from sluice.configuration.watched import WatchedFile
from sluice.failover import reversal
from sluice.model.names import Prefix, TableName
from sluice.model.transformation import Renamed

MASTER = """\
# of a ReplicationAgent, as it was run with -master
db.url=jdbc:oracle:thin:@localhost:1521:TEST
db.user= MYSCHEMA
db.password=secret
$_{xmlBlaster_uniqueId}=reader
mom.loginName=Reader/1
mom.topicName=replication.${replication.prefix}
changeDetector.detectStatement=SELECT MAX(repl_key) FROM TEST_ITEMS
alertScheduler.pollInterval=5000
replication.prefix=TEST
replication.bootstrapFile=org/xmlBlaster/contrib/replication/setup/oracle/bootstrap.sql
replication.sendInitialTableContent=true
table.${db.user}.TABLE1=actions=IDU,trigger=TEST_TR01,sequence=3
table.MYSCHEMA.TABLE2=actions=U
table.MYSCHEMA.LOG=actions=
"""
SLAVE = """\
db.url=jdbc:oracle:thin:@localhost:1521:COPY
db.user=COPY
db.password=secret
mom.loginName=Writer/1
mom.dispatcherPlugin=ReplManager,1.0
dispatch/connection/retries=-1
dbWriter.writer.class=org.xmlBlaster.contrib.replication.ReplicationWriter
replication.initialFilesLocation=${base}/carried
base=/mnt
"""
PLUGINS = """\
<?xml version='1.0' encoding='ISO-8859-1'?>
<xmlBlaster>
  <plugin id='ReplNDBPlugin' className='org.xmlBlaster.contrib.dbwatcher.plugin.DbWatcherPlugin'>
    <attribute id='replication.prefix'>TEST</attribute>
    <attribute id='db.password'>secret</attribute>
    <attribute id='table.MYSCHEMA.TABLE1'>actions=IDU,trigger=TEST_TR01,sequence=3</attribute>
    <attribute id='table.MYSCHEMA.TABLE2'>actions=U</attribute>
  </plugin>
  <plugin id='Second' className='org.xmlBlaster.contrib.dbwatcher.plugin.DbWatcherPlugin'>
    <attribute id='replication.prefix'>OTHER_</attribute>
    <attribute id='table.MYSCHEMA.*'/>
  </plugin>
</xmlBlaster>
"""
CONNECTIONS = """\
from: master.properties
master: {conn_id: test_master}
slaves:
  dr1: {conn_id: test_dr1, from: slave.properties}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of replications, and one with the files of an xmlBlaster."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    (tmp_path / "master.properties").write_text(MASTER)
    (tmp_path / "slave.properties").write_text(SLAVE)
    (tmp_path / "xmlBlasterPlugins.xml").write_text(PLUGINS)
    return tmp_path


def without(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).unlink()


def lines(folder: Path) -> list[str]:
    return [str(mistake).replace(f"{folder}/", "") for mistake in config.survey().mistakes]


def test_the_agents_files_need_nothing_but_connections(folder: Path) -> None:
    without(folder, "xmlBlasterPlugins.xml")
    (folder / "TEST.yaml").write_text(CONNECTIONS)
    (test,) = config.survey().replications
    assert (test.prefix, test.source) == (Prefix("TEST"), folder / "TEST.yaml")
    assert test.points_at == (folder / "master.properties", folder / "slave.properties")
    assert test.master == Endpoint("test_master")
    assert dict(test.slaves) == {"dr1": SlaveConfig("dr1", "test_dr1", initial_files_location="/mnt/carried")}
    found = {str(rule.pattern): (rule.actions, rule.trigger, rule.sequence) for rule in test.tables}
    assert found == {
        "myschema.table1": (frozenset("IDU"), "TEST_TR01", 3),
        "myschema.table2": (frozenset("U"), None, None),
        "myschema.log": (frozenset(), None, None),
    }
    assert "secret" not in repr(test)


def test_every_replication_of_a_plugins_file_has_a_yaml_of_its_own(folder: Path) -> None:
    without(folder, "master.properties", "slave.properties")
    text = "from: xmlBlasterPlugins.xml\nmaster: {conn_id: m}\nslaves: {}\n"
    (folder / "TEST.yaml").write_text("prefix: test\n" + text)
    (folder / "OTHER.yaml").write_text("prefix: other_\n" + text)
    other, test = config.survey().replications
    assert [str(rule.pattern) for rule in test.tables] == ["myschema.table1", "myschema.table2"]
    assert [str(rule.pattern) for rule in other.tables] == ["myschema.*"]


def test_the_files_may_lie_anywhere(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("agent")
    for name in ("master.properties", "slave.properties"):
        (folder / name).rename(elsewhere / name)
    without(folder, "xmlBlasterPlugins.xml")
    master, slave = elsewhere / "master.properties", os.path.relpath(elsewhere / "slave.properties", folder)
    (folder / "TEST.yaml").write_text(
        CONNECTIONS.replace("master.properties", str(master)).replace("slave.properties", slave)
    )
    (test,) = config.survey().replications
    assert len(test.tables) == 3 and test.slave("dr1").initial_files_location == "/mnt/carried"


def test_the_yaml_overrides_the_file(folder: Path) -> None:
    without(folder, "xmlBlasterPlugins.xml")
    own = "sluice.master.conn_id=old\nsluice.master.schema=Repl\nsluice.apply.lease=20\nsluice.apply.poll_interval=2\n"
    own += "sluice.initial.throttle.lock_waits=5\nsluice.initial.throttle.apply_lag=60\nsluice.slave.dr2.conn_id=two\n"
    (folder / "master.properties").write_text(MASTER + own)
    (folder / "TEST.yaml").write_text(
        f"""\
prefix: NEW_
{CONNECTIONS.replace("slave.properties", "slave.properties, initial_files_location: s3://bucket/in")}
tables:
  '"myschema".table2': {{actions: D}}
  myschema.log: {{replicate: false}}
  myschema.more:
apply: {{lease: 30}}
initial: {{throttle: {{lock_waits: 7}}}}
verify: {{schedule: never}}
"""
    )
    (new,) = config.survey().replications
    assert (new.prefix, new.master) == (Prefix("NEW_"), Endpoint("test_master", schema="Repl"))
    assert (new.apply.lease, new.apply.poll_interval, new.verify.schedule) == (30.0, 2.0, "never")
    assert new.initial.throttle == ThrottleOptions(lock_waits=7, apply_lag=60.0)
    assert new.slave("dr1").initial_files_location == "s3://bucket/in"
    assert new.slave("dr2").conn_id == "two"
    rules = {str(rule.pattern): rule for rule in new.tables}
    assert list(rules) == ["myschema.table2", "myschema.log", "myschema.more", "myschema.table1"]
    assert rules["myschema.table2"].actions == {"D"}
    assert not rules["myschema.log"].replicate
    assert rules["myschema.table1"].sequence == 3


def test_without_a_yaml_the_remedy_is_to_write_one(folder: Path) -> None:
    without(folder, "slave.properties", "xmlBlasterPlugins.xml")
    assert lines(folder) == [
        "master.properties:10: sluice.master.conn_id: is missing; name the Airflow connection of this database, e.g. "
        "demo_master, or leave this file as it is and write a YAML with from: master.properties"
    ]


CASES = {
    "no such file": (
        ("from: master.properties", "from: mister.properties"),
        "TEST.yaml:1: from: mister.properties cannot be read: No such file or directory; name a master.properties",
    ),
    "no path": (
        ("from: master.properties", r'from: "\0.properties"'),
        "cannot be read: embedded null byte; name a master.properties",
    ),
    "another kind": (
        ("from: master.properties", "from: DEMO.yaml"),
        "TEST.yaml:1: from: 'DEMO.yaml' is not .properties or .xml; name a master.properties or an xmlBlasterPlugins",
    ),
    "a list": (("from: master.properties", "from: [a]"), "TEST.yaml:1: from: is a list; name a master.properties or"),
    "no master": (
        ("master: {conn_id: test_master}", "apply:"),
        "TEST.yaml:1: master: is missing; write conn_id and vendor of the database to replicate from",
    ),
    "no connection of a slave": (
        ("conn_id: test_dr1, ", ""),
        "TEST.yaml:4: slaves.dr1.conn_id: is missing; name the Airflow connection of this database, e.g. demo_master",
    ),
    "unknown key": (("master:", "mester:"), "TEST.yaml:2: mester: is not known; did you mean master?"),
    "a slave's file is no properties": (
        ("slave.properties", "xmlBlasterPlugins.xml"),
        "TEST.yaml:4: slaves.dr1.from: 'xmlBlasterPlugins.xml' is not .properties; name a slave.properties",
    ),
    "a slave's file is not there": (
        ("slave.properties", "slive.properties"),
        "TEST.yaml:4: slaves.dr1.from: slive.properties cannot be read: No such file or directory; name a slave.prop",
    ),
    "several replications": (
        ("from: master.properties", "from: xmlBlasterPlugins.xml"),
        "TEST.yaml:1: from: holds several replications; choose one with prefix: OTHER_, TEST",
    ),
    "none of several replications": (
        ("from: master.properties", "from: xmlBlasterPlugins.xml\nprefix: TOAST"),
        "TEST.yaml:2: prefix: 'TOAST' is no replication of xmlBlasterPlugins.xml; did you mean TEST? Known prefixes:",
    ),
    "a table of the file again": (
        ("slaves:", "tables:\n  myschema.new: {trigger: test_tr01}\nslaves:"),
        "master.properties:13: table.${db.user}.TABLE1: has the same trigger TEST_TR01 as the table in TEST.yaml:4",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_names_the_file_that_must_change(folder: Path, case: str) -> None:
    (old, new), told = CASES[case]
    assert old in CONNECTIONS
    (folder / "TEST.yaml").write_text(CONNECTIONS.replace(old, new, 1))
    found = [line for line in lines(folder) if told in line]
    assert found, lines(folder)
    with pytest.raises(ConfigError):
        config.load("TEST")


FILES = {
    "table": ("master.properties", "actions=U", "actions=X", "14: table.MYSCHEMA.TABLE2: actions: 'X' has 'X', which"),
    "reference": ("master.properties", "${db.user}", "${user}", "13: table.${user}.TABLE1: ${user} stands for nothing"),
    "prefix": ("master.properties", "=TEST\nrepl", "=1\nrepl", "10: replication.prefix: '1' is no prefix; write a"),
    "own key": ("master.properties", "db.user=", "sluice.master.con_id=x\ndb.user=", "3: sluice.master.con_id: is not"),
    "own pointer": (
        "master.properties",
        "db.user=",
        "sluice.slave.dr1.from=slave.properties\ndb.user=",
        "3: sluice.slave.dr1.from: stands only in a YAML; write initial_files_location",
    ),
    "location": ("slave.properties", "/mnt", "mnt", "8: replication.initialFilesLocation: 'mnt/carried' is neither"),
    "location that refers": (
        "slave.properties",
        "${base}",
        "${user.home}",
        "8: replication.initialFilesLocation: ${user.home} stands for nothing; write initial_files_location for this",
    ),
    "mapping without a schema": (
        "slave.properties",
        "base=",
        "replication.mapper.table.TABLE9=T1\nbase=",
        "9: replication.mapper.table.TABLE9: names no schema, and no line under tables is for a table table9",
    ),
    "mapping of nothing": (
        "slave.properties",
        "base=",
        "replication.mapper.column.COLUMN=C\nbase=",
        "9: replication.mapper.column.COLUMN: does not name what it maps; write replication.mapper.column.SCHEMA.TABLE",
    ),
    "own mapper": (
        "slave.properties",
        "base=",
        "replication.mapper.class=com.example.Mapper\nbase=",
        "9: replication.mapper.class: gives the slave other data by code of its own, which is not read",
    ),
    "hook": (
        "slave.properties",
        "base=",
        "dbWriter.prePostStatement.class=com.example.Hook\nbase=",
        "9: dbWriter.prePostStatement.class: gives the slave other data by code of its own",
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_a_mistake_in_a_referenced_file_names_that_file(folder: Path, case: str) -> None:
    name, old, new, told = FILES[case]
    without(folder, "xmlBlasterPlugins.xml")
    (folder / "TEST.yaml").write_text(CONNECTIONS)
    before = (folder / name).read_text()
    assert old in before
    (folder / name).write_text(before.replace(old, new, 1))
    assert any(line.startswith(f"{name}:{told}") for line in lines(folder)), lines(folder)


def test_a_yaml_with_an_unknown_prefix_is_reported(folder: Path) -> None:
    without(folder, "xmlBlasterPlugins.xml")
    (folder / "master.properties").write_text(MASTER.replace("replication.prefix=TEST", "x=").replace("${repl", "${x"))
    (folder / "TEST.yaml").write_text(CONNECTIONS)
    assert lines(folder) == [
        "TEST.yaml:1: prefix: is missing; write a letter, then letters, digits or underscores, 30 characters at most, "
        "e.g. DEMO_"
    ]


def test_two_yamls_that_take_one_prefix_from_a_file_are_both_named(folder: Path) -> None:
    without(folder, "xmlBlasterPlugins.xml")
    (folder / "A.yaml").write_text(CONNECTIONS)
    (folder / "B.yaml").write_text(CONNECTIONS)
    found = lines(folder)
    assert any("TEST is also configured in B.yaml" in line for line in found), found
    assert any("TEST is also configured in A.yaml" in line for line in found), found


def test_a_broken_yaml_does_not_make_replications_of_the_files_that_it_points_at(folder: Path) -> None:
    without(folder, "xmlBlasterPlugins.xml")
    (folder / "TEST.yaml").write_text(CONNECTIONS + "x: [")
    assert {mistake.file.name for mistake in config.survey().mistakes} == {"TEST.yaml"}
    with pytest.raises(ConfigError, match=r"TEST\.yaml"):
        config.load("TEST")


def test_a_change_of_a_referenced_file_is_noticed(folder: Path) -> None:
    without(folder, "xmlBlasterPlugins.xml")
    (folder / "TEST.yaml").write_text(CONNECTIONS)
    watched = WatchedFile(config.load("TEST"))
    assert watched.again() is not None
    assert watched.again() is None
    (folder / "master.properties").write_text(MASTER + "table.MYSCHEMA.TABLE9=\n")
    changed = watched.again()
    assert changed is not None and len(changed.tables) == 4
    (folder / "slave.properties").write_text("")
    changed = watched.again()
    assert changed is not None and changed.slave("dr1").initial_files_location is None


def test_a_text_is_checked_as_if_it_were_the_file(folder: Path) -> None:
    without(folder, "xmlBlasterPlugins.xml")
    added = config.checked(folder / "TEST.yaml", CONNECTIONS + "  dr2: {conn_id: test_dr2}\n")
    assert list(added.slaves) == ["dr1", "dr2"] and len(added.tables) == 3
    with pytest.raises(ConfigError, match=r"TEST\.yaml:5: slaves\.dr2\.conn_id: is missing"):
        config.checked(folder / "TEST.yaml", CONNECTIONS + "  dr2: {}\n")
    with pytest.raises(ConfigError, match=r"TEST\.yaml:5: master: is already given on line 2"):
        config.checked(folder / "TEST.yaml", CONNECTIONS + "master: {conn_id: test_master}\n")


def test_a_failover_writes_no_file_for_a_yaml_that_points_elsewhere(folder: Path) -> None:
    without(folder, "xmlBlasterPlugins.xml")
    (folder / "TEST.yaml").write_text(CONNECTIONS)
    assert reversal.write(config.load("TEST"), "dr1") is None
    assert not list(folder.glob("*.reversed*"))


def test_the_example_of_the_page_is_right(folder: Path) -> None:
    without(folder, "xmlBlasterPlugins.xml")
    page = (Path(__file__).resolve().parents[2] / "docs" / "xmlblaster-files.md").read_text()
    (example,) = re.findall(r"```yaml\n(from:.*?)```", page, re.DOTALL)
    (folder / "TEST.yaml").write_text(example)
    assert config.load("TEST").slave("dr1") == SlaveConfig("dr1", "test_dr1", initial_files_location="/mnt/carried")


SEED = """\
<plugin id='ReplNDBPlugin' className='org.xmlBlaster.contrib.dbwatcher.plugin.DbWatcherPlugin'>
  <attribute id='replication.prefix'>TEST</attribute>
  <attribute id='table.MYSCHEMA.TABLE1'>actions=IDU,trigger=TEST_TR01,sequence=3</attribute>
  <attribute id='table.MYSCHEMA.TABLE2'>actions=U</attribute>
  <attribute id='table.MySchema."Mixed.Name"'/>
  <attribute id='table.CATALOG.MYSCHEMA.LOG_*'>actions=I</attribute>
</plugin>
"""
MASTERS = {
    "oracle": ("vendor: oracle", "", "MYSCHEMA"),
    "postgres": ("vendor: postgres", "", "myschema"),
    "unsaid": ("", "", "myschema"),
    "redo": (
        "capture: redo, location: /srv/redo",
        "redo: {program: /opt/olr, schema: /srv/chkpt.json}\n",
        "myschema",
    ),
    "redo, exact": (
        "capture: redo, location: /srv/redo",
        "redo: {program: /opt/olr, schema: /srv/chkpt.json, exact_names: true}\n",
        "MYSCHEMA",
    ),
}


@pytest.mark.parametrize("which", MASTERS)
def test_names_are_folded_as_the_masters_own_sql_folds_them(folder: Path, which: str) -> None:
    """The example of xmlBlaster's manual, and every spelling of a name in it, found in the master's dictionary."""
    without(folder, "master.properties", "slave.properties")
    said, more, schema = MASTERS[which]
    (folder / "xmlBlasterPlugins.xml").write_text(SEED)
    conn_id = "conn_id: m, " if "redo" not in which else ""
    (folder / "TEST.yaml").write_text(
        f"from: xmlBlasterPlugins.xml\nmaster: {{{conn_id}{said}}}\nslaves: {{dr1: {{conn_id: s}}}}\n{more}"
    )
    (test,) = config.survey().replications
    fold = str.upper if schema.isupper() else str.lower
    existing = [TableName(schema, name) for name in (fold("table1"), fold("table2"), "Mixed.Name", fold("log_2026"))]
    resolved = {each.table: (each.actions, each.trigger) for each in test.resolve(existing)}
    assert set(resolved) == set(existing)
    assert resolved[existing[0]] == (frozenset("IUD"), "TEST_TR01")
    assert resolved[existing[1]] == (frozenset("U"), None)


def test_names_are_folded_in_a_properties_file_by_its_own_master(folder: Path) -> None:
    without(folder, "slave.properties", "xmlBlasterPlugins.xml")
    added = "sluice.master.conn_id=m\nsluice.master.vendor=oracle\nsluice.slave.dr1.conn_id=s\n"
    (folder / "master.properties").write_text(MASTER + added)
    (test,) = config.survey().replications
    assert [str(rule.pattern) for rule in test.tables] == [
        '"MYSCHEMA"."TABLE1"',
        '"MYSCHEMA"."TABLE2"',
        '"MYSCHEMA"."LOG"',
    ]


MAPPED = """\
replication.mapper.class=org.xmlBlaster.contrib.replication.impl.DefaultMapper
replication.mapper.schema.MYSCHEMA=Copy
replication.mapper.table.MYSCHEMA.TABLE1=Orders
replication.mapper.column.MYSCHEMA.TABLE1.COM_MESSAGEID=Com_RecordId
replication.mapper.column.MYSCHEMA.TABLE1."mixed"="as Here"
replication.mapper.tables=LOG=JOURNAL
"""


@pytest.mark.parametrize(
    ("vendor", "fold"), [("oracle", str.upper), ("postgres", str.lower), ("mysql", str)], ids=["oracle", "pg", "mysql"]
)
def test_mappers_of_names_become_targets_and_columns(folder: Path, vendor: str, fold: Callable[[str], str]) -> None:
    without(folder, "xmlBlasterPlugins.xml")
    (folder / "slave.properties").write_text(SLAVE + MAPPED)
    (folder / "TEST.yaml").write_text(
        "from: master.properties\nmaster: {conn_id: m, vendor: oracle}\n"
        f"slaves:\n  dr1: {{conn_id: s, vendor: {vendor}, from: slave.properties}}\n  dr2: {{conn_id: s2}}\n"
    )
    (test,) = config.survey().replications
    one, two = test.slave("dr1"), test.slave("dr2")
    table = TableName("MYSCHEMA", "TABLE1")
    here = test.placement(one).slave_name
    copy = fold("Copy")
    assert here(table) == TableName(copy, fold("Orders"))
    assert here(TableName("MYSCHEMA", "TABLE2")) == TableName(copy, "TABLE2")
    assert here(TableName("MYSCHEMA", "LOG")) == TableName(copy, fold("JOURNAL"))
    changed = test.transformation(table, one)
    assert changed is not None
    assert dict(changed.columns) == {"COM_MESSAGEID": Renamed(fold("Com_RecordId")), "mixed": Renamed("as Here")}
    assert test.placement(two).slave_name(table) == table and test.transformation(table, two) is None


def test_a_line_of_the_yaml_replaces_what_the_file_maps(folder: Path) -> None:
    without(folder, "xmlBlasterPlugins.xml")
    (folder / "slave.properties").write_text(SLAVE + MAPPED)
    (folder / "TEST.yaml").write_text(
        "from: master.properties\nmaster: {conn_id: m, vendor: oracle}\n"
        "slaves:\n  dr1:\n    conn_id: s\n    from: slave.properties\n"
        "    tables: {MYSCHEMA.TABLE1: {target: {name: OTHER}}}\n"
    )
    (test,) = config.survey().replications
    here = test.placement(test.slave("dr1")).slave_name
    assert here(TableName("MYSCHEMA", "TABLE1")) == TableName("MYSCHEMA", "OTHER")
    assert here(TableName("MYSCHEMA", "TABLE2")) == TableName("COPY", "TABLE2")
