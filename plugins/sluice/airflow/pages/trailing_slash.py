"""Redirects `/sluice` to `/sluice/`: Airflow would answer that there is no such page."""

from typing import Any

from starlette.datastructures import URL
from starlette.responses import RedirectResponse


class TrailingSlash:
    """A middleware of Airflow. `place`: where the pages are, such as `/sluice`."""

    def __init__(self, app: Any, place: str):
        self.app, self.place = app, place

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].removeprefix(scope.get("root_path", "")) == self.place:
            # Relative: a proxy may serve Airflow under another path.
            query = URL(scope=scope).query
            place = f"{self.place[1:]}/{'?' * bool(query)}{query}"
            await RedirectResponse(place)(scope, receive, send)
        else:
            await self.app(scope, receive, send)
