"""What a mask hides, is hidden on every page, in JSON, in tracebacks and from searches."""

import json

import pytest

from tests.dashboard.conftest import store, text_of
from tests.dashboard.test_pages import api
from tests.taskbackend.shop import tasks
from tinyjobs.core.codecs.tagged import JSONCodec
from tinyjobs.models import Job
from tinyjobs.testing import drain

pytestmark = pytest.mark.django_db

SECRET = "hunter2-and-more"


@pytest.fixture
def job_id():
    """A failed job with a secret in its arguments, in its error and in its traceback."""
    made = tasks.fail.enqueue(f"cannot log in with {SECRET} and api_key={SECRET[::-1]}").id
    drain()
    payload = f'[[{{"Password": "{SECRET}"}}],{{"deep":[{{"api-key":["{SECRET}"]}}],"user":"bob"}}]'
    Job.objects.filter(pk=made).update(payload=payload.encode(), dedup_key=f"login:{SECRET}", result=payload.encode())
    return made


def test_a_jobs_page_and_its_json(admin, job_id):
    for url in (f"/admin/tinyjobs/job/{job_id}/", f"/admin/tinyjobs/job/{job_id}/?all=1"):
        text = text_of(admin, url)
        assert SECRET not in text and SECRET[::-1] not in text
        assert "••••••" in text and "bob" in text and "cannot log in with" in text
    answer = admin.get(f"/admin/tinyjobs/api/jobs/{job_id}/")
    assert SECRET not in answer.content.decode()
    page = answer.json()
    assert page["arguments"]["args"] == [{"Password": "••••••"}]
    assert page["arguments"]["kwargs"] == {"deep": [{"api-key": "••••••"}], "user": "bob"}
    assert page["key"] == "login:••••••"


def test_lists_and_the_overview(admin, job_id):
    for page in ("", "job/", "job/?status=failed", "queues/", "workers/", "api/jobs/", "api/overview/"):
        assert SECRET not in text_of(admin, f"/admin/tinyjobs/{page}")
    (job,) = api(admin, "jobs")["jobs"]
    assert job["error"] == "ValueError"


def test_a_search_finds_nothing_that_is_hidden(admin, job_id):
    assert api(admin, "jobs", q=SECRET)["jobs"] == []
    assert api(admin, "jobs", q=SECRET[:5])["jobs"] == []
    assert len(api(admin, "jobs", q='"user":"bob"')["jobs"]) == 1
    assert len(api(admin, "jobs", q="password")["jobs"]) == 1
    assert len(api(admin, "jobs", q="tasks.fail")["jobs"]) == 1


def test_positional_arguments_go_by_their_parameters(admin):
    job_id = tasks.log_in.enqueue("bob", SECRET).id
    assert api(admin, f"jobs/{job_id}")["arguments"]["args"] == ["bob", "••••••"]
    assert api(admin, "jobs", q=SECRET)["jobs"] == []
    assert len(api(admin, "jobs", q="bob")["jobs"]) == 1


def test_all_arguments_of_a_variadic_parameter_go_by_its_name(admin, settings):
    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"mask": ["args"]}}}
    for values in ((SECRET, "Zebra99qq"), ()):
        job_id = tasks.noop.enqueue(*values, note="plain").id
        shown = api(admin, f"jobs/{job_id}")["arguments"]
        assert (shown["args"], shown["kwargs"]) == (["••••••"] * len(values), {"note": "plain"})
    assert api(admin, "jobs", q="zebra")["jobs"] == []
    assert api(admin, f"jobs/{tasks.add.enqueue(1).id}")["arguments"]["args"] == [1]


def test_a_project_says_what_is_hidden(admin, settings, job_id):
    alias = {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"mask": ["user"]}}
    settings.TASKS = {"default": alias}
    page = api(admin, f"jobs/{job_id}")
    assert page["arguments"]["kwargs"]["user"] == "••••••"
    assert page["arguments"]["args"] == [{"Password": SECRET}]
    assert api(admin, "jobs", q="bob")["jobs"] == []
    alias["OPTIONS"] = {"mask": []}
    settings.TASKS = {"default": dict(alias)}
    assert api(admin, f"jobs/{job_id}")["arguments"]["kwargs"]["user"] == "bob"
    assert len(api(admin, "jobs", q=SECRET)["jobs"]) == 1


def test_arguments_that_cannot_be_read_are_not_searched(admin, job_id):
    Job.objects.filter(pk=job_id).update(payload=f'{{"password": "{SECRET}"'.encode())
    assert api(admin, "jobs", q=SECRET)["jobs"] == []
    assert SECRET not in str(api(admin, f"jobs/{job_id}")["arguments"])


@pytest.mark.parametrize("kind", ["long", "not to be built", "too long"])
def test_what_is_hidden_in_arguments_that_are_not_shown_is_hidden_in_the_texts(admin, monkeypatch, kind):
    """They are looked through, as far as that goes; else the texts are not shown until somebody asks for all of it."""
    job_id = tasks.fail.enqueue(f"no such user for {SECRET}").id
    drain()
    first = {"$type": "no.such.module.Thing"} if kind == "not to be built" else "x" * 1_100_000
    payload = f'[[{json.dumps(first)}], {{"password": "{SECRET}"}}]'.encode()
    Job.objects.filter(pk=job_id).update(payload=payload)
    if kind == "not to be built":
        monkeypatch.setattr(JSONCodec, "decode_call", refuse)
    if kind == "too long":
        monkeypatch.setattr("tinyjobs.dashboard.pages.values.LOOKED_THROUGH", 1_050_000)
    page = api(admin, f"jobs/{job_id}")
    assert page["arguments"]["args"] is None and SECRET not in str(page)
    expected = "••••••" if kind == "too long" else "ValueError: no such user for ••••••"
    assert page["last_error"] == expected
    assert expected in page["executions"][0]["traceback"]
    assert SECRET not in text_of(admin, f"/admin/tinyjobs/job/{job_id}/")
    assert "no such user for ••••••" in text_of(admin, f"/admin/tinyjobs/job/{job_id}/?all=1")


def refuse(self, data):
    raise ValueError(f"there is no such module: {data!r}")


IN_TEXTS = [
    ("connect password=Zebra99qq please", "Zebra9"),
    ("postgres://u:Giraffe77@db/x", "Giraffe77"),
]


@pytest.mark.parametrize(("argument", "hidden"), IN_TEXTS)
def test_a_search_finds_nothing_that_is_hidden_inside_a_text(admin, argument, hidden):
    job_id = tasks.noop.enqueue(argument, note="plain").id
    assert hidden not in str(api(admin, f"jobs/{job_id}"))
    assert api(admin, "jobs", q=hidden)["jobs"] == []
    for shown in ("connect password" if "connect" in argument else "postgres://u:", '"note":"plain"'):
        assert [job["id"] for job in api(admin, "jobs", q=shown)["jobs"]] == [job_id]


def test_hidden_matches_do_not_end_a_page(admin, monkeypatch):
    # Else the link to older jobs would tell that there are as many of them as a page takes.
    monkeypatch.setattr("tinyjobs.dashboard.pages.jobs.PAGE", 3)
    seen = [tasks.noop.enqueue("Zebra in the open").id for _ in range(4)]
    for _ in range(5):
        tasks.noop.enqueue("password=Zebra99qq")
    page = api(admin, "jobs", q="zebra")
    assert [job["id"] for job in page["jobs"]] == seen[:0:-1]
    page = api(admin, "jobs", q="zebra", cursor=page["cursor"])
    assert ([job["id"] for job in page["jobs"]], page["cursor"]) == (seen[:1], None)
    page = api(admin, "jobs", q="zebra99")
    assert (page["jobs"], page["cursor"]) == ([], None)


def test_a_search_looks_at_a_bounded_number_of_hidden_matches(admin, monkeypatch):
    monkeypatch.setattr("tinyjobs.dashboard.pages.jobs.PAGE", 2)
    monkeypatch.setattr("tinyjobs.dashboard.pages.jobs.OPENED", 4)
    tasks.noop.enqueue("Zebra in the open")
    for _ in range(6):
        tasks.noop.enqueue("password=Zebra99qq")
    page = api(admin, "jobs", q="zebra")
    assert (page["jobs"], page["cursor"]) == ([], None)


def test_a_search_reads_a_bounded_number_of_bytes(admin, monkeypatch):
    monkeypatch.setattr("tinyjobs.dashboard.pages.jobs.OPENED_BYTES", 1_000)
    oldest, *_ = [tasks.noop.enqueue("zebra", "x" * 300).id for _ in range(4)]
    assert [job["id"] for job in api(admin, "jobs", q="noop")["jobs"]][-1] == oldest
    found = [job["id"] for job in api(admin, "jobs", q="zebra")["jobs"]]
    assert len(found) == 3 and oldest not in found


def test_no_job_is_read_twice_for_one_search(admin, monkeypatch):
    read, get = [], type(store()).get

    async def counted(self, job_id):
        read.append(job_id)
        return await get(self, job_id)

    monkeypatch.setattr(type(store()), "get", counted)
    made = {tasks.noop.enqueue("password=Zebra99qq").id for _ in range(5)}
    assert api(admin, "jobs", q="zebra")["jobs"] == []
    assert set(read) == made and len(read) == 5


def test_who_may_not_see_values_finds_ids_and_names_alone(staff, monkeypatch):
    monkeypatch.setattr("tinyjobs.admin.JobAdmin.has_values_permission", lambda self, request: False)
    monkeypatch.setattr("tinyjobs.dashboard.pages.jobs.PAGE", 2)
    made = [tasks.noop.enqueue("elephant").id for _ in range(5)]
    other = tasks.add.enqueue(1).id
    browser = staff("view_job")
    page = api(browser, "jobs", q="elephant")
    assert (page["jobs"], page["cursor"]) == ([], None)
    assert [job["id"] for job in api(browser, "jobs", q="TASKS.ADD")["jobs"]] == [other]
    assert [job["id"] for job in api(browser, "jobs", q=made[0][20:].upper())["jobs"]] == [made[0]]
    seen, cursor, pages = [], "", 0
    while cursor is not None:
        page = api(browser, "jobs", q="noop", cursor=cursor)
        seen, cursor, pages = seen + [job["id"] for job in page["jobs"]], page["cursor"], pages + 1
    assert seen == made[::-1] and pages == 3
    monkeypatch.setattr("tinyjobs.dashboard.pages.jobs.SCANNED", 2)
    page = api(browser, "jobs", q=made[0][20:])
    assert page["jobs"] == [] and page["cursor"] == made[4]
