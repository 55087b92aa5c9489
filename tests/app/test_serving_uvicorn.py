"""An embedded worker under a real uvicorn: load, SIGTERM in the middle of jobs, several processes, reloads."""

import os
import signal
import time
from collections import Counter
from contextlib import ExitStack, suppress

import pytest

from tests.app.webserver import Site
from tests.cli.processes import Program
from tinyjobs.core.status import JobStatus

pytest.importorskip("fastapi", reason="fastapi and uvicorn are in the group test, which this environment has not got")
pytest.importorskip("uvicorn", reason="fastapi and uvicorn are in the group test, which this environment has not got")

pytestmark = pytest.mark.slow
#: What a server says only when something went wrong.
TROUBLE = ("Traceback", "ERROR", "Exception", "ResourceWarning", "never awaited", "never retrieved")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def site(tmp_path, url):
    with ExitStack() as stack:

        def start(*args, **options):
            server = stack.enter_context(Program(*args, **options))
            stack.callback(kill_all, server.process.pid)
            return server

        yield Site(tmp_path, url, start)


def kill_all(group):
    """End what a failed test left of a server and the processes it started."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def end(server):
    """Stop a server as whoever runs it does; the seconds until it has ended."""
    began = time.monotonic()
    server.signal(signal.SIGTERM)
    # It ends as the signal would have ended it, once it has shut down.
    assert server.ends() in (0, -signal.SIGTERM), server.output
    assert not [word for word in TROUBLE if word in server.output], server.output
    return time.monotonic() - began


def mixed(numbers, seconds=0.0):
    """Requests of both kinds, each for jobs of both kinds."""
    return [f"/{('plain', 'awaited')[number % 2]}/{number}?seconds={seconds}" for number in numbers]


def test_mixed_requests_under_load_all_succeed_and_every_job_runs_once(site):
    server = site.start()
    assert site.get(mixed(range(1000))) == {200: 1000}
    site.wait_for_success(1000)
    end(server)
    assert Counter(site.told("ended")) == dict.fromkeys(range(1000), 1)
    assert {status: len(jobs) for status, jobs in site.jobs().items()} == {JobStatus.SUCCESS: 1000}


def test_a_stop_in_the_middle_of_jobs_records_what_ended_and_gives_back_the_rest(site):
    server = site.start()
    # One in four is a coroutine that would go on for ever, one a function that ends soon; the others are quick.
    assert site.get(["/awaited/3?seconds=600", "/awaited/7?seconds=600", "/plain/0?seconds=1"]) == {200: 3}
    site.wait_for("began", 3)
    quick = [number for number in range(10, 410) if number // 2 % 2 == 0 or number % 3]
    assert site.get(mixed(quick, 0.02)) == {200: len(quick)}
    site.wait_for("ended", 20)
    seconds = end(server)
    assert seconds < 60  # the timeout is 3, and the rest a slow machine's; two of the jobs take ten minutes

    found = site.jobs()
    assert set(found) == {JobStatus.SUCCESS, JobStatus.QUEUED}
    assert len(found[JobStatus.SUCCESS]) == len(site.told("ended")) >= 21
    assert 0 in site.told("ended")
    assert {job.attempts for job in found[JobStatus.QUEUED]} == {0}
    assert not {3, 7} & set(site.told("ended"))

    # A server started after it finds the rest, and everything has run to its end once.
    again = site.start()
    site.wait_for_success(len(quick) + 1)
    end(again)
    assert Counter(site.told("ended")) == dict.fromkeys([0, *quick], 1)


def test_a_stop_while_requests_come_in_loses_no_job_that_was_answered_for(site):
    server = site.start()
    answered = site.get(mixed(range(100)))
    os.kill(server.process.pid, signal.SIGTERM)
    assert server.ends() in (0, -signal.SIGTERM), server.output
    again = site.start()
    site.wait_for_success(answered[200])
    end(again)
    assert Counter(site.told("ended")) == dict.fromkeys(range(100), 1)


def test_several_processes_serve_one_queue(site):
    server = site.start("--workers", "2", processes=2)
    assert site.get(mixed(range(400), 0.005)) == {200: 400}
    site.wait_for_success(400)
    end(server)
    assert Counter(site.told("ended")) == dict.fromkeys(range(400), 1)
    assert len(site.processes()) == 2


def test_a_reload_hands_the_jobs_to_the_next_process(site):
    server = site.start("--reload", "--reload-dir", str(site.folder), "--reload-include", "served.py")
    assert site.get([*mixed(range(50), 0.02), "/awaited/103?seconds=600"]) == {200: 51}
    site.wait_for("ended", 5)
    site.program.write_text(site.program.read_text() + "\n# changed\n")
    server.wait_for("startup complete")
    assert site.get(mixed(range(200, 250), 0.02)) == {200: 50}
    site.wait_for_success(100)
    end(server)
    assert Counter(site.told("ended")) == dict.fromkeys([*range(50), *range(200, 250)], 1)
    assert len(site.processes()) == 2
