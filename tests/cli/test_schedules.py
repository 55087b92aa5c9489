"""`schedules` and `scheduler`: what they print and do, in a Django project and over an app, and as processes."""

import io
import json
import signal
import sys
from datetime import UTC, datetime

import pytest
from django.core.management import CommandError, call_command
from django.tasks import task_backends

from tests.schedules.daily import tasks
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.cron import NEVER
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.models import Job, Schedule
from tinyjobs.taskbackend.shared import use_clock

APP = "tests.schedules.daily"
CLOSE, GREET = (f"{APP}.tasks.{name}" for name in ("close_day", "greet"))
MIDNIGHT = datetime(2026, 6, 1, 0, 0, tzinfo=UTC).timestamp()


class Answer:
    """What a command wrote, and the error it ended with."""

    def __init__(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        self.error = None
        try:
            call_command("tinyjobs", *arguments, stdout=out, stderr=err)
        except CommandError as error:
            self.error = error
        self.out, self.err = out.getvalue(), err.getvalue()

    @property
    def value(self):
        return json.loads(self.out)


@pytest.fixture
def clock(settings, db):
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, APP]
    clock = FrozenClock(MIDNIGHT)
    use_clock(clock)
    yield clock
    use_clock(None)


def row(name, **values):
    values = {"cron": "30 2 * * *", "timezone": "UTC", "next_run_at": MIDNIGHT + 9_000, "task": CLOSE, **values}
    Schedule.objects.create(name=name, **values)


def test_the_list_before_any_scheduler_has_run(clock):
    answer = Answer("schedules")
    assert answer.out.splitlines() == [
        CLOSE,
        "  when:  25 8-16 * * *  every hour from 08:25 to 16:25 every day, UTC",
        "  next:  Mon 2026-06-01 08:25:00+0000, Mon 2026-06-01 09:25:00+0000, Mon 2026-06-01 10:25:00+0000",
        "  last:  -",
        "  note:  no scheduler has run since it was declared",
        GREET,
        "  when:  0 9 * * *  at 09:00 every day, America/New_York",
        "  next:  Mon 2026-06-01 09:00:00-0400, Tue 2026-06-02 09:00:00-0400, Wed 2026-06-03 09:00:00-0400",
        "  last:  -",
        "  note:  no scheduler has run since it was declared",
        "Times are in each schedule's own zone; one that names none has UTC.",
    ]
    assert answer.err == ""


def test_the_list_tells_the_state_of_each(clock):
    row("paused", next_run_at=NEVER, last_run_at=MIDNIGHT - 77_400, last_job_id="an-id", skips=3, source="data")
    row("broken", next_run_at=NEVER, error="no such\x1b task", source="data", cron="nonsense")
    row("gone")
    row("late", next_run_at=MIDNIGHT - 7_200, source="data")
    answer = Answer("schedules")
    text = answer.out
    assert "  next:  paused\n  last:  Sun 2026-05-31 02:30:00+0000, job an-id, 3 held off" in text
    assert "nonsense  cannot be read" in text and "stopped itself: no such\\x1b task" in text
    assert f"gone  ({CLOSE})" in text and "the code has it no more" in text
    assert "  note:  2 h late" in text
    assert "Nobody fires schedules: 'late' is 2 h late." in answer.err


def test_the_list_as_json(clock):
    Answer("schedules", "pause", GREET)
    by_name = {entry["name"]: entry for entry in Answer("schedules", "--json").value}
    assert by_name[CLOSE] == {
        "name": CLOSE,
        "task": CLOSE,
        "args": [],
        "kwargs": {},
        "cron": "25 8-16 * * *",
        "words": "every hour from 08:25 to 16:25 every day",
        "timezone": "UTC",
        "misfire": "skip",
        "overlap": False,
        "queue": None,
        "priority": None,
        "source": "code",
        "paused": False,
        "overdue": False,
        "in_code": True,
        "registered": False,
        "next": [MIDNIGHT + 30_300 + hour * 3_600 for hour in range(3)],
        "last_run_at": None,
        "last_job_id": None,
        "skips": 0,
        "error": None,
    }
    assert (by_name[GREET]["paused"], by_name[GREET]["next"], by_name[GREET]["registered"]) == (True, [], True)


def test_pausing_resuming_running_and_forgetting(clock):
    row("old")
    assert Answer("schedules", "pause", CLOSE, GREET).out == f"{CLOSE} is paused.\n{GREET} is paused.\n"
    assert Answer("schedules", "resume", CLOSE).out == f"{CLOSE} fires next at Mon 2026-06-01 08:25:00+0000.\n"
    made = Answer("schedules", "run", CLOSE, "--json").value[0]
    job = Job.objects.get()
    assert made == {"name": CLOSE, "job": job.id, "existing": False}
    assert Answer("schedules", "run", CLOSE).out == f"{CLOSE} has a job that has not ended: {job.id}.\n"
    assert Answer("schedules", "delete", "old").out == "old is forgotten.\n"
    assert set(Schedule.objects.values_list("name", flat=True)) == {CLOSE, GREET}


def test_what_cannot_be_done_fails_and_the_rest_is_done(clock):
    answer = Answer("schedules", "pause", "nowhere", CLOSE)
    assert answer.out == f"{CLOSE} is paused.\n"
    assert (str(answer.error), answer.error.returncode) == ("There is no schedule 'nowhere'.", 1)
    answer = Answer("schedules", "delete", CLOSE)
    assert "would bring it back" in str(answer.error) and answer.error.returncode == 2


def test_no_schedules(db):
    assert Answer("schedules").out == "No schedules.\n"
    assert Answer("schedules", "--json").value == []


def test_the_tasks_of_the_app_are_what_they_are_for(clock):
    assert tasks.close_day.cron == "25 8-16 * * *"


# --- what this process does not know ------------------------------------------------------------------------------


@pytest.fixture
def torn(clock, settings, tmp_path, monkeypatch):
    """An app whose tasks module fails to import; a schedule of it is stored."""
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "__init__.py").write_text("")
    (tmp_path / "torn" / "tasks.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "torn"]
    row("torn.tasks.report", task="torn.tasks.report", next_run_at=MIDNIGHT - 60, skips=7)
    yield "torn.tasks.report"
    for name in ("torn", "torn.tasks"):
        sys.modules.pop(name, None)


def test_what_a_module_that_fails_to_import_may_declare_is_not_called_gone(torn):
    text = Answer("schedules").out
    assert "the code has it no more" not in text
    assert "  note:  it may be declared in what could not be imported, torn.tasks (ZeroDivisionError: division" in text
    entry = next(entry for entry in Answer("schedules", "--json").value if entry["name"] == torn)
    assert (entry["in_code"], entry["next"]) == (None, [])


def test_what_a_module_that_fails_to_import_may_declare_is_not_forgotten(torn):
    row("by.hand", source="data")
    answer = Answer("schedules", "delete", torn, "by.hand")
    assert answer.error.returncode == 2
    assert "torn.tasks (ZeroDivisionError: division by zero)" in str(answer.error)
    assert "Mend that first" in str(answer.error)
    assert answer.out == "by.hand is forgotten.\n"
    assert Schedule.objects.get(name=torn).skips == 7
    with pytest.raises(ConfigurationError, match=r"torn\.tasks"):
        task_backends["default"].delete_schedule(torn)
    assert Schedule.objects.filter(name=torn).exists()


def test_once_the_module_is_mended_it_may_be_forgotten(torn, tmp_path):
    (tmp_path / "torn" / "tasks.py").write_text("# nothing in here any more")
    assert Answer("schedules", "delete", torn).out == f"{torn} is forgotten.\n"


def test_what_nobody_fires_has_no_next_time(clock):
    row("gone")
    answer = Answer("schedules")
    assert "  next:  -, since nobody fires it\n" in answer.out
    entry = next(entry for entry in Answer("schedules", "--json").value if entry["name"] == "gone")
    assert (entry["next"], entry["in_code"], entry["paused"]) == ([], False, False)


@pytest.mark.parametrize(("grace", "is_late"), [(None, True), (600.0, False)])
def test_late_is_what_the_grace_of_the_workers_does_not_allow(clock, settings, grace, is_late):
    if grace is not None:
        options = {"misfire_grace": grace}
        settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "QUEUES": [], "OPTIONS": options}}
    row("late", next_run_at=MIDNIGHT - 300, source="data")
    answer = Answer("schedules")
    assert answer.error is None
    assert (" late\n" in answer.out, "Nobody fires" in answer.err) == (is_late, is_late)
    entry = next(entry for entry in Answer("schedules", "--json").value if entry["name"] == "late")
    assert entry["overdue"] is is_late


def test_a_row_whose_arguments_cannot_be_read_is_named_when_it_is_run(clock):
    row("torn row", source="data", payload=b"{nonsense")
    row("of another time", source="data", codec="nonsense", payload=b"{}")
    for name in ("torn row", "of another time"):
        answer = Answer("schedules", "run", name)
        assert f"the schedule {name!r}: " in str(answer.error)


# --- processes ----------------------------------------------------------------------------------------------------

SCHEDULED = """
from tinyjobs import TinyJobs
app = TinyJobs("sqlite:///jobs.db", schedules={{"x": {entry!r}}}, timezone="Europe/Rome")

@app.task(name="note", queue="default")
def note():
    pass
"""


def scheduled(program, **entry):
    program.write("work.py", SCHEDULED.format(entry={"task": "note", "cron": "0 3 * * *", **entry}))


def test_a_scheduler_alone(program):
    """It says what it is, registers, and ends cleanly at the first signal."""
    scheduled(program)
    running = program.start("scheduler")
    running.wait_for("Scheduler ")
    running.wait_for("cron:     1, in Europe/Rome unless they say otherwise")
    running.wait_for("It runs no jobs. Ctrl-C or SIGTERM stops it.")
    while program.run("schedules", "--json")[1].find('"registered": true') < 0:
        pass
    running.signal(signal.SIGTERM)
    assert running.ends() == 0
    assert "Stopped: 0 jobs made." in running.output


def test_schedules_of_an_app_by_the_command(program):
    scheduled(program)
    assert program.run("schedules", "pause", "x") == (0, "x is paused.")
    status, output = program.run("schedules")
    assert status == 0 and "x  (note)" in output and "next:  paused" in output
    assert program.run("schedules", "resume", "y")[0] == 1


def test_the_app_is_asked_for_also_where_an_action_may_follow(program):
    from tinyjobs.cli.main import main

    with pytest.raises(SystemExit) as ended:
        main(["schedules"])
    assert ended.value.code == 2


@pytest.mark.parametrize("entry", [{"task": "gone"}, {"args": [1]}])
def test_a_schedule_that_cannot_work_keeps_both_from_starting(program, entry):
    scheduled(program, **entry)
    for command in ("worker", "scheduler"):
        status, output = program.run(command)
        assert (status, "schedules['x']" in output) == (2, True), output


def test_a_module_that_fails_to_import_does_not_keep_it_from_starting(program):
    """What a schedule names may be in there."""
    scheduled(program, task="gone")
    program.write("broken.py", "1 / 0")
    running = program.start("scheduler", "--import", "broken")
    running.wait_for("there is no task 'gone'")
    running.wait_for("It runs no jobs")
    running.signal(signal.SIGINT)
    assert running.ends() == 0


@pytest.mark.parametrize("flag", ["--no-scheduler", "--until-empty"])
def test_a_worker_that_fires_nothing_says_so(program, flag):
    scheduled(program)
    running = program.start("worker", flag)
    running.wait_for(f"With {flag} this worker does not fire the 1 schedule; others have to.")
    running.wait_for("cron:     1, fired by others")
    running.wait_for("Ctrl-C or SIGTERM")
    running.signal(signal.SIGTERM)
    assert running.ends() == 0


def test_a_scheduler_that_reloads(project):
    project.write("shop/tasks.py", "from tinyjobs import task\n@task(cron='0 3 * * *')\ndef note(): pass\n")
    project.lay_out()
    running = project.start("tinyjobs", "scheduler", "--reload")
    running.wait_for("It runs no jobs")
    project.write("shop/tasks.py", "from tinyjobs import task\n@task(cron='0 4 * * *')\ndef other(): pass\n")
    running.wait_for("starting again")
    running.wait_for("It runs no jobs")
    running.signal(signal.SIGTERM)
    assert running.ends() == 0
