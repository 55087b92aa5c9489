"""The dashboard alone in a real browser: each page on each server, who may ask, texts that try to be script, axe."""

import time
from urllib.parse import urlencode, urlsplit

import pytest

from tests.browser.filling import fill_store
from tests.browser.spoiling import EVIL, pages_of, spoil
from tests.browser.test_axe import violations
from tinyjobs.core.clock import FrozenClock

pytestmark = pytest.mark.slow

KINDS = ("command", "uvicorn", "wsgiref")
PAGES = ("", "job/", "schedule/", "schedule/add/", "queues/", "workers/")
#: What axe has to say about colours.
COLOURS = ("color-contrast", "link-in-text-block")
MENU = ("Overview", "Jobs", "Schedules", "Queues", "Workers")


def fill(shop):
    now = time.time()
    clock = FrozenClock(now - 3_400)
    return fill_store(shop.store_at(clock), clock, now, jobs=15)


def pages_of_all(filled):
    schedule = f"schedule/{filled.schedule}"
    return [*PAGES, f"job/{filled.failed}/", f"job/{filled.succeeded}/", f"{schedule}/change/", f"{schedule}/edit/"]


@pytest.mark.parametrize("kind", [*KINDS, "uvicorn at the root", "wsgiref at the root"])
def test_every_page_opens_and_leads_to_the_others(stand, shop, kind):
    window = stand(shop.site(kind))
    window.open("/")
    window.until(lambda: window.path == "/tinyjobs/")
    for state in ("empty", "full"):
        pages = PAGES if state == "empty" else pages_of_all(fill(shop))
        for page in pages:
            window.open(f"/tinyjobs/{page}")
            assert window.all("#tj-main"), page
            # The sheet is there and is applied.
            assert window.run("return getComputedStyle(document.querySelector('.tj-menu ul')).display") == "flex"
            assert window.complaints() == [], page
    for name in MENU:
        window.follow(".tj-menu a", name)
        window.until(lambda name=name: window.find("h1").text == name)
        assert window.browser.current_url.startswith(f"{window.site}/tinyjobs/")
    icon = window.all("link[rel=icon]")
    assert [link.get_attribute("href").startswith(f"{window.site}/static/") for link in icon] == [True]
    window.click("This page as JSON")
    window.until(lambda: window.path == "/tinyjobs/api/workers/" and '"web-2:811:77e0"' in window.text)


def test_the_icon_is_a_picture(stand, shop):
    """Without one the browser would ask for another at the root, and complain that there is none."""
    window = stand(shop.site("uvicorn"))
    window.open("/tinyjobs/")
    window.browser.get(window.find("link[rel=icon]").get_attribute("href"))
    assert window.run("return document.documentElement.tagName") == "svg"
    assert window.run("return document.documentElement.getBBox().width") > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_renews_itself_in_place(stand, shop, kind):
    window = stand(shop.site(kind))
    window.run("localStorage.setItem('tinyjobs.live', 'on')")
    window.browser.get("about:blank")
    added = window.browser.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument",
        {
            "source": "document.addEventListener('DOMContentLoaded', () => {"
            " document.getElementById('tj-main').dataset.tjLive = '0.2'; }, {capture: true, once: true});"
        },
    )
    try:
        window.open("/tinyjobs/job/")
        assert "No jobs." in window.text
        job = shop.app.send("shop.add").id
        window.until(lambda: job[-12:] in window.text)
    finally:
        window.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


@pytest.mark.parametrize("kind", KINDS)
def test_by_another_name_it_shows_nothing(stand, shop, kind):
    """A site of somebody else's may have a browser ask here by a name of its own."""
    window = stand(shop.site(kind))
    parts = urlsplit(window.site)
    window.browser.get(f"http://shop.evil.example:{parts.port}{parts.path}/tinyjobs/job/")
    assert "shop.evil.example" in window.text and "not allowed" in window.text
    assert not window.all("form, table, script")
    assert [told for told in window.complaints() if " 400 " not in told] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_form_on_a_page_of_somebody_elses_does_nothing(stand, shop, kind):
    window = stand(shop.site(kind))
    job = shop.app.send("shop.add").id
    window.open("/tinyjobs/job/")
    token = window.find("[name=csrfmiddlewaretoken]").get_attribute("value")
    parts = urlsplit(window.site)
    # Another site on the same machine, whose name may be asked for here as well.
    window.browser.get(f"http://localhost:{parts.port}{parts.path}/static/tinyjobs/dashboard.css")
    window.run(
        "const form = document.createElement('form'); form.method = 'post'; form.action = arguments[0];"
        "for (const [name, value] of Object.entries(arguments[1])) {"
        " const field = document.createElement('input'); field.name = name; field.value = value; form.append(field); }"
        "document.body.append(form); form.submit()",
        f"{window.site}/tinyjobs/job/act/",
        {"csrfmiddlewaretoken": token, "action": "cancel", "_selected_action": job, "confirmed": "yes"},
    )
    window.until(lambda: "403" in window.browser.title or "Forbidden" in window.text)
    assert shop.app.get(job).status == "queued"
    # Django's page about it has a style of its own, which is refused.
    expected = (" 403 ", "Applying inline style")
    assert [told for told in window.complaints() if not any(text in told for text in expected)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_texts_that_try_to_be_script_stay_texts(stand, shop, kind):
    window = stand(shop.site(kind))
    for page in pages_of(spoil(shop.store)):
        window.open(f"/tinyjobs/{page}")
        assert window.is_unharmed(), page
        assert "window.ran = true" in window.browser.page_source, f"it is not on {page!r} at all"
        assert window.complaints() == [], page


def test_no_filter_and_no_address_runs_script(stand, shop):
    window = stand(shop.site("command"))
    shop.app.send("shop.add")
    for name in ("q", "queue", "task", "status", "cursor"):
        window.open(f"/tinyjobs/job/?{urlencode({name: EVIL})}")
        assert window.is_unharmed(), name
    assert window.complaints() == []
    for path in (f"job/{EVIL}/", f"schedule/{EVIL}/change/", f"job/?{urlencode({'backend': EVIL})}", EVIL):
        window.open(f"/tinyjobs/{path}")
        assert window.is_unharmed(), path
        assert [told for told in window.complaints() if " 404 " not in told] == [], path


@pytest.mark.parametrize("state", ["empty", "full"])
def test_axe_finds_nothing(stand, shop, state):
    """The whole page here, since its frame is ours as well. What is dark differs from what is light in its colours."""
    window = stand(shop.site("command"))
    pages = PAGES if state == "empty" else pages_of_all(filled := fill(shop))
    for theme, rules in (("light", ()), ("dark", COLOURS)):
        window.run("localStorage.setItem('theme', arguments[0])", theme)
        for page in pages:
            window.open(f"/tinyjobs/{page}")
            assert window.run("return document.documentElement.dataset.theme") == theme
            assert violations(window, "body", only=rules) == "[]", page
    if state == "full":
        window.open(f"/tinyjobs/job/{filled.failed}/")
        window.click("Delete")
        window.until(lambda: "1 job" in window.text)
        assert violations(window, "body") == "[]"


def test_the_dark_is_chosen_with_a_button_and_remembered(stand, shop):
    window = stand(shop.site("command"))
    window.open("/tinyjobs/")
    seen = set()
    for _ in range(3):
        window.find(".theme-toggle").click()
        chosen = window.run("return document.documentElement.dataset.theme")
        window.open("/tinyjobs/job/")
        assert window.run("return document.documentElement.dataset.theme") == chosen
        seen.add((chosen, window.run("return getComputedStyle(document.body).backgroundColor")))
    assert {chosen for chosen, _ in seen} == {"auto", "light", "dark"} and len({colour for _, colour in seen}) == 2
