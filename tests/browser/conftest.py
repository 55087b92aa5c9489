"""A browser for the session, and for each test a window of it that somebody is logged in with."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.test import Client

from tests.browser.alone import Shop
from tests.browser.chromium import MissingBrowserError, chromium
from tests.browser.window import Window
from tests.dashboard.conftest import patience  # noqa: F401


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all tests; each logs in anew."""
    try:
        opened = chromium()
        driver = opened.__enter__()
    except MissingBrowserError as missing:
        pytest.skip(str(missing))
    yield driver
    opened.__exit__(None, None, None)


@pytest.fixture
def is_live() -> bool:
    """Whether pages renew themselves. Else they ask and get no answer, so that nothing is replaced under a test."""
    return False


@pytest.fixture
def window(browser: Any, live_server: Any, is_live: bool) -> Iterator[Window]:
    """The browser's window on the test's own site. A test fails in which the browser complained of anything."""
    browser.get("about:blank")
    browser.delete_all_cookies()
    browser.get_log("browser")
    script = "" if is_live else "window.fetch = () => new Promise(() => {});"
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
    opened = Window(browser, live_server.url)
    yield opened
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
    opened.leave()
    assert opened.complaints() == []


@pytest.fixture
def log_in(window: Window) -> Callable[[AbstractUser], Window]:
    """Has somebody logged in, without the form."""

    def enter(user: AbstractUser) -> Window:
        client = Client()
        client.force_login(user)
        window.take_session(client.cookies["sessionid"].value)
        return window

    return enter


@pytest.fixture
def admin(log_in: Callable[[AbstractUser], Window], admin_user: AbstractUser) -> Window:
    """A window in which a superuser is logged in."""
    return log_in(admin_user)


# --- the dashboard alone, on servers of its own ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A shop without Django. Its servers start when they are first asked for and end with the module's tests."""
    with Shop(tmp_path_factory.mktemp("shop")) as made:
        yield made


@pytest.fixture
def stand(browser: Any, shop: Shop) -> Iterator[Callable[[str], Window]]:
    """Opens the browser's window on a site of the shop, whose store is empty at first.

    Pages do not renew themselves. A test fails in which the browser complained of anything.
    """
    opened: list[Window] = []

    def enter(site: str) -> Window:
        shop.empty()
        browser.get("about:blank")
        browser.delete_all_cookies()
        window = Window(browser, site)
        window.open("/tinyjobs/")
        window.run("localStorage.clear(); localStorage.setItem('tinyjobs.live', 'off')")
        browser.get_log("browser")
        opened.append(window)
        return window

    yield enter
    for window in opened:
        window.leave()
        assert window.complaints() == []
