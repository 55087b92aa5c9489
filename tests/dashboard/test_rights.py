"""Who may see and do what: by Django's permissions, on the server, whatever the page showed."""

import pytest
from django.contrib.auth.models import User
from django.tasks import task_backends
from django.test import override_settings
from django.utils import translation

from tests.dashboard.conftest import act, act_on_schedule, client_of, stored, text_of
from tests.dashboard.test_sites import HOME
from tests.taskbackend.shop import tasks
from tinyjobs.models import Schedule
from tinyjobs.testing import drain

pytestmark = pytest.mark.django_db

JOB_PAGES = ("", "job/", "queues/", "workers/")
ADD = "tests.taskbackend.shop.tasks.add"


@pytest.fixture
def job_id():
    made = tasks.fail.enqueue().id
    drain()
    return made


@pytest.fixture
def schedule():
    task_backends["default"].save_schedule("nightly", task=ADD, cron="0 2 * * *", args=[1])
    return "nightly"


def test_nobody_without_logging_in(client, job_id):
    for page in (*JOB_PAGES, f"job/{job_id}/", "schedule/", "schedule/add/"):
        answer = client.get(f"/admin/tinyjobs/{page}")
        assert (answer.status_code, answer["Location"].split("?")[0]) == (302, "/admin/login/")
    answer = client.post(
        "/admin/tinyjobs/job/act/", {"action": "retry", "_selected_action": job_id, "confirmed": "yes"}
    )
    assert answer.status_code == 302 and answer["Location"].startswith("/admin/login/")
    assert stored(job_id).status == "failed"


@pytest.mark.parametrize("place", ["job", "schedule"])
def test_whose_session_has_ended_goes_on_where_the_button_was(client, db, place):
    """Not at the address of the action, which takes no GET."""
    User.objects.create_superuser("root", password="of the test")
    for prefix, login in (("/admin", "/admin/login/"), (HOME, f"{HOME}/login/")):
        with override_settings(ROOT_URLCONF="tests.dashboard.urls"):
            button = {"action": "retry", "name": "x", "backend": "default"}
            there = client.post(f"{prefix}/tinyjobs/{place}/act/", button)["Location"]
            assert there.startswith(f"{login}?next={prefix}/tinyjobs/{place}/")
            answer = client.post(there, {"username": "root", "password": "of the test"})
            assert (answer.status_code, answer["Location"]) == (302, f"{prefix}/tinyjobs/{place}/?backend=default")
            assert client.get(answer["Location"]).status_code == 200
        client.logout()


@pytest.mark.parametrize("kind", ["overview", "jobs", "schedules", "queues", "workers"])
def test_programs_are_told_instead_of_sent_to_log_in(client, staff, kind):
    for browser in (client, staff()):
        answer = browser.get(f"/admin/tinyjobs/api/{kind}/")
        assert answer.status_code == 403 and answer.json() == {"error": "Your account may not see this."}


def test_programs_are_told_by_a_site_on_which_everything_takes_a_login(client, settings):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
    assert client.get("/admin/tinyjobs/api/jobs/").status_code == 403
    assert client.get("/admin/tinyjobs/job/").status_code == 302


def test_somebody_who_is_no_staff(db):
    browser = client_of(User.objects.create_user("customer"))
    assert browser.get("/admin/tinyjobs/").status_code == 302


def test_staff_without_rights_sees_nothing(staff, job_id):
    browser = staff()
    for page in (*JOB_PAGES, f"job/{job_id}/", "schedule/"):
        assert browser.get(f"/admin/tinyjobs/{page}").status_code == 403
    assert "/admin/tinyjobs/" not in text_of(browser, "/admin/")


def test_the_right_to_view_jobs(staff, job_id):
    browser = staff("view_job")
    for page in (*JOB_PAGES, f"job/{job_id}/"):
        text = text_of(browser, f"/admin/tinyjobs/{page}")
        assert 'name="action"' not in text and "_selected_action" not in text
        assert "/admin/tinyjobs/schedule/" not in text
    assert browser.get("/admin/tinyjobs/schedule/").status_code == 403
    for action in ("retry", "cancel", "delete"):
        assert act(browser, action, job_id).status_code == 403
    assert stored(job_id).status == "failed"


def test_the_right_to_change_shows_and_does_nothing_more(staff, job_id):
    browser = staff("change_job")
    assert 'name="action"' not in text_of(browser, f"/admin/tinyjobs/job/{job_id}/")
    for action in ("retry", "cancel", "delete"):
        assert act(browser, action, job_id).status_code == 403


@pytest.mark.parametrize("action", ["retry", "cancel", "delete"])
def test_each_action_takes_its_own_right(staff, job_id, action):
    browser = staff("view_job", f"{action}_job")
    text = text_of(browser, "/admin/tinyjobs/job/")
    assert text.count('name="action"') == 1 and f'value="{action}"' in text
    for other in {"retry", "cancel", "delete"} - {action}:
        assert act(browser, other, job_id).status_code == 403
        assert act(browser, other, job_id, confirmed="").status_code == 403
    assert act(browser, action, job_id).status_code == 200


def test_acting_takes_the_right_to_see(staff, job_id):
    assert act(staff("retry_job"), "retry", job_id).status_code == 403
    assert stored(job_id).status == "failed"


def test_the_right_to_view_schedules(staff, schedule):
    browser = staff("view_schedule")
    for page in ("schedule/", "schedule/nightly/change/"):
        text = text_of(browser, f"/admin/tinyjobs/{page}")
        assert 'name="action"' not in text and "schedule/add" not in text and "/edit/" not in text
        assert '/admin/tinyjobs/job/"' not in text
    for action in ("pause", "resume", "run", "delete"):
        assert act_on_schedule(browser, action, schedule).status_code == 403
    for page in ("add/", "nightly/edit/"):
        assert browser.get(f"/admin/tinyjobs/schedule/{page}").status_code == 403
        assert browser.post(f"/admin/tinyjobs/schedule/{page}", {"name": "x"}).status_code == 403
    assert browser.get("/admin/tinyjobs/job/").status_code == 403


def test_the_admins_links_to_the_overview_lead_who_may_see_schedules_to_them(staff, schedule):
    browser = staff("view_schedule")
    assert 'href="/admin/tinyjobs/"' in text_of(browser, "/admin/")
    answer = browser.get("/admin/tinyjobs/?backend=default")
    assert (answer.status_code, answer["Location"]) == (302, "/admin/tinyjobs/schedule/?backend=default")
    assert browser.get("/admin/tinyjobs/api/overview/").status_code == 403


def test_running_and_changing_schedules_are_two_rights(staff, schedule):
    runner, changer = staff("view_schedule", "run_schedule"), staff("view_schedule", "change_schedule")
    assert act_on_schedule(runner, "pause", schedule).status_code == 403
    assert act_on_schedule(runner, "run", schedule).status_code == 200
    assert act_on_schedule(changer, "run", schedule).status_code == 403
    assert act_on_schedule(changer, "pause", schedule).status_code == 200
    assert 'value="run"' not in text_of(changer, "/admin/tinyjobs/schedule/")
    assert 'value="resume"' not in text_of(runner, "/admin/tinyjobs/schedule/")
    assert act_on_schedule(changer, "delete", schedule).status_code == 200
    assert not Schedule.objects.exists()


def test_arguments_can_be_kept_from_people(staff, job_id, monkeypatch):
    monkeypatch.setattr("tinyjobs.admin.JobAdmin.has_values_permission", lambda self, request: False)
    browser = staff("view_job")
    page = browser.get(f"/admin/tinyjobs/api/jobs/{job_id}/").json()
    assert (page["arguments"], page["result"], page["last_error"]) == (None, None, None)
    assert [execution["traceback"] for execution in page["executions"]] == [None]
    text = text_of(browser, f"/admin/tinyjobs/job/{job_id}/")
    assert "Your account may not see these." in text and "Traceback" not in text


def test_editing_a_schedule_takes_the_right_to_see_its_arguments(staff, schedule, monkeypatch):
    """The form shows them."""
    edit = f"/admin/tinyjobs/schedule/{schedule}/edit/"
    form = {"task": ADD, "cron": "@daily", "args": "[2]", "misfire": "skip"}
    alone, both = staff("change_schedule"), staff("change_schedule", "view_job")
    assert alone.get(edit).status_code == alone.post(edit, form).status_code == 403
    assert "/edit/" not in text_of(alone, "/admin/tinyjobs/schedule/")
    assert "/edit/" in text_of(both, "/admin/tinyjobs/schedule/")
    assert "[\n  1\n]" in text_of(both, edit)
    monkeypatch.setattr("tinyjobs.admin.JobAdmin.has_values_permission", lambda self, request: False)
    assert both.get(edit).status_code == both.post(edit, form).status_code == 403
    assert Schedule.objects.get().cron == "0 2 * * *"
    assert text_of(alone, "/admin/tinyjobs/schedule/add/")


def test_what_programs_are_told_is_in_their_language(staff):
    nobody, viewer = staff(), staff("view_job")
    with translation.override("de"):
        refused = nobody.get("/admin/tinyjobs/api/jobs/")
        missing = viewer.get("/admin/tinyjobs/api/jobs/nope/")
    assert (refused.status_code, refused.json()) == (403, {"error": "Ihr Konto darf dies nicht sehen."})
    assert (missing.status_code, missing.json()) == (404, {"error": "Unter diesem Namen gibt es hier nichts."})
