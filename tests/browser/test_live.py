"""The main block keeps itself fresh, unless somebody uses it or has switched that off."""

import pytest

from tests.taskbackend.shop import tasks
from tinyjobs.taskbackend.working import drain_here

pytestmark = [pytest.mark.sqlite, pytest.mark.django_db(transaction=True)]

JOBS = "/admin/tinyjobs/job/"


@pytest.fixture
def is_live():
    return True


@pytest.fixture
def quick(admin):
    """Pages that refresh themselves all the time. What the page was before its last refresh is told by a mark."""

    added = []

    def open_page(path):
        answer = admin.browser.execute_cdp_cmd(
            "Page.addScriptToEvaluateOnNewDocument",
            {
                "source": "document.addEventListener('DOMContentLoaded', () => {"
                " const main = document.getElementById('tj-main');"
                " if (main && main.dataset.tjLive) main.dataset.tjLive = '0.2'; }, {capture: true, once: true});"
                " window.asked = 0; const ask = window.fetch;"
                " window.fetch = (...given) => { window.asked += 1; return ask(...given); };"
            },
        )
        added.append(answer["identifier"])
        return admin.open(path)

    yield open_page
    admin.browser.get("about:blank")
    for identifier in added:
        admin.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": identifier})


def asked(window):
    return window.run("return window.asked")


def asked_again(window):
    """Whether the page asks at all in a while in which it usually would have many times."""
    before = asked(window)
    window.browser.set_script_timeout(30)
    window.browser.execute_async_script("setTimeout(arguments[0], 1500)")
    return asked(window) - before


def test_what_is_new_appears_by_itself(quick):
    window = quick(JOBS)
    assert "No jobs." in window.text
    job = tasks.noop.enqueue().id
    window.until(lambda: job[-12:] in window.text)


@pytest.mark.parametrize("use", ["typing", "choosing", "focus", "selecting"])
def test_whoever_uses_the_block_is_left_alone(quick, use):
    job = tasks.noop.enqueue().id
    window = quick(JOBS)
    window.until(lambda: asked(window) > 1)
    if use == "typing":
        window.run("document.querySelector('#tj-q').focus()")
        window.press("half a wo")
        window.run("document.activeElement.blur()")
    elif use == "choosing":
        window.run("document.querySelector('input[name=_selected_action]').click()")
    elif use == "focus":
        window.run("document.querySelector('#tj-main a.tj-id').focus()")
    else:
        window.run("getSelection().selectAllChildren(document.querySelector('#tj-main td'))")
    window.until(lambda: not asked_again(window))
    tasks.noop.enqueue()
    assert not asked_again(window)
    assert len(window.all("#tj-main tbody tr")) == 1 and job[-12:] in window.text
    if use == "typing":
        assert window.find("#tj-q").get_attribute("value") == "half a wo"


def test_the_switch_stops_it_and_is_remembered(quick):
    window = quick(JOBS)
    window.until(lambda: asked(window) > 0)
    switch = window.find("[data-tj-live-switch]")
    switch.click()
    assert (switch.text, switch.get_attribute("aria-pressed")) == ("Live updates: off", "false")
    window.until(lambda: not asked_again(window))
    window.open(JOBS)
    assert window.find("[data-tj-live-switch]").text == "Live updates: off"
    assert not asked_again(window)
    window.find("[data-tj-live-switch]").click()
    window.until(lambda: asked(window) > 0)


def test_an_open_traceback_stays_open(quick):
    job = tasks.fail.enqueue("on purpose").id
    drain_here()
    window = quick(f"{JOBS}{job}/")
    window.run("document.querySelector('details[data-tj-key]').open = true")
    before = asked(window)
    window.until(lambda: asked(window) > before + 3)
    assert window.run("return document.querySelector('details[data-tj-key]').open")
    assert "Traceback (most recent call last)" in window.text
