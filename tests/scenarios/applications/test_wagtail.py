"""Wagtail, a content management system over Django: its migrations forward and back, and its content between them."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.scenarios.applications.replicated import Replicated, as_application, installed_from_pypi, run

pytestmark = pytest.mark.long

SETTINGS = """\
import os
SECRET_KEY = "x"
USE_TZ = True
STATIC_URL = "/static/"
MEDIA_ROOT = os.path.join(os.path.dirname(__file__), "media")
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
WAGTAILADMIN_BASE_URL = "http://localhost"
ROOT_URLCONF = "wagtail.urls"
SILENCED_SYSTEM_CHECKS = ["admin.E403", "admin.E408", "admin.E409", "admin.E410"]
WAGTAILSEARCH_BACKENDS = {"default": {"BACKEND": "wagtail.search.backends.database"}}
INSTALLED_APPS = [
    *("wagtail." + name for name in "contrib.forms contrib.redirects contrib.settings embeds sites users snippets "
      "documents images search admin".split()),
    "wagtail", "modelcluster", "taggit", "django.contrib.postgres",
    *("django.contrib." + name for name in "admin auth contenttypes sessions messages redirects sites "
      "flatpages".split()),
]
SITE_ID = 1
DATABASES = {"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"], "USER": os.environ["PGUSER"],
    "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"], "PASSWORD": os.environ.get("PGPASSWORD", ""),
}}
"""
BACK = (("wagtailimages", "wagtailcore"), ("auth", "wagtailusers"), ("wagtailredirects", "wagtaildocs", "taggit"))
"""Applications that go back as far as they can, with all that depends on them; a test for some of them, since all would
take a slow machine longer than a test may."""
CONTENT = Path(__file__).parent / "wagtail_content.py"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed_from_pypi(tmp_path_factory.mktemp("wagtail"), "wagtail", "psycopg[binary]")


class Wagtail:
    def __init__(self, python: Path, folder: Path, pair: Replicated):
        self.python = python
        self.folder = folder
        self.pair = pair
        (folder / "settings.py").write_text(SETTINGS)
        own = {"PYTHONPATH": str(folder), "DJANGO_SETTINGS_MODULE": "settings"}
        self.environment = pair.environment | own
        self.contents = 0

    def migrate(self, *arguments: str) -> None:
        run([self.python, "-m", "django", "migrate", "-v", "0", *arguments], self.environment, self.folder)

    def migrations(self, app: str) -> list[str]:
        """The applied ones, oldest first."""
        shown = run([self.python, "-m", "django", "showmigrations", app], self.environment, self.folder)
        return [line.split("] ")[1].split(" (")[0] for line in shown.splitlines() if line.startswith(" [X]")]

    def back(self, app: str) -> str:
        """Goes back as far as this application can, some of whose migrations fail on their way back; returns the
        migration where it stands then."""
        applied = self.migrations(app)
        for target in ["zero", *applied[::3], applied[-2]]:
            with suppress(AssertionError):
                self.migrate(app, target)
                return target
        raise AssertionError(f"{app} goes back nowhere")

    def forward(self) -> None:
        """To its newest migrations, some of which add permissions that they left there on their way back."""
        try:
            self.migrate()
        except AssertionError:
            with as_application(self.pair) as session:
                session.execute("DELETE FROM wagtailcore_grouppagepermission")
            self.migrate()

    def content(self) -> None:
        self.contents += 1
        run([self.python, CONTENT, str(self.contents)], self.environment, self.folder)


@pytest.mark.parametrize("apps", BACK, ids=" ".join)
def test_a_site_goes_back_and_forward_with_content_between(
    application: Callable[..., Replicated], python: Path, tmp_path: Path, apps: tuple[str, ...]
) -> None:
    pair = application(lossy="['public.wagtailsearch_indexentry.*']")
    site = Wagtail(python, tmp_path, pair)
    site.migrate("wagtailcore", "0040")
    with pair.following():
        site.migrate()
        pair.expect_equal("the first migration")
        site.content()
        pair.expect_equal("content")
        for app in apps:
            where = site.back(app)
            pair.expect_equal(f"{app} back to {where}")
            site.forward()
            pair.expect_equal(f"{app} forward from {where}")
            site.content()
            pair.expect_equal(f"content after {app}")
