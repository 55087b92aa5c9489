"""The pictures of the docs: `python -m tests.browser.pictures [FOLDER]` makes them anew, in docs/images by default.

On a site of its own, with the story of tests/browser/filling.py in a database that is made for it and thrown away.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import django

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
WIDTH = 1_200
#: Those of the jobs and schedules in tests/browser/filling.py.
TASKS = ("send_receipt", "resize_picture", "update_stock", "remind", "report", "fetch_rates")


def main(folder: Path) -> None:
    """Make all of them."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings.sqlite")
    django.setup()
    from django.conf import settings
    from django.test.runner import DiscoverRunner
    from django.test.utils import override_settings

    runner = DiscoverRunner(verbosity=0, interactive=False)
    runner.setup_test_environment()
    databases = runner.setup_databases()
    try:
        others = [name for name in settings.INSTALLED_APPS if not name.endswith(".shop")]
        with _shop(), override_settings(TIME_ZONE="Europe/Rome", INSTALLED_APPS=[*others, "shop"]):
            _take_all(folder)
    finally:
        runner.teardown_databases(databases)
        runner.teardown_test_environment()


def _take_all(folder: Path) -> None:
    from django.contrib.auth.models import User
    from django.contrib.staticfiles.testing import StaticLiveServerTestCase
    from django.test import Client

    from tests.browser.chromium import chromium
    from tests.browser.filling import fill
    from tests.browser.window import Window

    class Site(StaticLiveServerTestCase):
        pass

    Site.setUpClass()
    try:
        filled = fill(time.time(), jobs=240)
        client = Client()
        client.force_login(User.objects.create_superuser("admin", "admin@example.com"))
        with chromium() as browser:
            window = Window(browser, Site.live_server_url)
            window.take_session(client.cookies["sessionid"].value)
            for name, page, theme, height in (
                ("dashboard-overview", "", "light", 900),
                ("dashboard-dark", "", "dark", 900),
                ("dashboard-charts", "", "light", 620),
                ("dashboard-job", f"job/{filled.failed}/", "light", 1_050),
                ("dashboard-schedules", "schedule/", "light", 420),
            ):
                # The window has a frame of its own that no picture shows.
                browser.set_window_size(WIDTH, height + 140)
                window.open("/admin/")
                window.run("localStorage.setItem('theme', arguments[0]); sessionStorage.clear();", theme)
                window.run("localStorage.setItem('django.admin.navSidebarIsOpen', 'false')")
                window.open(f"/admin/tinyjobs/{page}")
                if name == "dashboard-job":
                    window.run("document.querySelector('details[data-tj-key]').open = true")
                if name == "dashboard-charts":
                    window.run("document.querySelector('#tj-hour').scrollIntoView()")
                path = folder / f"{name}.png"
                browser.save_screenshot(str(path))
                print(path)
    finally:
        Site.tearDownClass()


@contextmanager
def _shop() -> Iterator[None]:
    """The app of the story, to be imported, or the pages would say that nobody has its tasks."""
    with TemporaryDirectory() as folder:
        app = Path(folder, "shop")
        app.mkdir()
        app.joinpath("__init__.py").touch()
        tasks = "".join(f"@task\ndef {name}(*args, **options): ...\n" for name in TASKS)
        app.joinpath("tasks.py").write_text(f"from tinyjobs import task\n{tasks}")
        sys.path.insert(0, folder)
        try:
            yield
        finally:
            sys.path.remove(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
