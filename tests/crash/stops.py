"""Workers that are told to stop, beside a server that answers, one that has gone, and one that has fallen silent.

A module of each server's store imports these, and gives the fixtures `server`, `proxy` before it, and `workshop`.
"""

import json
import signal
import time

import pytest

from tests.crash.workshop import until

#: From the signal to the end of the process, and what that may take beyond it: hooks, connections, the
#: interpreter, on a machine that is busy with other things. Shorter than a server that does not answer would be waited
#: for on Postgres; on Redis a wait ends by itself after its timeout of ten seconds, which this does not tell apart.
TIMEOUT, MARGIN = 2.0, 20.0
SETTINGS = {"lease": 30.0, "shutdown_timeout": TIMEOUT, "concurrency": 2, "async_concurrency": 2}


def test_a_stop_waits_for_what_ends_in_time_and_gives_the_coroutine_back_that_does_not(workshop):
    gate = workshop.folder / "gate"
    kept, given_back = workshop.send("hold", str(gate)), workshop.send("ahold", str(workshop.folder / "never"))
    queued = [workshop.send("hold", str(gate)) for _ in range(3)]
    worker = workshop.worker(**{**SETTINGS, "concurrency": 1})
    until(lambda: len(workshop.starts()) == 2)
    worker.send(signal.SIGTERM)
    time.sleep(0.3)
    gate.touch()
    assert worker.ended() == 0, worker.errors
    assert workshop.history(kept) == ["success"]
    stored = workshop.get(given_back)
    assert (stored.status, stored.attempts) == ("queued", 0)
    assert {workshop.get(job).status.value for job in queued} == {"queued"}
    assert "Traceback" not in worker.errors and "destroyed" not in worker.errors and "psycopg:" not in worker.errors


@pytest.mark.parametrize(
    "how", ["gone", pytest.param("silent", marks=pytest.mark.slow), "silent in the middle of a write"]
)
def test_a_stop_without_a_server_ends_in_time_and_says_what_was_not_recorded(workshop, server, proxy, how):
    """The function has ended, its outcome has nowhere to go; the job comes back when its lease runs out."""
    gate = workshop.folder / "gate"
    jobs = [workshop.send("hold", str(gate), max_attempts=3), workshop.send("ahold", str(gate), max_attempts=3)]
    worker = workshop.worker(**SETTINGS)
    until(lambda: len(workshop.starts()) == 2)
    if how == "gone":
        server.kill()
    else:
        proxy.stall()
    if how == "silent in the middle of a write":
        gate.touch()
        until(lambda: len(workshop.ends()) == 2)
        time.sleep(0.2)
    began = time.monotonic()
    worker.send(signal.SIGTERM)
    gate.touch()
    assert worker.ended() == 0, worker.errors
    took = time.monotonic() - began
    assert took < TIMEOUT + MARGIN, took
    assert len(workshop.ends()) == 2
    assert "2 outcomes could not be recorded before the end" in worker.errors
    assert worker.errors.count("could not be recorded, trying again until the end") <= 1
    assert "Traceback" not in worker.errors and "destroyed" not in worker.errors and "psycopg:" not in worker.errors
    if how == "gone":
        server.start()
    else:
        proxy.cut()
        proxy.resume()
    assert {workshop.get(job).status.value for job in jobs} == {"running"}


@pytest.mark.parametrize("poll", [pytest.param(0.1, marks=pytest.mark.slow), 60.0], ids=["looking", "not looking"])
def test_an_idle_worker_stops_in_time_beside_a_silent_server(workshop, proxy, poll):
    """Its search for expired leases is under way and will not be answered, and in one case its look for jobs."""
    first = workshop.send("note", 0)
    worker = workshop.worker(**{**SETTINGS, "reap_interval": 0.1, "poll": poll})
    until(lambda: workshop.starts(first) and workshop.get(first).status == "success")
    time.sleep(0.5)
    proxy.stall()
    time.sleep(1.0)
    began = time.monotonic()
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0, worker.errors
    assert time.monotonic() - began < TIMEOUT + MARGIN
    assert "Traceback" not in worker.errors and "destroyed" not in worker.errors and "psycopg:" not in worker.errors
    proxy.cut()
    proxy.resume()


@pytest.mark.slow
def test_a_second_signal_does_not_wait_for_a_silent_server(workshop, proxy):
    never = workshop.send("ahold", str(workshop.folder / "never"), max_attempts=3)
    worker = workshop.worker(**{**SETTINGS, "shutdown_timeout": 3.0})
    until(lambda: workshop.starts(never))
    proxy.stall()
    began = time.monotonic()
    worker.send(signal.SIGTERM)
    time.sleep(0.5)
    worker.send(signal.SIGTERM)
    worker.ended()
    assert time.monotonic() - began < 3.0 + MARGIN
    report = json.loads(worker._popen.stdout.read().splitlines()[-1]) if worker._popen.stdout else {}
    assert report["forced"] is True
    assert "1 outcomes could not be recorded before the end" in worker.errors
    proxy.cut()
    proxy.resume()
