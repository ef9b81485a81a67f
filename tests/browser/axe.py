"""axe-core, which tests pages for accessibility by keyboard and screen reader."""

from functools import cache
from typing import Any

from playwright.sync_api import Page, ViewportSize, expect

from tests.browser import npm_package

VERSION = "4.14.1"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
SERIOUS = ("serious", "critical")
WIDE: ViewportSize = {"width": 1280, "height": 860}
NARROW: ViewportSize = {"width": 400, "height": 860}

_TOO_WIDE = """() => [...document.querySelectorAll("main *")]
    .filter(one => one.getBoundingClientRect().right > innerWidth && !one.closest(".scroll"))
    .map(one => one.outerHTML.slice(0, 120)).slice(-3)"""


@cache
def script() -> str:
    """The JavaScript of axe-core."""
    return (npm_package.unpacked("axe-core", VERSION, SHA512) / "axe.min.js").read_text(encoding="utf-8")


def faults(page: Page) -> list[str]:
    """The serious faults of the page, each with its elements."""
    # Through the debugger: the page's own policy lets no script of others in.
    page.evaluate(f"() => {{ {script()} }}")
    found: dict[str, Any] = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes']]}"
        for one in found["violations"]
        if one["impact"] in SERIOUS
    ]


def faults_everywhere(page: Page, address: str = "", *, open_all: bool = False) -> list[str]:
    """The serious faults of a page in light and dark, wide and narrow.

    Without an address: of the page that is shown. `open_all`: with everything unfolded.
    """
    faults_found = []
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        for scheme in ("light", "dark"):
            # Colors that are still changing are none to judge.
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
            if address:
                page.goto(address)
            expect(page.get_by_role("main")).not_to_be_empty()
            if open_all:
                page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
            how = f"{page.url}, {scheme}, {size['width']}"
            faults_found += [f"{how}: {fault}" for fault in faults(page)]
            if (width := page.evaluate("document.documentElement.scrollWidth")) > size["width"]:
                faults_found.append(f"{how}: the page is {width} wide, because of {page.evaluate(_TOO_WIDE)}")
    return faults_found
