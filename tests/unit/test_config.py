"""The meaning of a replication file in each format."""

import os
import re
from pathlib import Path

import pytest

from devstack.demo.start import SOURCE
from sluice import config
from sluice.configuration.model import Endpoint, Replication, SlaveConfig
from sluice.configuration.options import ApplyOptions, InitialOptions, ThrottleOptions
from sluice.configuration.rule import TablePattern
from sluice.configuration.section import sections
from sluice.model.names import Prefix

FULL = """\
prefix: demo_
master: {conn_id: demo_master, vendor: postgres, schema: Repl}
slaves:
  dr1: {conn_id: demo_dr1}
  dr-2:
    conn_id: demo_dr2
    schema: ctl
    on_conflict: reject
    existing_tables: keep
    allow_superuser: true
    trusted_ddl: yes
    lossy_columns: public.log.*, public.orders.tags
    initial_files_location: s3://bucket/in
  no: {conn_id: norway, safe_mode: yes, checkpoint: redis}
tables:
  public.orders: {actions: IDU, sequence: 3, trigger: DEMO_TR01, debug: true}
  public.*: {}
  public.log: {actions: "", sequence: -7}
  '"Mixed Case"."a.b*"':
  audit.x: {actions: di}
apply: {max_batch_changes: 5_000, checkpoint_interval: 10, poll_interval: 0.2, lease: 30}
initial:
  block_target_seconds: 2
  block_rows: 010
  parallel: 8
  files_s3: aws_default
  files_key: demo_key
  parallel_tables: 3
  parallel_ranges: 2
  read: locked
  lock_timeout: 0.2
  locations: [/mnt/disk, "s3://bucket/out"]
  where: true
  throttle:
    {active_sessions: 0, replica_lag: 0.5, query: "SELECT 1", query_limit: -2, megabytes_per_second: 0.5, pause: on}
"""

PROPERTIES = """\
# a master.properties of xmlBlaster
replication.prefix = TEST
db.url: jdbc:oracle:thin:@localhost:1521:orcl
mom.loginName=DbWatcherPlugin/1
schema = MYSCHEMA
table.MYSCHEMA.TABLE1=actions=IDU,trigger=${replication.prefix}_TR01,sequence=3
table.${schema}.TABLE2=actions=U
table.CATALOG..MYSCHEMA.TABLE3 = actions= , sequence = -4
table.MYSCHEMA.TABLE4=
table."Odd\\ Schema"."T.5"=actions
table.other.*=sequence=\\
    9
sluice.master.conn_id=test_master
sluice.master.allow_superuser=true
sluice.slave.dr1.conn_id=test_dr1
sluice.slave.dr1.safe_mode=true
sluice.apply.lease=20
sluice.initial.parallel=2
sluice.monitor.lag_warning=5
sluice.initial.throttle.lock_waits=5
"""

PLUGINS = """\
<?xml version='1.0' encoding='ISO-8859-1'?>
<!DOCTYPE xmlBlaster>
<xmlBlaster>
  <plugin id='ReplNDBPlugin' className='org.xmlBlaster.contrib.dbwatcher.plugin.DbWatcherPlugin'>
    <action do='LOAD' onStartupRunlevel='9'/>
    <attribute id='replication.prefix'>TEST</attribute>
    <attribute id='jdbc.drivers'>org.postgresql.Driver</attribute>
    <attribute id='table.MYSCHEMA.TABLE1'>actions=IDU,trigger=TEST_TR01,sequence=3</attribute>
    <attribute id='table.MYSCHEMA.TABLE2'><![CDATA[actions=U]]></attribute>
    <attribute id='sluice.master.conn_id'>test_master</attribute>
    <attribute id='sluice.slave.dr1.conn_id'>test_dr1</attribute>
  </plugin>
  <plugin id='Other'><attribute id='port'>3412</attribute></plugin>
  <plugin id='Second'>
    <attribute id='replication.prefix'>OTHER_</attribute>
    <attribute id='table.é.*'/>
    <attribute id='sluice.master.conn_id'>other_master</attribute>
  </plugin>
</xmlBlaster>
"""


def test_yaml_is_read_in_full(folder: Path) -> None:
    (folder / "DEMO.yaml").write_text(FULL)
    demo = config.load("Demo_")
    assert demo.prefix == Prefix("DEMO_")
    assert demo.source == folder / "DEMO.yaml"
    assert demo.master == Endpoint("demo_master", "postgres", "Repl")
    assert dict(demo.slaves) == {
        "dr1": SlaveConfig("dr1", "demo_dr1"),
        "dr-2": SlaveConfig(
            "dr-2",
            "demo_dr2",
            schema="ctl",
            on_conflict="reject",
            existing_tables="keep",
            initial_files_location="s3://bucket/in",
            allow_superuser=True,
            trusted_ddl=True,
            lossy_columns=("public.log.*", "public.orders.tags"),
        ),
        "no": SlaveConfig("no", "norway", safe_mode=True, checkpoint="redis"),
    }
    orders, everything, log, odd, audit = demo.tables
    assert orders.pattern == TablePattern("public", "orders")
    assert (orders.actions, orders.sequence, orders.trigger, orders.debug) == (set("IDU"), 3, "DEMO_TR01", True)
    assert everything.pattern == TablePattern("public", "*", wildcard=True)
    assert (everything.actions, everything.sequence, everything.trigger) == (set("IDU"), None, None)
    assert (log.actions, log.sequence) == (frozenset(), -7)
    assert odd.pattern == TablePattern("Mixed Case", "a.b*", wildcard=False)
    assert audit.actions == {"I", "D"}
    assert demo.apply == ApplyOptions(5000, 200_000, 10.0, 0.2, 30.0)
    # A leading zero makes no octal number of it.
    throttle = ThrottleOptions(
        pause=True, active_sessions=0, replica_lag=0.5, query="SELECT 1", query_limit=-2.0, megabytes_per_second=0.5
    )
    locations = ("/mnt/disk", "s3://bucket/out")
    assert demo.initial == InitialOptions(
        2.0, 10, 8, "aws_default", "demo_key", 3, 2, "locked", 0.2, throttle, locations, where=True
    )
    assert demo.locations == (*locations, "s3://bucket/in"), "what a slave reads is configured, too"


def test_defaults_are_those_of_the_contract(folder: Path) -> None:
    (folder / "A.yml").write_text("prefix: A_\nmaster: {conn_id: m}\nslaves: {}\ntables: {public.*: }\n")
    replication = config.load("A_")
    assert replication.master == Endpoint("m", "postgres", "sluice")
    assert replication.slaves == {}
    assert replication.apply == ApplyOptions(1_000_000, 200_000, 30.0, 0.05, 10.0)
    assert replication.initial == InitialOptions(0.5, 50_000, 4)
    assert (replication.locations, replication.initial.where) == ((), False)
    slave = SlaveConfig("s", "c")
    assert (slave.safe_mode, slave.on_conflict, slave.existing_tables) == (False, "stop", "empty")
    assert slave.initial_files_location is None
    assert not (replication.master.allow_superuser or slave.allow_superuser or slave.trusted_ddl)


def test_properties_of_xmlblaster_are_read(folder: Path) -> None:
    (folder / "master.properties").write_text(PROPERTIES, encoding="latin-1")
    test = config.load("TEST")
    assert test.master == Endpoint("test_master", allow_superuser=True)
    assert test.slaves["dr1"] == SlaveConfig("dr1", "test_dr1", safe_mode=True)
    rules = {str(rule.pattern): rule for rule in test.tables}
    # Names without quotes mean what SQL would mean by them on PostgreSQL.
    assert set(rules) == {
        "myschema.table1",
        "myschema.table2",
        "myschema.table3",
        "myschema.table4",
        '"Odd Schema"."T.5"',
        "other.*",
    }
    assert rules["myschema.table1"].trigger == "TEST_TR01"
    assert rules["myschema.table1"].sequence == 3
    assert rules["myschema.table2"].actions == {"U"}
    assert (rules["myschema.table3"].actions, rules["myschema.table3"].sequence) == (frozenset(), -4)
    assert rules["myschema.table4"].actions == set("IDU")
    assert rules['"Odd Schema"."T.5"'].actions == frozenset()
    assert rules["other.*"].sequence == 9
    assert (test.apply.lease, test.initial.parallel, test.monitor.lag_warning) == (20.0, 2, 5.0)
    assert test.initial.throttle == ThrottleOptions(lock_waits=5)


def test_plugins_xml_of_xmlblaster_is_read_with_all_its_replications(folder: Path) -> None:
    # The declaration says ISO-8859-1, and so are the bytes.
    (folder / "xmlBlasterPlugins.xml").write_bytes(PLUGINS.encode("latin-1"))
    other, test = config.survey().replications
    assert (other.prefix, test.prefix) == (Prefix("OTHER_"), Prefix("TEST"))
    assert [str(rule.pattern) for rule in test.tables] == ["myschema.table1", "myschema.table2"]
    assert test.tables[1].actions == {"U"}
    assert test.slave("dr1").conn_id == "test_dr1"
    assert other.tables[0].pattern == TablePattern("é", "*", wildcard=True)


def test_the_demo_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(SOURCE.parent))
    demo = config.load("DEMO_")
    assert demo.master.conn_id == "demo_master"
    assert demo.slave("dr1").conn_id == "demo_dr1"
    assert {str(rule.pattern) for rule in demo.tables} >= {"public.*"}
    assert demo in config.survey().replications


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("a=b", ("a", "b")),
        ("a : b", ("a", "b")),
        ("  a   b c ", ("a", "b c ")),
        (r"a\=\:\ b = c\=d", ("a=: b", "c=d")),
        (r"a=\u00e9\t\\", ("a", "é\t\\")),
        ("a=b\\\n   c\\\n\td", ("a", "bcd")),
        ("a", ("a", "")),
        ("a=", ("a", "")),
        ("! no\n# no\n\n   # no\na=1", ("a", "1")),
        ("a\\\n=b", ("a", "b")),
        ("a=b\\", ("a", "b")),
    ],
)
def test_properties_follow_javas_rules(line: str, value: tuple[str, str]) -> None:
    from sluice.configuration.sources import entries

    assert [(entry.key, entry.value) for entry in entries(line)] == [value]


def test_merge_keys_and_aliases_of_yaml_work(folder: Path) -> None:
    (folder / "A.yaml").write_text(
        """\
prefix: A_
master: {conn_id: m}
slaves:
  one: &slave {conn_id: c1, schema: ctl}
  two: {<<: *slave, conn_id: c2}
tables:
  public.a: &options {actions: ID, sequence: 4}
  public.b: {<<: [*options], sequence: 5}
  public.c: *options
"""
    )
    replication = config.load("A_")
    assert replication.slaves["two"] == SlaveConfig("two", "c2", schema="ctl")
    assert [(rule.actions, rule.sequence) for rule in replication.tables] == [
        ({"I", "D"}, 4),
        ({"I", "D"}, 5),
        ({"I", "D"}, 4),
    ]


def test_windows_line_ends_and_a_byte_order_mark_do_no_harm(folder: Path) -> None:
    (folder / "DEMO.yaml").write_bytes(b"\xef\xbb\xbf" + FULL.replace("\n", "\r\n").encode())
    (folder / "x.properties").write_bytes(b"\xef\xbb\xbf" + PROPERTIES.replace("\n", "\r\n").encode())
    assert [str(replication.prefix) for replication in config.survey().replications] == ["DEMO_", "TEST"]
    assert config.load("TEST").tables[-1].sequence == 9


def test_hidden_files_and_files_of_other_kinds_are_passed_over(folder: Path) -> None:
    (folder / "DEMO.yaml").write_text(FULL)
    for name in (".DEMO.yaml", "DEMO.yaml~", "README.md", "DEMO.yaml.bak"):
        (folder / name).write_text("[")
    assert len(config.survey().replications) == 1


def test_a_replication_survives_pickling(folder: Path) -> None:
    import pickle

    (folder / "DEMO.yaml").write_text(FULL)
    demo = config.load("DEMO_")
    assert pickle.loads(pickle.dumps(demo)) == demo


def test_the_examples_of_the_page_are_right(folder: Path) -> None:
    docs = Path(__file__).resolve().parents[2] / "docs"
    page = "".join((docs / name).read_text() for name in ("configuration.md", "xmlblaster-files.md"))
    yaml, properties = re.findall(r"```(?:yaml)?\n((?:prefix|replication\.prefix).*?)```", page, re.DOTALL)
    own_keys = re.findall(r"^sluice\..*?(?=\s+#|$)", page, re.MULTILINE)
    (folder / "a.yaml").write_text(yaml)
    (folder / "b.properties").write_text("\n".join([properties, *own_keys]))
    demo, test = config.survey().replications
    for name in sections(Replication):
        default = type(getattr(demo, name))()
        assert getattr(demo, name) == default, f"{name}: the page shows the defaults"
    assert len(demo.tables) == 5
    assert test.slave("dr1").conn_id == "test_dr1"
    assert test.initial.locations == ("/mnt/disk", "s3://bucket/out")


def test_the_earlier_folder_wins_for_files_of_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, names in ((first, ["A", "B"]), (second, ["B", "C"])):
        folder.mkdir()
        for name in names:
            text = f"prefix: {name}_\nmaster: {{conn_id: {folder.name}}}\n"
            text += "slaves: {dr1: {conn_id: s}}\ntables: {'a.b': {}}\n"
            (folder / f"{name}.yaml").write_text(text)
    monkeypatch.setenv("SLUICE_REPLICATIONS", f"{first}{os.pathsep}{second}")
    found = config.survey()
    masters = {str(one.prefix): one.master.conn_id for one in found.replications}
    assert masters == {"A_": "first", "B_": "first", "C_": "second"} and not found.mistakes
    assert found.hidden == {second / "B.yaml": first / "B.yaml"}
    assert config.again(config.load("C_")).master.conn_id == "second"
    with pytest.raises(config.UnknownPrefix, match=f"is configured in {first} or {second}"):
        config.load("D_")
