"""A rehearsal that really ran is kept by the command and by hand, and seen in a browser."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from sluice import paths
from tests.browser import axe
from tests.browser.rig import STOCK, Monitor

pytestmark = pytest.mark.long
SCHEMA = "CREATE TABLE public.parts (id int PRIMARY KEY, name text);"
SCRIPT = (
    "ALTER TABLE parts ADD price numeric;\nSELECT name FROM parts ORDER BY id LIMIT 3;\nINSERT INTO missing VALUES (1);"
)


def rehearsed(folder: Path, schema: str, *options: str) -> str:
    """Rehearses the script; returns the report, which has a finding."""
    (made := folder / "schema.sql").write_text(schema)
    (script := folder / "0042_price.sql").write_text(SCRIPT)
    given = ["rehearse", "STOCK", str(script), "--schema", str(made), "--json", str(folder / "r.json"), *options]
    command = [sys.executable, "-m", "devstack.cli", *given]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return (folder / "r.json").read_text()


def test_a_rehearsal_is_kept_by_the_command_and_by_hand_and_can_be_read_by_everybody(
    monitor: Monitor, browser: Browser, tmp_path: Path
) -> None:
    address = f"{monitor.url}/sluice/masters/{STOCK}/"
    given = rehearsed(tmp_path, f"{SCHEMA} INSERT INTO public.parts VALUES (1, '4711-secret');", "--keep")
    (kept,) = (paths.home() / "rehearsals" / str(STOCK)).iterdir()
    assert "4711-secret" in given and "4711-secret" not in kept.read_text(), "no rows of others are kept"
    made_up = rehearsed(tmp_path, SCHEMA)
    assert json.loads(made_up)["given_rows"] is False

    otto, anna = monitor.page(browser, "otto"), monitor.page(browser, "anna")
    otto.goto(address)
    expect(otto.get_by_label("Rehearse a migration")).to_contain_text("0042_price.sql: 1 finding")
    otto.get_by_role("link", name="How, and the reports that are kept").click()
    (bad := tmp_path / "bad.json").write_text(made_up.replace('"release"', '"<b>"'))
    otto.get_by_label("Keep a report").set_input_files(bad)
    otto.get_by_role("button", name="Keep", exact=True).click()
    expect(otto.get_by_role("alert")).to_contain_text("report.release is missing")
    otto.get_by_label("Keep a report").set_input_files(tmp_path / "r.json")
    otto.get_by_role("button", name="Keep", exact=True).click()
    expect(otto.get_by_role("row")).to_have_count(3)
    expect(otto.get_by_role("row").nth(1)).to_contain_text("otto")

    assert not (faults := axe.faults_everywhere(otto, f"{address}rehearsals/")), "\n".join(faults)
    anna.goto(f"{address}rehearsals/")
    expect(anna.get_by_label("Keep a report")).to_have_count(0)
    anna.get_by_role("link", name="1 finding").first.click()
    otto.get_by_role("link", name="1 finding").first.click()
    for page, seen in ((otto, True), (anna, False)):
        expect(page.get_by_role("heading", level=1)).to_have_text("Rehearsal of 0042_price.sql")
        assert ("1 text" in page.content()) is seen, "results, for people who may see values"
        assert not (faults := axe.faults_everywhere(page)), "\n".join(faults)
        page.context.close()
