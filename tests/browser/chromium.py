"""Debian's Chromium, driven by Selenium. Nothing is fetched: its driver is looked for on the machine.

The pages come from a server of the test itself, on the loopback, under a Content-Security-Policy that allows no
inline script and no inline style (tests/settings/base.py). What the browser refuses or complains of stands in its
console, and a test ends by looking there.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

#: It may start nothing that talks to anybody but the test's server.
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--window-size=1280,1000",
    "--lang=en-US",
    # Names that are nobody's: those of this machine for who asks here, and of nothing else.
    "--host-resolver-rules=MAP *.example 127.0.0.1, MAP *.example.com 127.0.0.1",
)

#: How the driver passes on that a page was replaced while it was being asked, where it has no error of its own for it.
REPLACED = (
    "does not belong to the document",
    "No node with given id found",
    "Could not find node with given id",
    "Cannot find context with specified id",
    "uniqueContextId not found",
    "Execution context was destroyed",
    "Inspected target navigated or closed",
    "aborted by navigation",
)


class MissingBrowserError(Exception):
    """There is no browser, or no driver for it, on this machine; the message says how to get both."""


class Chromium(webdriver.Chrome):
    """The browser by its driver, with one error for each element that went away with its page."""

    def execute(self, driver_command: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a command. What was asked of a page that is being replaced raises `StaleElementReferenceException`."""
        try:
            return super().execute(driver_command, params)
        except WebDriverException as error:
            if any(words in (error.msg or "") for words in REPLACED):
                raise StaleElementReferenceException(error.msg) from error
            raise


def find(*names: str) -> str:
    """The path of the first of these programs that is there."""
    for name in names:
        if path := shutil.which(name, path="/usr/bin:/usr/local/bin:/snap/bin") or shutil.which(name):
            return path
    raise MissingBrowserError(f"{names[0]} was not found: install Debian's chromium and chromium-driver.")


@contextmanager
def chromium(**preferences: Any) -> Iterator[Chromium]:
    """A browser without a window and with an empty profile, which is gone afterwards."""
    program, driver = find("chromium", "chromium-browser", "google-chrome"), find("chromedriver")
    with tempfile.TemporaryDirectory(prefix="tinyjobs-browser-", ignore_cleanup_errors=True) as profile:
        options = Options()
        options.binary_location = program
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.add_experimental_option("prefs", preferences)
        options.accept_insecure_certs = True  # those that a test makes
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        browser = Chromium(options=options, service=Service(executable_path=driver))
        try:
            browser.set_page_load_timeout(60)
            yield browser
        finally:
            browser.quit()
