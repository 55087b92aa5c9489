"""What axe-core says of the pages, empty and full, light and dark: nothing."""

import json
import time
from pathlib import Path

import axe_selenium_python
import pytest

from tests.browser.filling import fill

pytestmark = [pytest.mark.sqlite, pytest.mark.django_db(transaction=True)]

AXE = Path(axe_selenium_python.__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
PAGES = ("", "job/", "schedule/", "schedule/add/", "queues/", "workers/")


def violations(window, below="#content", only=()):
    """What axe finds, below the admin's own frame unless told otherwise, each with the markup it is about.

    `only` some of its rules, or all that it has switched on.
    """
    if not window.run("return 'axe' in window"):
        window.run(AXE.read_text("utf-8"))
    window.browser.set_script_timeout(110)  # the driver itself is waited for 120
    found = window.browser.execute_async_script(
        "const done = arguments[2];"
        "axe.run(arguments[0], {resultTypes: ['violations'], ...(arguments[1].length && {runOnly: arguments[1]})})"
        ".then((all) => done(all.violations.map((one) => [one.id, one.help, one.nodes.map((node) => node.html)])))",
        below,
        list(only),
    )
    return json.dumps(found, indent=1)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("state", ["empty", "full"])
def test_nothing_is_found(admin, state, theme):
    admin.open("/admin/tinyjobs/")
    admin.run("localStorage.setItem('theme', arguments[0])", theme)
    pages = list(PAGES)
    if state == "full":
        filled = fill(time.time())
        pages += [f"job/{filled.failed}/", f"job/{filled.succeeded}/", "job/?q=no+such+text"]
        pages += [f"schedule/{filled.schedule}/change/", f"schedule/{filled.schedule}/edit/"]
    for page in pages:
        admin.open(f"/admin/tinyjobs/{page}")
        assert admin.run("return document.documentElement.dataset.theme") == theme
        assert violations(admin) == "[]", page


def test_a_question_before_an_action(admin):
    job = fill(time.time()).failed
    admin.open(f"/admin/tinyjobs/job/{job}/")
    admin.click("Delete")
    admin.until(lambda: "1 job" in admin.text)
    assert violations(admin) == "[]"


def test_nothing_moves_for_who_wants_no_motion(admin):
    fill(time.time())
    admin.browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    )
    try:
        admin.open("/admin/tinyjobs/")
        moving = admin.run(
            "return [...document.querySelectorAll('#content *')].filter((one) => {"
            " const style = getComputedStyle(one);"
            " return parseFloat(style.transitionDuration) > 0.01 || (style.animationName !== 'none'"
            " && parseFloat(style.animationDuration) > 0.01); }).map((one) => one.outerHTML.slice(0, 100))"
        )
        assert moving == []
    finally:
        admin.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_a_narrow_window_scrolls_tables_and_not_the_page(admin):
    job = fill(time.time()).failed
    admin.browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        for page in ("", "job/", f"job/{job}/", "schedule/", "workers/"):
            admin.open(f"/admin/tinyjobs/{page}")
            assert admin.run("return document.documentElement.scrollWidth <= innerWidth + 1"), page
    finally:
        admin.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
