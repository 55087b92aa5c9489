"""Every action of the dashboard alone in a real browser: on each server and behind one that ends TLS, and by the
keyboard alone.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser.alone import NAME, PREFIX, Shop
from tests.browser.window import Window
from tests.servers.fixtures import skipping_what_is_missing
from tests.servers.tls import TlsProxy, certify
from tinyjobs.core.status import JobStatus

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class ByMouse:
    """Clicks, and types where it clicked."""

    window: Window

    def press(self, name: str) -> None:
        self.window.click(name)

    def choose(self, css: str) -> None:
        self.window.find(css).click()

    def write(self, field: str, text: str) -> None:
        self.choose(f"[name={field}]")
        self.window.write_over(text)


@dataclass(frozen=True)
class ByKeys:
    """Goes from one thing to the next with the tabulator."""

    window: Window

    def press(self, name: str) -> None:
        self.window.tab_to(self.window.named(name))
        self.window.press(Keys.ENTER)

    def choose(self, css: str) -> None:
        self.window.tab_to(self.window.find(css))
        self.window.press(Keys.SPACE)

    def write(self, field: str, text: str) -> None:
        self.window.tab_to(self.window.find(f"[name={field}]"))
        self.window.write_over(text)


type Hand = ByMouse | ByKeys


@pytest.fixture(scope="module")
def proxied(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], str]]:
    """Gives the site behind a proxy that ends TLS and takes a prefix off."""
    with ExitStack() as stack:

        def start() -> str:
            with skipping_what_is_missing():
                certificate = certify(tmp_path_factory.mktemp("tls"), NAME)
            proxy = stack.enter_context(TlsProxy(shop.site("behind"), certificate, prefix=PREFIX))
            return f"https://{NAME}:{proxy.port}{PREFIX}"

        yield start


@pytest.fixture(params=["command", "uvicorn", "wsgiref", "behind a proxy", "keyboard"])
def hand(request: pytest.FixtureRequest, stand: Callable[[str], Window], shop: Shop) -> Hand:
    """A hand on a window: the mouse on each site, the keyboard on that of the command."""
    if request.param == "keyboard":
        return ByKeys(stand(shop.site("command")))
    if request.param == "behind a proxy":
        return ByMouse(stand(request.getfixturevalue("proxied")()))
    return ByMouse(stand(shop.site(request.param)))


@contextmanager
def told(window: Window, *texts: str) -> Iterator[None]:
    """What is done inside leads to a page of the site that says so, as a thing that went well."""
    yield
    window.until(lambda: all(any(text in message for message in window.messages) for text in texts), str(texts))
    assert window.browser.current_url.startswith(f"{window.site}/tinyjobs/")
    assert window.all(".messagelist li.success") and not window.all(".messagelist li.error")


def wait_for_question(window: Window, count: str) -> None:
    """The page that asks before an action on so many jobs."""
    window.until(lambda: window.path == "/tinyjobs/job/act/" and window.all("[name=confirmed]"))
    assert count in window.find("#tj-main").text


def test_one_job_is_retried_cancelled_and_deleted(hand, shop):
    window, job = hand.window, shop.app.send("shop.fail").id
    shop.app.drain()
    window.open(f"/tinyjobs/job/{job}/")
    for name, done, status in (("Retry", "queued again", JobStatus.QUEUED), ("Cancel", "cancelled", "cancelled")):
        before = shop.app.get(job).status
        hand.press(name)
        wait_for_question(window, "1 job")
        assert shop.app.get(job).status == before, "asked, not done"
        with told(window, done, job):
            hand.press(name)
        assert shop.app.get(job).status == status
    hand.press("Delete")
    wait_for_question(window, "1 job")
    hand.press("No, take me back")
    window.until(lambda: window.path == f"/tinyjobs/job/{job}/")
    hand.press("Delete")
    wait_for_question(window, "1 job")
    assert shop.app.get(job) is not None
    with told(window, "deleted", job):
        hand.press("Delete")
    assert shop.app.get(job) is None


def test_chosen_jobs_are_cancelled_together(hand, shop):
    first, second, third = (shop.app.send("shop.add").id for _ in range(3))
    hand.window.open("/tinyjobs/job/")
    for job in (third, first):
        hand.choose(f"[name=_selected_action][value='{job}']")
        hand.window.run("document.activeElement.blur()")
    hand.press("Cancel")
    wait_for_question(hand.window, "2 jobs")
    with told(hand.window, "2 jobs", first, third):
        hand.press("Cancel")
    assert [shop.app.get(job).status for job in (first, second, third)] == ["cancelled", "queued", "cancelled"]


def test_a_schedule_is_made_edited_paused_resumed_run_and_deleted(hand, shop):
    window = hand.window
    window.open("/tinyjobs/schedule/")
    hand.press("Add schedule")
    for field, text in (("name", "nightly"), ("task", "shop.add"), ("cron", "0 3 * * *"), ("args", "[1, 2]")):
        hand.write(field, text)
    with told(window, "nightly", "added"):
        hand.press("Save")
    assert (shop.schedule("nightly").cron, shop.schedule("nightly").source) == ("0 3 * * *", "data")
    with told(window, "paused"):
        hand.press("Pause nightly")
    assert shop.schedule("nightly").is_paused
    with told(window, "resumed"):
        hand.press("Resume nightly")
    assert not shop.schedule("nightly").is_paused
    with told(window, "run: job"):
        hand.press("Run nightly now")
    (job,) = shop.app.list().jobs
    assert job.id in " ".join(window.messages)
    hand.press("Edit nightly")
    hand.write("cron", "30 4 * * *")
    with told(window, "nightly", "changed"):
        hand.press("Save")
    assert shop.schedule("nightly").cron == "30 4 * * *"
    hand.press("Delete nightly")
    window.until(lambda: window.named("No, take me back"))
    assert shop.schedule("nightly") is not None
    with told(window, "nightly", "deleted"):
        hand.press("Delete")
    assert shop.schedule("nightly") is None
