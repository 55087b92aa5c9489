"""What a test does with a page: open it, find what somebody would look for, click, type, and read."""

from collections.abc import Callable
from secrets import token_hex
from typing import Any

from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
)
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

#: A loaded machine may take its time; what does not come about fails in the end.
PATIENCE = 60.0
_MARKING = """\
arguments[0].scrollIntoView({block: 'center'});
arguments[0].addEventListener('click', () => sessionStorage.setItem('tests.pressed', arguments[1]), {once: true});
"""


class Window:
    """A browser's window on one site. Elements are found as a reader would name them, by text, or by CSS."""

    def __init__(self, browser: Any, site: str) -> None:
        self.browser = browser
        self.site = site

    def take_session(self, key: str) -> None:
        """Go on with a session of the site, and with nothing that a test before has left there."""
        self.open("/admin/jsi18n/")
        self.run("localStorage.clear(); sessionStorage.clear()")
        self.browser.add_cookie({"name": "sessionid", "value": key, "path": "/"})

    def open(self, path: str) -> "Window":
        """Load a page of the site."""
        self.browser.get(self.site + path)
        return self

    def leave(self) -> None:
        """Load nothing, so that no script of a page runs on."""
        self.browser.get("about:blank")

    @property
    def path(self) -> str:
        """Where the window is, with the query."""
        return str(self.browser.current_url).removeprefix(self.site)

    @property
    def text(self) -> str:
        """What can be read on the page."""
        return self._read(lambda: str(self.browser.find_element(By.TAG_NAME, "body").text))

    def find(self, css: str) -> WebElement:
        """The first such element; waits for it to come."""
        return self.until(lambda: next(iter(self.all(css)), None), css)

    def all(self, css: str) -> list[WebElement]:
        """All such elements, as they are now."""
        return self._read(lambda: list(self.browser.find_elements(By.CSS_SELECTOR, css)))

    def named(self, text: str, tag: str = "*") -> WebElement:
        """The link, button or other element whose whole text, value or label is this."""
        path = (
            f"//{tag}[self::a or self::button or self::input or self::summary or self::select]"
            f"[normalize-space(.)={quoted(text)} or @value={quoted(text)} or @aria-label={quoted(text)}]"
        )
        return self.until(lambda: next(iter(self.browser.find_elements(By.XPATH, path)), None), text)

    def click(self, text: str) -> None:
        """Press the link or button of that name, where it is once its page is there."""
        self._press(lambda: self.named(text), text)

    def follow(self, css: str, text: str) -> None:
        """Press the one of such elements that has this text."""
        self._press(lambda: next((one for one in self.all(css) if one.text == text), None), text)

    def _press(self, find: Callable[[], WebElement | None], what: str) -> None:
        """Press an element once, wherever it is by then.

        An error may come from before the press or from the page that it led to, where another element may have the same
        name. So the element leaves a mark as soon as it feels the press.
        """
        mark = token_hex(8)

        def pressed() -> bool:
            if self.run("return sessionStorage.getItem('tests.pressed')") == mark:
                return True
            element = find()
            if element is None:
                return False
            self.run(_MARKING, element, mark)
            try:
                element.click()
            except (ElementClickInterceptedException, ElementNotInteractableException):
                return False  # the page still moves
            return True

        self.until(pressed, what)

    def press(self, *keys: str) -> None:
        """Press keys, one after the other, as they are on the element that has the focus."""
        ActionChains(self.browser).send_keys(*keys).perform()

    def write_over(self, text: str) -> None:
        """Put a text in the place of what stands in the field that has the focus."""
        keys = ActionChains(self.browser).key_down(Keys.CONTROL).send_keys("a").key_up(Keys.CONTROL)
        keys.send_keys(text).perform()

    def tab_to(self, element: WebElement) -> None:
        """Go to an element by the keyboard alone; fails where that is not possible."""
        for _ in range(200):
            if self.browser.switch_to.active_element == element:
                return
            self.press(Keys.TAB)
        raise AssertionError(f"not to be reached by the keyboard: {element.get_attribute('outerHTML')}")

    @property
    def messages(self) -> list[str]:
        """What the page says of the last action."""
        return self._read(lambda: [element.text for element in self.all(".messagelist li")])

    def until[T](self, condition: Callable[[], T], what: str = "") -> T:
        """Wait for something to come about on the page, or on the one that takes its place meanwhile."""

        def tried(_: Any) -> Any:
            try:
                return condition()
            except StaleElementReferenceException:
                return False

        found: T = WebDriverWait(self.browser, PATIENCE, poll_frequency=0.05).until(tried, what)
        return found

    def _read[T](self, read: Callable[[], T]) -> T:
        """What is found on the page; once more where it was replaced under the reading."""
        return self.until(lambda: (read(),))[0]

    def run(self, script: str, *values: Any) -> Any:
        """What a script answers. It runs beside the page's policy, as the developer tools do."""
        return self.browser.execute_script(script, *values)

    def complaints(self) -> list[str]:
        """What the browser wrote to its console since the last look: errors of scripts, and what the policy refused."""
        entries = self.browser.get_log("browser")
        told = [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]
        return [message for message in told if "/favicon.ico" not in message]  # the test's site has none

    def is_unharmed(self) -> bool:
        """Whether nothing of a spoilt store (tests/browser/spoiling.py) was taken for markup or script."""
        found = "return window.ran === undefined && !document.querySelector('img[src=x]')"
        return bool(self.run(found))


def quoted(text: str) -> str:
    """A text in XPath, which knows no escapes."""
    if "'" not in text:
        return f"'{text}'"
    return "concat(" + ', "\'", '.join(f"'{part}'" for part in text.split("'")) + ")"
