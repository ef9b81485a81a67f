"""Registers with Airflow the monitor, its menu entry, and the notes of runs."""

import logging
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from sluice.airflow import preloading, run_note
from sluice.airflow.daily_timetable import DailyTimetable

log = logging.getLogger("sluice")

PLACE = "/sluice"
"""The monitor's path below Airflow's address."""


def pages() -> list[dict[str, Any]]:
    """The monitor; empty if this Airflow has no way to guard it."""
    try:
        from sluice.airflow.pages.access import guard
        from sluice.airflow.pages.application import application
        from sluice.airflow.state_paths import reports_folder
        from sluice.operate.actions import DAGS

        app = application(reports_folder, guard(DAGS))
    except ImportError as missing:
        log.warning("Sluice's pages are not served: %s", missing)
        return []
    return [{"app": app, "url_prefix": PLACE, "name": "Sluice"}]


def middlewares() -> list[dict[str, Any]]:
    """Middlewares: one lets the monitor call Airflow's public API, one redirects to the monitor."""
    from sluice.airflow.pages.application import TrailingSlash
    from sluice.airflow.pages.in_process_api import KeepRoot

    return [
        {"middleware": KeepRoot, "args": [], "kwargs": {}, "name": "Sluice"},
        {"middleware": TrailingSlash, "args": [PLACE], "kwargs": {}, "name": "Sluice's address"},
    ]


class SluicePlugin(AirflowPlugin):
    """The monitor, the entry in Airflow's menu that leads to it, the notes of runs, the imports of DAGs, and when
    `resync` runs."""

    name = "sluice"
    listeners = [run_note, preloading]  # noqa: RUF012
    timetables = [DailyTimetable]  # noqa: RUF012
    fastapi_apps = pages()
    fastapi_root_middlewares = middlewares()
    external_views = (
        [
            {
                "name": "Sluice",
                "href": "sluice/",
                "destination": "nav",
                "url_route": "sluice",
                "nav_top_level": True,
                "icon": "sluice/static/icon.svg",
                "icon_dark_mode": "sluice/static/icon-dark.svg",
            }
        ]
        if fastapi_apps
        else []
    )
