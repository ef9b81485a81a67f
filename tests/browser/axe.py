"""axe-core, which finds what keeps people with a keyboard or a screen reader from using a page."""

import fcntl
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from devstack import npm_archive
from tests.airflow_home import ROOT

VERSION = "4.14.1"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
CACHE = ROOT / ".npm"
SERIOUS = ("serious", "critical")


@cache
def script() -> str:
    """Its program. Fetched by npm once a checkout."""
    kept = CACHE / f"axe-{VERSION}.js"
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / "lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                archive = npm_archive.fetch("axe-core", VERSION, SHA512, Path(folder))
                with tarfile.open(archive) as content:
                    content.extract("package/axe.min.js", folder, filter="data")
                Path(folder, "package", "axe.min.js").rename(kept)
    return kept.read_text(encoding="utf-8")


def faults(page: Page) -> list[str]:
    """What is seriously wrong with the page, each with the elements."""
    # Through the debugger: the page's own policy lets no script of others in.
    page.evaluate(f"() => {{ {script()} }}")
    found: dict[str, Any] = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes']]}"
        for one in found["violations"]
        if one["impact"] in SERIOUS
    ]
