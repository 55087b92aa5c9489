"""The tests' own window on a page that is replaced by another while it is read."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.browser.window import PATIENCE, Window


class Restless(BaseHTTPRequestHandler):
    """Answers each request with a page that asks for itself again."""

    page = (
        "<!doctype html><title>Restless</title><body><ul class=messagelist>"
        + "<li>as it was</li>" * 60
        + "</ul><script>setTimeout(() => location.reload(), 200)</script>"
    ).encode()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(self.page)))
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, format: str, *values: object) -> None:
        pass


class Quiet(ThreadingHTTPServer):
    """Says nothing of a browser that went on before it had the whole page."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@pytest.fixture
def serve(browser) -> Iterator[Callable[[type[Restless]], Window]]:
    """Opens the browser's window on a server of such pages."""
    with ExitStack() as stack:

        def start(pages: type[Restless]) -> Window:
            server = stack.enter_context(Quiet(("127.0.0.1", 0), pages))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
            stack.callback(browser.get, "about:blank")
            return Window(browser, f"http://127.0.0.1:{server.server_port}").open("/")

        yield start


@pytest.fixture
def restless(serve) -> Window:
    return serve(Restless)


def test_what_is_read_of_a_page_is_read_of_one_that_is_there(restless):
    for _ in range(10):
        assert restless.text.startswith("as it was")


class Counting(Restless):
    """A button on each page that counts how often any was pressed, and leads to the next page."""

    page = (
        b"<!doctype html><title>Counting</title><button>Go</button><script>"
        b"document.querySelector('button').onclick = () => { const felt = Number(sessionStorage.felt || 0) + 1;"
        b" sessionStorage.felt = felt; location.search = felt; }</script>"
    )


@pytest.mark.parametrize("trouble", ["before", "after"])
def test_a_button_is_pressed_once_whenever_the_trouble_came(browser, serve, monkeypatch, trouble):
    window, click, tried = serve(Counting), WebElement.click, []

    def troubled(element):
        tried.append(element)
        if trouble == "after" or len(tried) > 1:
            click(element)
        if len(tried) == 1:
            raise StaleElementReferenceException("aborted by navigation")

    monkeypatch.setattr(WebElement, "click", troubled)
    window.click("Go")
    window.until(lambda: window.path == "/?1")
    window.click("Go")
    window.until(lambda: window.path == "/?2")


def test_what_was_asked_of_a_page_that_went_away_is_one_error(restless, browser):
    gone, deadline = 0, time.monotonic() + PATIENCE
    while gone < 15 and time.monotonic() < deadline:
        try:
            str(browser.find_element(By.TAG_NAME, "ul").text)
        except (StaleElementReferenceException, NoSuchElementException):
            gone += 1
    assert gone
