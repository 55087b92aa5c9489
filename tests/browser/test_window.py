"""The tests' own window on a page that is replaced by another while it is read."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.common.by import By

from tests.browser.window import PATIENCE, Window

PAGE = (
    "<!doctype html><title>Restless</title><body><ul class=messagelist>"
    + "<li>as it was</li>" * 60
    + "</ul><script>setTimeout(() => location.reload(), 200)</script>"
).encode()


class Restless(BaseHTTPRequestHandler):
    """Answers each request with a page that asks for itself again."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *values: object) -> None:
        pass


class Quiet(ThreadingHTTPServer):
    """Says nothing of a browser that went on before it had the whole page."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@pytest.fixture
def restless(browser) -> Iterator[Window]:
    with Quiet(("127.0.0.1", 0), Restless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Window(browser, f"http://127.0.0.1:{server.server_port}").open("/")
        browser.get("about:blank")
        server.shutdown()


def test_what_is_read_of_a_page_is_read_of_one_that_is_there(restless):
    for _ in range(10):
        assert restless.text.startswith("as it was")


def test_what_was_asked_of_a_page_that_went_away_is_one_error(restless, browser):
    gone, deadline = 0, time.monotonic() + PATIENCE
    while gone < 15 and time.monotonic() < deadline:
        try:
            assert browser.find_element(By.TAG_NAME, "ul").text
        except (StaleElementReferenceException, NoSuchElementException):
            gone += 1
    assert gone
