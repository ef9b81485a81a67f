"""Spark's own page of jobs, in a browser: each job of a load names the block, the table, and the number of blocks."""

import re
import signal
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from devstack.machine import ensure_chromium, find_chromium
from devstack.spark import SparkServer
from tests.rig.rig import Rig
from tests.scenarios.initial_load.test_load_job import Job, begun
from tests.scenarios.initial_load.test_load_job import big as big
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]
NAMED = re.compile(r"sluice DEMO_ -> dr1: load public\.orders (\d+)/(\d+)")
BLOCKS = 150


@pytest.mark.long
def test_each_job_is_named_after_the_block_with_which_it_begins(
    big: Rig, spark: SparkServer, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """With `--pictures docs/img` its picture replaces the existing one."""
    ensure_chromium()
    big.master.execute("ANALYZE")
    update = big.update()
    big.prepare(update)
    big.slow_down("public.orders", 0.0005)
    job = Job(big, update, {"remote": spark.server.url})
    try:
        until(lambda: len(begun(big)) == update.options.parallel, 300)
        folder = Path(pytestconfig.option.pictures or tmp_path)
        with sync_playwright() as playwright:
            options = ["--no-sandbox", "--disable-dev-shm-usage"]
            browser = playwright.chromium.launch(executable_path=find_chromium(), args=options)
            page = browser.new_page(viewport={"width": 1280, "height": 720})
            page.goto(f"{spark.ui_url}/jobs/")
            shown = {(int(first), int(whole)) for first, whole in NAMED.findall(page.locator("body").inner_text())}
            page.screenshot(path=folder / "spark.png")
            browser.close()
    finally:
        job.process.send_signal(signal.SIGTERM)
        job.ended()
    # On a slow machine a later turn may have begun, whose longer name Spark cuts at 128 characters.
    assert shown >= {(number, BLOCKS) for number in range(1, update.options.parallel + 1)}
    assert (ROOT / "docs" / "img" / "spark.png").exists(), "the documentation has it"
