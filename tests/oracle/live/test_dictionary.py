"""Conclusions from dictionary views that IvorySQL lacks: tests define what the views contain."""

from collections.abc import Callable

from sluice import config
from sluice.database.registry import master_of, vendor_of
from sluice.model.names import TableName
from sluice.vendors.oracle.source import preflight_master
from tests.oracle.live.master_rig import OracleMasterRig

ABLE = ["ivorysql"]
TABLE = "CREATE TABLE T (ID NUMBER(10) PRIMARY KEY)"


def lacking(pair: OracleMasterRig) -> str:
    return "\n".join(map(str, preflight_master.issues(pair.master, config.load("DEMO_"), light=False)))


def test_an_invalid_trigger_has_lost_no_change(master_rig: Callable[..., OracleMasterRig]) -> None:
    """A new release of the packages invalidates every trigger; each is compiled at its next use."""
    pair = master_rig(TABLE)
    registry = master_of("oracle").capture(pair.master, pair.pair.prefix, "").registry
    pair.master.run(
        "CREATE OR REPLACE VIEW user_objects AS SELECT g.trigger_name AS object_name, 'TRIGGER' AS object_type, "
        "'INVALID' AS status FROM user_triggers g"
    )
    assert registry.read()[0].faults == ("its trigger is to be compiled again",)
    master_of("oracle").queue(pair.master, pair.pair.prefix, "").check_definitions()
    assert pair.master.run("SELECT i.DB_ACTION FROM DEMO_ITEMS i WHERE i.DB_ACTION <> 'CREATE'").fetchall() == []
    pair.master.run("ALTER TABLE T DISABLE TRIGGER ALL")
    master_of("oracle").queue(pair.master, pair.pair.prefix, "").check_definitions()
    found = pair.master.run("SELECT i.DB_ACTION FROM DEMO_ITEMS i WHERE i.DB_ACTION <> 'CREATE'").fetchall()
    assert found == [("DIFFER",)]


def test_a_materialized_view_is_no_table_of_the_master(master_rig: Callable[..., OracleMasterRig]) -> None:
    pair = master_rig(f"{TABLE};\nCREATE TABLE SUMS (ID NUMBER(10) PRIMARY KEY)")
    sums = TableName(pair.master.schema, "SUMS")
    assert sums in vendor_of("oracle").rows.tables(pair.master)
    pair.master.run(
        f"CREATE OR REPLACE VIEW all_mviews AS SELECT '{sums.schema}' AS owner, 'SUMS' AS container_name FROM DUAL"
    )
    assert sums not in vendor_of("oracle").rows.tables(pair.master)


def test_a_policy_that_hides_rows_is_reported(master_rig: Callable[..., OracleMasterRig]) -> None:
    pair = master_rig(TABLE)
    assert "POLICY" not in lacking(pair)
    pair.master.run(
        f"CREATE OR REPLACE VIEW all_policies AS SELECT '{pair.master.schema}' AS object_owner, 'T' AS object_name, "
        "'OWN_ROWS' AS policy_name, 'YES' AS enable, 'YES' AS sel FROM DUAL"
    )
    assert "EXEMPT ACCESS POLICY, as of the policy OWN_ROWS" in lacking(pair)


def test_a_privilege_by_a_role_does_not_count_in_a_package(master_rig: Callable[..., OracleMasterRig]) -> None:
    pair = master_rig(TABLE)
    assert "CREATE TRIGGER" not in lacking(pair)
    pair.master.run("CREATE OR REPLACE VIEW user_sys_privs AS SELECT 'CREATE SESSION' AS privilege FROM DUAL")
    assert "CREATE TRIGGER" in lacking(pair) and "CREATE TABLE" not in lacking(pair)
