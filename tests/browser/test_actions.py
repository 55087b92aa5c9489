"""Every action of the pages, by the mouse and by the keyboard alone, and what becomes of it in the store."""

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from tests.dashboard.conftest import store, stored
from tests.taskbackend.shop import tasks
from tinyjobs.core.inline import finish
from tinyjobs.core.status import JobStatus
from tinyjobs.taskbackend.working import drain_here

pytestmark = [pytest.mark.sqlite, pytest.mark.django_db(transaction=True)]

JOBS, SCHEDULES = "/admin/tinyjobs/job/", "/admin/tinyjobs/schedule/"


def schedule(name):
    return next((state for state in finish(store().schedules()) if state.name == name), None)


def told(window, text):
    """Waits for the page that says so of what was done."""
    window.until(lambda: any(text in message for message in window.messages), text)


def keep_schedule(window, name="nightly"):
    """Make a schedule by the form."""
    window.open(SCHEDULES + "add/")
    window.find("[name=name]").send_keys(name)
    window.find("[name=task]").send_keys(tasks.add.module_path)
    window.find("[name=cron]").send_keys("0 3 * * *")
    arguments = window.find("[name=args]")
    arguments.clear()
    arguments.send_keys("[1, 2]")
    window.click("Save")
    told(window, "added")


@pytest.mark.parametrize("action", ["Retry", "Cancel", "Delete"])
def test_an_action_on_chosen_jobs_asks_with_their_number_and_tells_of_each(admin, action):
    failed, queued = tasks.fail.enqueue("on purpose").id, None
    drain_here()
    queued = tasks.noop.enqueue().id
    admin.open(JOBS)
    for box in admin.all("input[name=_selected_action]"):
        box.click()
    admin.click(action)
    admin.until(lambda: "2 jobs" in admin.text)
    assert stored(queued).status is JobStatus.QUEUED and stored(failed).status is JobStatus.FAILED, "asked, not done"
    admin.click(action)
    told = " ".join(admin.until(lambda: admin.messages))
    assert failed in told and queued in told
    left = {job.id: job.status for job in finish(store().list()).jobs}
    assert (
        left
        == {
            "Retry": {failed: "queued", queued: "queued"},
            "Cancel": {failed: "failed", queued: "cancelled"},
            "Delete": {queued: "queued"},
        }[action]
    )


def test_a_question_can_be_left_without_a_change(admin):
    job = tasks.noop.enqueue().id
    admin.open(f"{JOBS}{job}/")
    admin.click("Cancel")
    admin.click("No, take me back")
    admin.until(lambda: admin.path == f"{JOBS}{job}/")
    assert stored(job).status is JobStatus.QUEUED


def test_all_of_it_by_the_keyboard_alone(admin):
    first, second = tasks.noop.enqueue().id, tasks.noop.enqueue().id
    admin.open(JOBS)
    box = next(box for box in admin.all("input[name=_selected_action]") if box.get_attribute("value") == first)
    admin.tab_to(box)
    admin.press(Keys.SPACE)
    cancel = admin.named("Cancel", "button")
    admin.browser.execute_script("document.activeElement.blur(); window.getSelection().removeAllRanges()")
    admin.tab_to(cancel)
    admin.press(Keys.ENTER)
    admin.until(lambda: "1 job" in admin.text)
    admin.tab_to(admin.named("Cancel", "button"))
    admin.press(Keys.ENTER)
    admin.until(lambda: admin.messages)
    assert (stored(first).status, stored(second).status) == (JobStatus.CANCELLED, JobStatus.QUEUED)


def test_one_box_chooses_all_of_the_page(admin):
    for _ in range(3):
        tasks.noop.enqueue()
    admin.open(JOBS)
    admin.find("[data-tj-all]").click()
    assert all(box.is_selected() for box in admin.all("input[name=_selected_action]"))
    admin.click("Cancel")
    admin.until(lambda: "3 jobs" in admin.text)


def test_filters_and_a_search_lead_to_jobs_and_back(admin):
    hit = tasks.add.enqueue(471147114711, b=1).id
    for _ in range(3):
        tasks.noop.enqueue()
    admin.open(JOBS)
    admin.find("#tj-q").send_keys("471147114711", Keys.ENTER)
    admin.until(lambda: len(admin.all("#tj-main tbody tr")) == 1)
    admin.follow("#tj-main tbody a.tj-id", f"…{hit[-12:]}")
    admin.until(lambda: admin.path == f"{JOBS}{hit}/")
    admin.open(JOBS)
    Select(admin.find("#tj-status")).select_by_value("failed")
    admin.click("Filter")
    admin.until(lambda: "No jobs." in admin.text)


def test_a_schedule_is_made_edited_paused_resumed_run_and_deleted(admin):
    keep_schedule(admin)
    made = schedule("nightly")
    assert (made.cron, made.source) == ("0 3 * * *", "data")
    admin.open(SCHEDULES)
    admin.click("Pause nightly")
    told(admin, "paused")
    assert schedule("nightly").is_paused
    admin.click("Resume nightly")
    told(admin, "resumed")
    assert not schedule("nightly").is_paused
    admin.click("Run nightly now")
    told(admin, "run: job")
    assert len(finish(store().list()).jobs) == 1
    admin.click("Edit nightly")
    cron = admin.find("[name=cron]")
    cron.clear()
    cron.send_keys("30 4 * * *")
    admin.click("Save")
    told(admin, "changed")
    assert schedule("nightly").cron == "30 4 * * *"
    admin.open(SCHEDULES)
    admin.click("Delete nightly")
    admin.named("No, take me back")
    assert schedule("nightly") is not None
    admin.click("Delete")
    told(admin, "deleted")
    assert schedule("nightly") is None


def test_a_form_with_mistakes_keeps_what_was_typed_and_says_what_is_wrong(admin):
    admin.open(SCHEDULES + "add/")
    admin.find("[name=name]").send_keys("nightly")
    admin.find("[name=cron]").send_keys("at night")
    admin.browser.execute_script(
        "document.querySelector('form[method=post][novalidate], #content form').noValidate = true"
    )
    admin.click("Save")
    admin.until(lambda: admin.all(".errorlist"))
    assert admin.find("[name=cron]").get_attribute("value") == "at night"
    assert schedule("nightly") is None


def test_every_page_is_reached_by_the_menu(admin):
    admin.open("/admin/")
    admin.click("Background jobs")
    for name, path in [
        ("Jobs", JOBS),
        ("Schedules", SCHEDULES),
        ("Queues", "/admin/tinyjobs/queues/"),
        ("Workers", "/admin/tinyjobs/workers/"),
        ("Overview", "/admin/tinyjobs/"),
    ]:
        admin.follow(".tj-menu a", name)
        admin.until(lambda path=path: admin.path == path)
