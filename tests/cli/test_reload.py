"""`--reload`: a change starts the worker again, but never beside the old one and never in the middle of a job."""

import os
import signal

import pytest

from tinyjobs.core.status import JobStatus

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a pipe that a child inherits")

STARTED = r"Worker \S+:(\d+):\w+"
READY = "Ctrl-C or SIGTERM stops it"


def edited(program, old, new):
    path = program.folder / "work.py"
    path.write_text(path.read_text().replace(old, new))


def test_a_change_starts_the_worker_again_with_the_new_code(program, jobs):
    worker = program.start("worker", "--reload")
    worker.wait_for(READY)
    edited(program, "return text", "return text + ' anew'")
    worker.wait_for(r"work\.py changed")
    worker.wait_for("Stopped: 0 jobs ran")  # the old one has ended when the new one says hello
    worker.wait_for(STARTED)
    worker.wait_for(READY)
    worker.signal(signal.SIGTERM)
    assert worker.ends() == 0
    job = jobs.send("work.note", ["one"])
    assert program.run("worker", "--until-empty", "--reload")[0] == 0
    assert jobs.get(job).status is JobStatus.SUCCESS


def test_the_job_that_runs_comes_to_its_end_first(program, jobs, gate):
    running = jobs.send("work.hold", [str(gate.path)])
    worker = program.start("worker", "--reload")
    worker.wait_for("began")
    edited(program, '"held"', '"changed"')
    worker.wait_for("what still runs")
    assert jobs.get(running).status is JobStatus.RUNNING
    gate.open()
    worker.wait_for("Stopped: 1 job ran")
    worker.wait_for(READY)
    done = jobs.get(running)
    assert (done.status, done.claims) == (JobStatus.SUCCESS, 1)
    worker.signal(signal.SIGINT)
    assert worker.ends() == 0


def test_a_syntax_error_waits_for_its_correction(program):
    worker = program.start("worker", "--reload")
    worker.wait_for(READY)
    edited(program, "def hold(gate):", "def hold(gate:")
    worker.wait_for("SyntaxError")
    worker.wait_for("starts again when a source file changes")
    edited(program, "def hold(gate:", "def hold(gate):")
    worker.wait_for(READY)
    worker.signal(signal.SIGTERM)
    assert worker.ends() == 0


def test_a_missing_module_is_noticed_when_it_is_written(program):
    edited(program, "import asyncio", "import helper, asyncio")
    worker = program.start("worker", "--reload", terminal=True)
    worker.wait_for("No module named 'helper'")
    worker.wait_for("starts again when a source file changes")
    program.write("helper.py", "")
    worker.wait_for(READY)
    worker.press_ctrl_c()
    assert worker.ends() == 0


def test_a_stop_is_taken_while_a_broken_program_waits(program):
    edited(program, "def hold(gate):", "def hold(gate:")
    worker = program.start("worker", "--reload")
    worker.wait_for("starts again when a source file changes")
    worker.signal(signal.SIGTERM)
    assert worker.ends() == 0


def test_the_child_ends_when_its_parent_is_gone(program):
    worker = program.start("worker", "--reload")
    pid = int(worker.wait_for(STARTED)[1])
    worker.wait_for(READY)
    worker.signal(signal.SIGKILL)
    worker.wait_for("Stopped: 0 jobs ran")
    worker.ends()
    assert pid != worker.process.pid


def test_a_third_signal_kills_a_child_that_answers_nothing(program, jobs, gate):
    jobs.send("work.hold", [str(gate.path)])
    worker = program.start("worker", "--reload")
    worker.wait_for("began")
    worker.signal(signal.SIGTERM)
    worker.wait_for("what still runs")
    # Two different ones: of two equal signals at once the system may deliver one.
    worker.signal(signal.SIGINT)
    worker.signal(signal.SIGTERM)
    assert worker.ends() == 130


def test_django_reloads_under_debug_and_survives_a_broken_settings_module(project):
    project.configure(debug=True)
    project.lay_out()
    worker = project.start("tinyjobs", "worker")
    worker.wait_for("Restarts when a source file changes")
    worker.wait_for(READY)
    good = (project.folder / "project.py").read_text()
    project.write("project.py", good + "raise RuntimeError('half written')\n")
    worker.wait_for("half written")
    worker.wait_for("ended with status 1")
    project.write("project.py", good)
    worker.wait_for(READY)
    worker.signal(signal.SIGTERM)
    assert worker.ends() == 0


def test_django_does_not_reload_without_debug_or_when_told_not_to(project):
    project.lay_out()
    assert "Restarts when" not in project.run("tinyjobs", "worker", "--until-empty")[1]
    project.configure(debug=True)
    for flags in (["--until-empty"], ["--no-reload", "--until-empty"]):
        status, output = project.run("tinyjobs", "worker", *flags)
        assert status == 0
        assert "Restarts when" not in output


def test_a_wrong_alias_is_no_reason_to_wait_for_a_change(project):
    project.configure(debug=True)
    status, output = project.run("tinyjobs", "worker", "--backend", "nowhere")
    assert status == 2
    assert output.splitlines() == ["CommandError: TASKS has no 'nowhere'. There are: default."]


def test_nor_is_a_flag_that_nobody_knows(project):
    project.configure(debug=True)
    status, output = project.run("tinyjobs", "worker", "--queus", "x")
    assert status == 2
    assert output.startswith("usage: manage.py tinyjobs worker")
    assert "did you mean --queues?" in output
