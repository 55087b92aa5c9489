"""Commands whose output is the answer: their status is to be trusted, also where the output cannot be written."""

import os
import sys
from contextlib import suppress

import pytest

from tests.cli.conftest import gate, jobs, migrated, program, project, start  # noqa: F401 - fixtures
from tinyjobs.cli import verify
from tinyjobs.cli.main import main
from tinyjobs.cli.outcome import DONE

pytestmark = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
NOT_WRITTEN = "tinyjobs: The answer could not be written: No space left on device."
APP = "from tinyjobs import TinyJobs\napp = TinyJobs({url!r})\n@app.task(name='work.note')\ndef note(): pass\n"
ANSWERS = [
    ["check", "--store-warnings"],
    ["check", "--store-warnings", "--json"],
    ["stats"],
    ["stats", "--json"],
    ["queues"],
    ["queues", "--json"],
    ["jobs", "list"],
    ["jobs", "list", "--json"],
    ["jobs", "show", "ID"],
    ["jobs", "show", "ID", "--json"],
    ["schedules"],
    ["schedules", "--json"],
    ["purge", "--dry-run"],
    ["purge", "--json"],
    ["jobs", "cancel", "ID", "--json"],
]
DEEDS = [["jobs", "cancel", "ID"], ["purge"]]


@pytest.fixture
def with_a_job(program, jobs):  # noqa: F811
    """The program, and the id of a job in its store."""
    return program, jobs.send("work.note", ["x"]).id


@pytest.fixture
def full():
    yield from _left_unflushed(os.fdopen(os.open("/dev/full", os.O_WRONLY), "w"))


@pytest.fixture
def abandoned():
    """A pipe that nobody reads any more."""
    ours, theirs = os.pipe()
    os.close(ours)
    yield from _left_unflushed(os.fdopen(theirs, "w"))


def _left_unflushed(stream):
    yield stream
    with suppress(OSError):
        stream.close()


@pytest.fixture
def command(with_a_job, monkeypatch, capsys):
    """Runs the program in this process, with its output on a stream; the status, and what the error stream got."""
    there, job = with_a_job
    monkeypatch.chdir(there.folder)
    monkeypatch.syspath_prepend(there.folder)
    name = f"app_{job.replace('-', '')}"
    there.write(f"{name}.py", APP.format(url=there.url))

    def run(arguments, stream):
        monkeypatch.setattr(sys, "stdout", stream)
        given = [job if argument == "ID" else argument for argument in arguments]
        status = main(given if given[0] == "verify" else [*given, "--app", f"{name}:app"])
        monkeypatch.undo()
        return status, capsys.readouterr().err

    return run


@pytest.mark.parametrize("arguments", ANSWERS, ids=" ".join)
def test_an_answer_that_cannot_be_written_is_no_success(command, full, arguments):
    assert command(arguments, full) == (1, f"{NOT_WRITTEN}\n")


@pytest.mark.parametrize("arguments", ANSWERS, ids=" ".join)
def test_a_reader_who_has_left_is_no_failure(command, abandoned, arguments):
    assert command(arguments, abandoned) == (0, "")


@pytest.mark.parametrize("arguments", DEEDS, ids=" ".join)
def test_what_is_done_is_done_whatever_becomes_of_the_line_about_it(command, jobs, full, arguments):  # noqa: F811
    assert command(arguments, full) == (0, "")


def test_what_was_done_is_not_undone(command, jobs, full):  # noqa: F811
    assert command(["jobs", "cancel", "ID", "--json"], full)[0] == 1
    assert jobs.stats().by_status["cancelled"] == 1


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_report_of_verify(command, full, monkeypatch, options):
    def reports(options, find_store, console, *, owns_process):
        console.json({"ok": True}) if options["as_json"] else console.line("ok")
        return DONE

    monkeypatch.setattr(verify, "verify", reports)
    assert command(["verify", "sqlite:///scratch.db", *options], full) == (1, f"{NOT_WRITTEN}\n")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_process_of_its_own(with_a_job, full, abandoned, options):
    there, _ = with_a_job
    assert there.run("check", "--store-warnings", *options, stdout=full) == (1, NOT_WRITTEN)
    assert there.run("check", "--store-warnings", *options, stdout=abandoned) == (0, "")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_command_of_a_project(project, full, abandoned, options):  # noqa: F811
    project.lay_out()
    status, told = project.run("tinyjobs", "check", "--store-warnings", *options, stdout=full)
    assert (status, told.splitlines()[-1]) == (1, f"CommandError: {NOT_WRITTEN.removeprefix('tinyjobs: ')}")
    assert project.run("tinyjobs", "check", "--store-warnings", *options, stdout=abandoned) == (0, "")


def test_a_check_that_fails_fails_with_the_line_beside_it(command, full):
    assert command(["check", "--store-warnings", "--max-wait", "0", "--json"], full) == (1, f"{NOT_WRITTEN}\n")


def test_a_worker_whose_output_is_lost_does_its_jobs(with_a_job, jobs, full):  # noqa: F811
    there, _ = with_a_job
    assert there.run("worker", "--until-empty", "-v", "2", stdout=full, stderr=full)[0] == 0
    assert jobs.stats().by_status["success"] == 1
