"""What Airflow learns of Sluice besides its DAGs."""

import logging
from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from sluice.airflow import run_note

log = logging.getLogger("sluice")


def pages() -> list[dict[str, Any]]:
    """The pages about verification; none where Airflow offers no way to guard them."""
    try:
        from sluice.airflow.pages.access import guard
        from sluice.airflow.pages.verification import application
        from sluice.airflow.state_paths import reports_folder

        app = application(reports_folder, guard())
    except ImportError as missing:
        log.warning("Sluice's pages are not served: %s", missing)
        return []
    return [{"app": app, "url_prefix": "/sluice", "name": "Sluice"}]


class SluicePlugin(AirflowPlugin):  # type: ignore[misc]
    """The pages, the entry in Airflow's menu Browse that leads to them, and the notes of runs."""

    name = "sluice"
    listeners: ClassVar[list[Any]] = [run_note]
    fastapi_apps = pages()
    external_views = (
        [
            {
                "name": "Sluice: verification",
                "href": "sluice/",
                "destination": "nav",
                "category": "browse",
                "url_route": "sluice-verification",
            }
        ]
        if fastapi_apps
        else []
    )
