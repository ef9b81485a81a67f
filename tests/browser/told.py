"""What all places say of a slave: its page, the overview, their data, and the command."""

import html
import re
from typing import Any

import httpx

from sluice.cli import watched
from sluice.cli.airflow_api import AirflowApi
from tests.browser.rig import Monitor

OF_SLAVE = ("page", "overview", "status", "status of it", "overview.json")
"""The places that say everything of one slave."""


def words(page: str) -> str:
    """What a person reads of a page, without tags, in one line."""
    visible = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", visible)).split())


class Told:
    """All places at one moment, as an administrator sees them."""

    def __init__(self, monitor: Monitor, prefix: str, slave: str, api: AirflowApi | None = None) -> None:
        api = api or AirflowApi(monitor.url, token=monitor.token("olga"))
        token = {"Authorization": f"Bearer {monitor.token('olga')}"}

        def page(path: str) -> str:
            answer = httpx.get(f"{monitor.url}/sluice/{path}", headers=token, timeout=60)
            assert answer.status_code == 200, answer.text
            return answer.text

        self.data: Any = api.page("overview.json")
        self.state: Any = api.page(f"slaves/{prefix}/{slave}/state.json")
        self.html = page(f"slaves/{prefix}/{slave}/")
        self.master: Any = next(one for one in self.data["masters"] if one["prefix"] == prefix)
        self.slave: Any = next(one for one in self.master["slaves"] if one["slave"] == slave)
        self.places = {
            "page": words(self.html),
            "overview": words(page("")),
            "master": words(page(f"masters/{prefix}/")),
            "status": " ".join(" ".join(watched.table(self.data, colors=False)).split()),
            "status of it": " ".join(" ".join(watched.details(self.state, colors=False)).split()),
            "overview.json": str([one["text"] for one in self.slave["messages"]]),
        }

    def saying(self, text: str) -> set[str]:
        """The places that say it."""
        return {place for place, told in self.places.items() if text in told}
