"""Where the dashboard stands: on sites of a project's own, over several aliases, under templates that it overrides."""

from html import unescape
from types import SimpleNamespace

import pytest
from django.contrib import admin as django_admin
from django.contrib.admin.models import LogEntry
from django.core.management import call_command
from django.tasks import task_backends
from django.test import RequestFactory
from django.test.utils import override_script_prefix
from django.urls import reverse

from tests.dashboard.conftest import act, act_on_schedule, messages_of, store, stored, text_of
from tests.taskbackend.shop import tasks
from tinyjobs.admin import JobAdmin, ScheduleAdmin
from tinyjobs.core.errors import StoreUnavailableError
from tinyjobs.dashboard.pages.values import attempt
from tinyjobs.models import Job, Schedule
from tinyjobs.testing import drain

pytestmark = pytest.mark.django_db

ADD = "tests.taskbackend.shop.tasks.add"
HOME = "/deep/er/backoffice"


@pytest.fixture
def two_sites(settings):
    settings.ROOT_URLCONF = "tests.dashboard.urls"


def links_of(text):
    return {part.split('"')[0] for name in ("href", "action") for part in text.split(f'{name}="')[1:]}


def view_of(site, name):
    return [pattern.callback for pattern in site.get_urls() if getattr(pattern, "name", None) == name]


def test_a_site_of_the_projects_own(admin, two_sites):
    job_id = tasks.fail.enqueue().id
    drain()
    task_backends["default"].save_schedule("nightly", task=ADD, cron="@daily", args=[1])
    for page in (
        "",
        "job/",
        f"job/{job_id}/",
        "schedule/",
        "schedule/nightly/change/",
        "schedule/nightly/edit/",
        "schedule/add/",
        "queues/",
        "workers/",
    ):
        links = links_of(text_of(admin, f"{HOME}/tinyjobs/{page}"))
        assert f"{HOME}/tinyjobs/job/" in links
        assert not [link for link in links if link.startswith("/admin/")]
    answer = admin.post(
        f"{HOME}/tinyjobs/job/act/", {"action": "retry", "_selected_action": job_id, "confirmed": "yes"}, follow=True
    )
    assert answer.redirect_chain == [(f"{HOME}/tinyjobs/job/", 302)]
    assert LogEntry.objects.get().object_id == job_id
    assert admin.get(f"{HOME}/tinyjobs/api/jobs/{job_id}/").json()["status"] == "queued"


def test_the_usual_site_is_not_mixed_up_with_it(admin, two_sites):
    assert not [link for link in links_of(text_of(admin, "/admin/tinyjobs/")) if "backoffice" in link]
    assert reverse("admin:tinyjobs_queues", current_app="backoffice") == f"{HOME}/tinyjobs/queues/"


def test_its_own_door_is_asked(client, two_sites):
    assert client.get(f"{HOME}/tinyjobs/queues/")["Location"].startswith(f"{HOME}/login/")


def test_below_a_prefix_of_the_server(admin):
    with override_script_prefix("/behind/proxy/"):
        text = text_of(admin, "/admin/tinyjobs/job/")
    inside = {link for link in links_of(text) if "tinyjobs/" in link and "static" not in link}
    assert inside and all(link.startswith("/behind/proxy/admin/") for link in inside)


def test_a_site_that_has_no_jobs(admin, settings, two_sites):
    site = django_admin.AdminSite(name="bare")
    site.register(Job, JobAdmin)
    site.register(Schedule, ScheduleAdmin)
    assert view_of(site, "tinyjobs_overview")
    site.unregister(Job)
    assert not view_of(site, "tinyjobs_overview")


def test_a_site_that_has_schedules_alone(admin, two_sites):
    task_backends["default"].save_schedule("nightly", task=ADD, cron="@daily", args=[1])
    given = {"action": "run", "name": "nightly"}
    assert "run: job" in messages_of(admin.post("/planning/tinyjobs/schedule/act/", given, follow=True))[0]
    Schedule.objects.update(last_job_id=Job.objects.get().pk)
    Job.objects.update(scheduled_for=1.0)
    for page in ("", "nightly/change/", "add/"):
        links = links_of(text_of(admin, f"/planning/tinyjobs/schedule/{page}"))
        assert "/planning/tinyjobs/schedule/" in links
        assert not [link for link in links if "/job/" in link or link.startswith("/admin/")]
    for kind in ("schedules", "schedules/nightly"):
        assert admin.get(f"/planning/tinyjobs/api/{kind}/").status_code == 200
    assert admin.get("/planning/tinyjobs/api/jobs/").status_code == 404


def test_no_schedule_leads_to_jobs_who_may_not_see_them(staff, admin):
    task_backends["default"].save_schedule("nightly", task=ADD, cron="@daily", args=[1])
    act_on_schedule(admin, "run", "nightly")
    Schedule.objects.update(last_job_id=Job.objects.get().pk, last_run_at=1.0)
    Job.objects.update(scheduled_for=1.0)
    for page in ("", "nightly/change/"):
        links = links_of(text_of(staff("view_schedule"), f"/admin/tinyjobs/schedule/{page}"))
        assert not [link for link in links if link.startswith("/admin/tinyjobs/job/")]
        links = links_of(text_of(admin, f"/admin/tinyjobs/schedule/{page}"))
        assert f"/admin/tinyjobs/job/{Job.objects.get().pk}/" in links


def test_a_user_of_any_kind():
    class Site(django_admin.AdminSite):
        def has_permission(self, request):
            return request.user.is_somebody

    class Members(JobAdmin):
        def has_view_permission(self, request, obj=None):
            return request.user.is_somebody

    site = Site(name="members")
    site.register(Job, Members)
    request = RequestFactory().get("/")
    request.user = SimpleNamespace(pk="a@b.example", is_somebody=True)
    (view,) = view_of(site, "tinyjobs_api_overview")
    assert view(request).status_code == 200
    request.user.is_somebody = False
    assert view(request).status_code == 403


def test_the_checks_of_the_admin_are_content():
    call_command("check")
    assert not JobAdmin(Job, django_admin.AdminSite()).check()
    assert not ScheduleAdmin(Schedule, django_admin.AdminSite()).check()


def test_a_project_overrides_a_template(admin, settings, tmp_path):
    folder = tmp_path / "admin" / "tinyjobs"
    folder.mkdir(parents=True)
    (folder / "queues.html").write_text(
        '{% extends "admin/tinyjobs/queues.html" %}{% block main %}<p>ours</p>{{ block.super }}{% endblock %}'
    )
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [str(tmp_path)]}]
    text = text_of(admin, "/admin/tinyjobs/queues/")
    assert "<p>ours</p>" in text and "tinyjobs_queue" not in text and 'class="tj-menu"' in text


# --- several aliases ----------------------------------------------------------------------------------------------


@pytest.fixture
def aliases(settings, tmp_path):
    ours, at_once = "tinyjobs.TinyJobsBackend", {"enqueue_on_commit": False}
    settings.TASKS = {
        "default": {"BACKEND": ours},
        "files & more": {"BACKEND": ours, "OPTIONS": {"url": f"sqlite:///{tmp_path}/jobs.db", **at_once}},
        "memory": {"BACKEND": ours, "OPTIONS": {"url": "memory://", **at_once}},
        "dummy": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"},
    }
    return "files & more"


def test_a_switch_between_aliases(admin, aliases):
    here, there = tasks.add.enqueue(1).id, tasks.add.using(backend=aliases).enqueue(2).id
    text = text_of(admin, "/admin/tinyjobs/job/")
    assert here in text and there not in text
    assert "?backend=files+%26+more" in text and "?backend=memory" in text and "dummy" not in text
    text = text_of(admin, "/admin/tinyjobs/job/?backend=files+%26+more")
    assert there in text and here not in text
    assert f"/admin/tinyjobs/job/{there}/?backend=files+%26+more" in text
    assert '<input type="hidden" name="backend" value="files &amp; more">' in text
    assert "/admin/tinyjobs/queues/?backend=files+%26+more" in text


def switches_of(answer):
    """Where the switch between the aliases leads, but for the one that is shown."""
    text = answer.content.decode()
    menu = text[text.index('class="tj-aliases"') :]
    return [unescape(part.split('"')[0]) for part in menu[: menu.index("</ul>")].split('href="')[1:]]


def test_a_switch_on_a_page_that_the_other_alias_does_not_have(admin, aliases, monkeypatch):
    """What is about one job, or answers a form, leads to a list."""
    job_id = tasks.add.enqueue(1).id
    task_backends["default"].save_schedule("nightly", task=ADD, cron="@daily", args=[1])
    jobs, schedules, home = (f"/admin/tinyjobs/{page}" for page in ("job/", "schedule/", ""))
    schedule = f"{schedules}nightly/"
    pages = [(page, page) for page in (home, jobs, schedules, f"{schedules}add/", f"{home}queues/", f"{home}workers/")]
    pages += [(f"{jobs}{job_id}/", jobs), (f"{schedule}change/", schedules), (f"{schedule}edit/", schedules)]
    answers = {admin.get(page): leads_to for page, leads_to in pages}
    answers[act(admin, "cancel", job_id, confirmed="")] = jobs
    answers[act_on_schedule(admin, "delete", "nightly", confirmed="")] = schedules

    async def refuse(self, *given, **named):
        raise StoreUnavailableError("gone")

    with monkeypatch.context() as trouble:
        trouble.setattr(type(store()), "cancel", refuse)
        trouble.setattr(type(store()), "stats", refuse)
        answers[act(admin, "cancel", job_id)] = jobs
        answers[admin.get(home)] = home
    for answer, leads_to in answers.items():
        links = switches_of(answer)
        assert [link.partition("?")[0] for link in links] == [leads_to] * 3, answer.request["PATH_INFO"]
        assert [admin.get(link).status_code for link in links] == [200] * 3


@pytest.mark.parametrize("alias", ["files & more", "memory"])
def test_every_page_of_an_alias(admin, aliases, alias):
    job_id = tasks.add.using(backend=alias).enqueue(2).id
    task_backends[alias].save_schedule("nightly", task=ADD, cron="@daily", args=[1])
    for page in ("", "job/", f"job/{job_id}/", "schedule/", "schedule/nightly/change/", "queues/", "workers/"):
        assert admin.get(f"/admin/tinyjobs/{page}", {"backend": alias}).status_code == 200
    for kind in ("overview", "jobs", f"jobs/{job_id}", "schedules", "queues", "workers"):
        assert admin.get(f"/admin/tinyjobs/api/{kind}/", {"backend": alias}).json()["backend"] == alias


def test_actions_on_an_alias(admin, aliases):
    job_id = tasks.add.using(backend=aliases).enqueue(2).id
    question = act(admin, "cancel", job_id, confirmed="", backend=aliases).content.decode()
    assert '<input type="hidden" name="backend" value="files &amp; more">' in question
    answer = act(admin, "cancel", job_id, backend=aliases)
    assert messages_of(answer) == [f"1 job: cancelled ({job_id})"]
    assert answer.redirect_chain == [("/admin/tinyjobs/job/?backend=files+%26+more", 302)]
    assert stored(job_id, aliases).status == "cancelled"
    form = {"name": "n", "task": ADD, "cron": "@daily", "args": "[1]", "misfire": "skip", "backend": aliases}
    assert admin.post("/admin/tinyjobs/schedule/add/", form).status_code == 302
    assert [state.name for state in task_backends[aliases].schedules()] == ["n"]
    assert not task_backends["default"].schedules()


def test_no_such_alias(admin, aliases):
    assert admin.get("/admin/tinyjobs/?backend=nope").status_code == 404
    assert admin.get("/admin/tinyjobs/api/jobs/?backend=dummy").status_code == 404
    assert act(admin, "cancel", "01a22a3a-6ab1-76b2-a3eb-a0b989b3978d", backend="nope").status_code == 404


def test_with_one_alias_there_is_no_switch(admin):
    assert "backend=" not in text_of(admin, "/admin/tinyjobs/job/")


def test_no_alias_at_all(admin, settings):
    settings.TASKS = {"default": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"}}
    assert admin.get("/admin/").status_code == 200
    for page in ("", "job/", "schedule/", "queues/", "workers/", "schedule/add/"):
        assert "No alias of TASKS uses tinyjobs" in text_of(admin, f"/admin/tinyjobs/{page}", 404)
    assert "No alias of TASKS uses tinyjobs" in admin.get("/admin/tinyjobs/api/jobs/").json()["error"]
    nowhere = {"action": "cancel", "_selected_action": "01a22a3a-6ab1-76b2-a3eb-a0b989b3978d", "name": "x"}
    for place in ("job", "schedule"):
        answer = admin.post(f"/admin/tinyjobs/{place}/act/", {**nowhere, "action": {"job": "cancel"}.get(place, "run")})
        assert answer.status_code == 404 and "No alias of TASKS uses tinyjobs" in answer.content.decode()


def test_an_alias_whose_settings_are_wrong(admin, settings):
    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"lease": -1}}}
    assert "lease" in text_of(admin, "/admin/tinyjobs/", 503)


def test_numbers_that_browsers_read_have_no_separators(admin, settings, monkeypatch):
    settings.USE_THOUSAND_SEPARATOR = True

    def later(execution, veil):
        return {**attempt(execution, veil), "attempt": 1234, "claim": 5678, "traceback": "Traceback"}

    monkeypatch.setattr("tinyjobs.dashboard.pages.job.attempt", later)
    job_id = tasks.fail.enqueue().id
    drain()
    text = text_of(admin, f"/admin/tinyjobs/job/{job_id}/")
    assert '<li value="1234">' in text and 'data-tj-key="traceback-5678"' in text
