"""`jobs`, `queues`, `stats` and a worker by `call_command`, on the test's own database and inside its transaction."""

import io
import json
import signal

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.tasks import TaskResultStatus

from tests.taskbackend.shop import tasks
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest
from tinyjobs.core.status import JobStatus
from tinyjobs.management.commands.tinyjobs import Command
from tinyjobs.management.target import AliasTarget
from tinyjobs.taskbackend.working import drain_here

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("each_store")]
#: For a test that is about the database.
IN_DATABASE = pytest.mark.parametrize("each_store", ["database"], indirect=True)

NOBODY = "0199c7e2-8d1f-7a34-9c55-0d9f2a6b7e01"


class Answer:
    """What a command wrote, and the error it ended with."""

    def __init__(self, *arguments, **options):
        out, err = io.StringIO(), io.StringIO()
        self.error = None
        try:
            call_command("tinyjobs", *arguments, stdout=out, stderr=err, **options)
        except CommandError as error:
            self.error = error
        self.out, self.err = out.getvalue(), err.getvalue()

    @property
    def value(self):
        return json.loads(self.out)


def store():
    return AliasTarget("default").store


def claim(queue):
    """Take the next job of a queue, as a worker does."""
    request = ClaimRequest(worker_id="host:1:w", limit=1, lease=3600, queues=(queue,))
    return finish(store().claim(request)).jobs[0]


def test_a_list_is_newest_first_and_goes_on_with_its_cursor():
    ids = [tasks.noop.enqueue().id for _ in range(3)]
    first = Answer("jobs", "list", "--limit", "2", "--json").value
    assert [job["id"] for job in first["jobs"]] == ids[:0:-1]
    second = Answer("jobs", "list", "--limit", "2", "--cursor", first["cursor"], "--json").value
    assert [job["id"] for job in second["jobs"]] == ids[:1]
    assert second["cursor"] is None
    text = Answer("jobs", "list", "--limit", "2").out
    assert ids[2] in text and ids[0] not in text
    assert f"--cursor {first['cursor']}" in text


def test_a_list_is_filtered():
    tasks.noop.enqueue()
    mail = tasks.plain.using(queue_name="default").enqueue()
    drain_here(limit=1)
    listed = Answer("jobs", "list", "--task", mail.task.module_path, "--queue", "default", "--json").value["jobs"]
    assert [job["id"] for job in listed] == [mail.id]
    listed = Answer("jobs", "list", "--status", "success", "--json").value["jobs"]
    assert [job["task"] for job in listed] == [tasks.noop.module_path]
    assert Answer("jobs", "list", "--status", "cancelled").out == "No jobs.\n"


def test_a_listing_says_at_a_glance_how_a_job_stands():
    tasks.fail.enqueue("first line\nsecond line")
    drain_here()
    tasks.noop.using(run_after=tasks.timezone.now() + tasks.timezone.timedelta(hours=5)).enqueue()
    tasks.noop.enqueue()
    claim("default")
    text = Answer("jobs", "list").out
    assert "ValueError: first line second line" in text
    assert "due in 5 h" in text
    assert "on host:1:w" in text


def test_a_job_is_shown_whole():
    job = tasks.fail.enqueue(text="on \x1b[2J purpose")
    drain_here()
    text = Answer("jobs", "show", job.id).out
    for expected in (job.id, tasks.fail.module_path, "failed", "1 of 1", "attempt 1: failed", "Traceback"):
        assert expected in text
    assert "\x1b" not in text
    shown = Answer("jobs", "show", job.id, "--json").value
    assert shown["arguments"] == {"args": [], "kwargs": {"text": "on \x1b[2J purpose"}}
    assert (shown["status"], shown["result"]) == ("failed", None)
    assert [execution["error_type"] for execution in shown["executions"]] == ["builtins.ValueError"]


def test_a_result_is_shown():
    job = tasks.add.enqueue(1, b=2)
    drain_here()
    shown = Answer("jobs", "show", job.id, "--json").value
    assert (shown["arguments"], shown["result"]) == ({"args": [1], "kwargs": {"b": 2}}, 3)
    text = Answer("jobs", "show", job.id).out
    assert "result:      3" in text
    assert "arguments:   1, b=2" in text
    assert "arguments:   none" in Answer("jobs", "show", tasks.noop.enqueue().id).out


@IN_DATABASE
def test_a_payload_that_cannot_be_read_is_no_reason_to_show_nothing():
    job = tasks.noop.enqueue()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE tinyjobs_jobs SET payload = %s WHERE id = %s", [b"{", job.id])
    assert Answer("jobs", "show", job.id, "--json").value["arguments"].startswith("unreadable: ")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE tinyjobs_jobs SET codec = 'pickle' WHERE id = %s", [job.id])
    assert Answer("jobs", "show", job.id, "--json").value["arguments"] == "1 bytes of pickle, not read here"


def test_a_job_that_is_not_there():
    answer = Answer("jobs", "show", NOBODY)
    assert (str(answer.error), answer.error.returncode) == (f"There is no job {NOBODY}.", 1)


def test_failed_and_cancelled_jobs_are_retried_and_others_left():
    failed, cancelled, queued = (tasks.fail.enqueue("no"), tasks.noop.enqueue(), None)
    drain_here(limit=1)
    assert Answer("jobs", "cancel", cancelled.id).out == f"{cancelled.id}: cancelled\n"
    queued = tasks.noop.enqueue()
    answer = Answer("jobs", "retry", failed.id, cancelled.id, queued.id, NOBODY)
    assert answer.out == f"{failed.id}: queued again\n{cancelled.id}: queued again\n"
    assert f"Job {queued.id} is queued; only failed and cancelled jobs can be queued again." in answer.err
    assert f"There is no job {NOBODY}." in answer.err
    assert (str(answer.error), answer.error.returncode) == ("2 of 4 jobs left as they were.", 1)
    failed.refresh()
    assert failed.status is TaskResultStatus.READY


def test_a_retry_whose_key_is_taken_says_so():
    first = tasks.fail.using(key="k").enqueue("no")
    drain_here()
    tasks.noop.using(key="k").enqueue()
    assert f"Job {first.id} was not queued again: another job holds its key k." in Answer("jobs", "retry", first.id).err


def test_a_job_that_ended_is_not_cancelled():
    job = tasks.noop.enqueue()
    drain_here()
    (answer,) = Answer("jobs", "cancel", job.id, "--json").value
    assert answer == {
        "id": job.id,
        "done": False,
        "status": "success",
        "reason": f"Job {job.id} has ended already: success.",
    }


def test_ended_jobs_are_deleted_and_others_left():
    ended, queued = tasks.noop.enqueue().id, tasks.noop.enqueue().id
    drain_here(limit=1)
    answer = Answer("jobs", "delete", ended, queued, NOBODY)
    assert f"{ended}: deleted" in answer.out
    assert f"Job {queued} is queued; only jobs that have ended can be deleted. Cancel it first." in answer.err
    assert f"There is no job {NOBODY}." in answer.err
    assert "2 of 3 jobs left as they were." in str(answer.error)
    assert [job["id"] for job in Answer("jobs", "list", "--json").value["jobs"]] == [queued]
    assert Answer("jobs", "show", ended).error


def test_a_search_looks_at_ids_tasks_and_arguments():
    # The number is long, since a short one stands in the digits of an id every now and then.
    hit, other = tasks.add.enqueue(471147114711, b=1).id, tasks.noop.enqueue().id
    for text, expected in [("471147114711", [hit]), (other[-12:].upper(), [other]), ("NOOP", [other]), ("47%", [])]:
        found = Answer("jobs", "list", "--search", text, "--json").value
        assert [job["id"] for job in found["jobs"]] == expected, text
        assert found["cursor"] is None
    assert Answer("jobs", "list", "--search", "nowhere").out == "No jobs.\n"


def test_a_search_that_looked_at_its_share_says_so_and_goes_on(monkeypatch):
    hit = tasks.add.enqueue(471147114711, b=1).id
    for _ in range(3):
        tasks.noop.enqueue()
    monkeypatch.setattr("tinyjobs.cli.jobs.SEARCHED", 2)
    answer = Answer("jobs", "list", "--search", "471147114711")
    assert answer.out.startswith("No job among the 2 looked at.\nThere are more: --cursor ")
    cursor = answer.out.split()[-1]
    listed = Answer("jobs", "list", "--search", "471147114711", "--cursor", cursor, "--json").value
    assert [job["id"] for job in listed["jobs"]] == [hit]


def test_queues_in_figures():
    tasks.noop.enqueue()
    tasks.noop.enqueue()
    tasks.noop.using(run_after=tasks.timezone.now() + tasks.timezone.timedelta(hours=5)).enqueue()
    claim("default")
    (queue,) = (entry for entry in Answer("queues", "--json").value if entry["name"] == "default")
    assert (queue["depth"], queue["running"], queue["held"], queue["delayed"]) == (1, 1, 0, 1)
    assert queue["oldest_due_seconds"] >= 0
    assert Answer("queues").out.splitlines()[0].split()[:3] == ["QUEUE", "DEPTH", "RUNNING"]


def test_a_queue_that_only_a_task_names_is_listed_as_empty():
    (queue,) = Answer("queues", "--json").value
    assert (queue["name"], queue["depth"], queue["oldest_due"]) == ("default", 0, None)


def test_stats_in_figures():
    tasks.noop.enqueue()
    tasks.fail.enqueue()
    drain_here()
    tasks.noop.enqueue()
    stats = Answer("stats", "--json").value
    assert {status: count for status, count in stats["by_status"].items() if count} == {
        "queued": 1,
        "success": 1,
        "failed": 1,
    }
    assert stats["queued_by_task"] == {tasks.noop.module_path: 1}
    assert (stats["expired_leases"], stats["next_due"]) == (0, None)
    text = Answer("stats").out
    assert "expired leases: 0" in text
    assert "next delayed job: none waits" in text


@IN_DATABASE
def test_looking_goes_through_the_tests_own_connection(django_assert_max_num_queries):
    with django_assert_max_num_queries(20) as captured:
        Answer("queues")
    assert any("tinyjobs_jobs" in query["sql"] for query in captured.captured_queries)


def test_options_as_python_gives_them():
    job = tasks.noop.enqueue()
    assert [entry["id"] for entry in Answer("jobs", "list", as_json=True, limit=1).value["jobs"]] == [job.id]
    assert Answer("jobs", "list", backend="nope").error.returncode == 2
    with pytest.raises(TypeError, match="Unknown option"):
        call_command("tinyjobs", "jobs", "list", limits=1)


@pytest.mark.parametrize(
    "arguments",
    [["jobs", "list", "--backend", "other"], ["--backend", "other", "jobs", "list"]],
    ids=["after", "before"],
)
def test_an_alias_may_stand_before_or_behind_the_command(settings, tmp_path, arguments):
    settings.TASKS = {
        **settings.TASKS,
        "other": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"url": f"sqlite:///{tmp_path}/o.db"}},
    }
    tasks.noop.enqueue()
    assert Answer(*arguments).out == "No jobs.\n"


@IN_DATABASE
def test_without_an_alias_the_one_that_is_ours_is_meant(settings):
    dummy = {"BACKEND": "django.tasks.backends.dummy.DummyBackend"}
    ours = {"BACKEND": "tinyjobs.TinyJobsBackend"}
    settings.TASKS = {"default": dummy, "jobs": ours}
    assert Answer("jobs", "list").out == "No jobs.\n"
    settings.TASKS = {"default": dummy}
    assert "TASKS['default'] is django.tasks.backends.dummy.DummyBackend" in str(Answer("jobs", "list").error)
    settings.TASKS = {"default": dummy, "one": ours, "two": {**ours, "OPTIONS": {"database": "other"}}}
    assert "Several aliases of TASKS use tinyjobs: one, two." in str(Answer("jobs", "list").error)


@IN_DATABASE
def test_wrong_options_of_an_alias_are_told(settings):
    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"eager": "red"}}}
    answer = Answer("jobs", "list")
    assert answer.error.returncode == 2
    assert "TASKS['default']['OPTIONS']['eager']: 'red' is not True or False" in str(answer.error)


def test_a_wrong_command_line_is_a_command_error():
    assert "--limit: '0' is not a whole number" in str(Answer("jobs", "list", "--limit", "0").error)
    assert "--reload starts the process again" in str(Answer("worker", "--reload").error)


@pytest.mark.django_db(transaction=True)
def test_a_worker_runs_inside_call_command():
    job = tasks.place_order.enqueue("one")
    answer = Answer("worker", until_empty=True, queues="default,elsewhere")
    assert answer.error is None
    assert answer.out.splitlines()[-1] == "Done: 1 job ran, 0 failed, 0 wait for later."
    assert "No task and no job uses the queue 'elsewhere'" in answer.err
    assert finish(store().get(job.id)).status is JobStatus.SUCCESS
    assert Answer("worker", until_empty=True, verbosity=0).out == ""


@pytest.mark.django_db(transaction=True)
def test_a_program_that_runs_the_command_itself_keeps_its_signals(capsys):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    Command().run_from_argv(["manage.py", "tinyjobs", "worker", "--until-empty", "--skip-checks"])
    assert "Done: 0 jobs ran" in capsys.readouterr().out
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_much_text_is_shown_from_its_beginning():
    job = tasks.noop.enqueue("x" * 10_000)
    shown = Answer("jobs", "show", job.id).out
    assert len(shown) < 6_000
    assert "characters, --json shows all" in shown
    assert Answer("jobs", "show", job.id, "--json").value["arguments"]["args"] == ["x" * 10_000]


@pytest.mark.django_db(transaction=True)
def test_a_worker_given_wrong_settings_in_python():
    answer = Answer("worker", until_empty=True, concurrency=0)
    assert answer.error.returncode == 2
    assert "concurrency: 0 is not a whole number" in str(answer.error)
