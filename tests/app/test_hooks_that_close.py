"""A hook that closes its own app: the worker that waits for its hooks is not waited for in turn.

As with a job that does so, the call comes back at once, what runs is recorded, the other hooks are told, and then the
app closes.
"""

import asyncio
import contextlib
import logging
import threading
import time

import pytest

from tinyjobs.app import roster as rosters
from tinyjobs.core.errors import AppClosedError
from tinyjobs.core.status import JobStatus
from tinyjobs.runtime.hooks import telling

#: What waits for itself does so for as long as a shutdown may take, which is thirty seconds.
LONGEST = 15.0


@pytest.fixture(params=["drain", "worker", "run_worker"])
def how(request):
    return request.param


def run(app, how):
    """Run until the app is closed, or what is due has run; how many seconds that took."""
    began = time.monotonic()
    if how == "drain":
        app.drain()
    elif how == "worker":
        asyncio.run(app.worker(handle_signals=False, poll=0.01).run())
    else:
        app.run_worker(handle_signals=False, poll=0.01)
    return time.monotonic() - began


@pytest.fixture
def file_app(make_app, tmp_path):
    return make_app(f"sqlite:///{tmp_path}/jobs.db", clock=None)


def closing_hook(app, kind, told):
    """One that closes the app when it is told of the first job, and says that it went on after that."""

    def closes(job, *_):
        if not told:
            told.append("closing")
            app.close()
        told.append(job.id)

    async def acloses(job, *_):
        if not told:
            told.append("closing")
            await app.aclose()
        told.append(job.id)

    return closes if kind == "sync" else acloses


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("told_of", ["start", "success", "failure"])
def test_it_ends_in_order(file_app, how, told_of, kind, caplog):
    told, others = [], []

    @file_app.task(name="note")
    def note():
        if told_of == "failure":
            raise ValueError

    getattr(file_app, f"on_job_{told_of}")(closing_hook(file_app, kind, told))
    getattr(file_app, f"on_job_{told_of}")(lambda job, *_: others.append(file_app.get(job).status))
    job = note.enqueue()
    with caplog.at_level(logging.WARNING, "tinyjobs.hooks"):
        assert run(file_app, how) < LONGEST
    assert told == ["closing", job.id]
    # The hooks that came after it still had the app.
    assert len(others) == 1
    assert not [record for record in caplog.records if record.name == "tinyjobs.hooks"]
    with pytest.raises(AppClosedError):
        file_app.get(job)
    file_app.start()
    # Told of the start, it may come before the function that was about to begin, which then goes back.
    begun = {JobStatus.SUCCESS, JobStatus.QUEUED}
    ends = {"start": begun, "success": {JobStatus.SUCCESS}, "failure": {JobStatus.FAILED}}
    assert file_app.get(job).status in ends[told_of]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_all_that_had_ended_is_recorded_and_told(any_app, kind):
    told = []
    any_app.task(name="note")(lambda number: None)
    any_app.on_job_success(closing_hook(any_app, kind, told))
    jobs = any_app.tasks["note"].enqueue_many([(number,) for number in range(40)])
    assert run(any_app, "run_worker") < LONGEST
    with pytest.raises(AppClosedError):
        any_app.stats()
    assert told[0] == "closing"
    if any_app.store.capabilities.loop_bound or "sqlite" not in repr(any_app):
        return  # what a store in memory had is gone
    any_app.start()
    done = [job.id for job in jobs if any_app.get(job).status is JobStatus.SUCCESS]
    assert sorted(told[1:]) == sorted(done)
    assert {any_app.get(job).status for job in jobs} <= {JobStatus.SUCCESS, JobStatus.QUEUED}


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("face", ["enqueue", "aenqueue"])
def test_in_eager_mode_too(make_app, tmp_path, face, kind):
    app = make_app(f"sqlite:///{tmp_path}/jobs.db", clock=None, eager=True)
    told = []
    app.task(name="note")(lambda: None)
    app.on_job_success(closing_hook(app, kind, told))
    began = time.monotonic()
    note = app.tasks["note"]
    job = note.enqueue() if face == "enqueue" else asyncio.run(note.aenqueue())
    assert time.monotonic() - began < LONGEST
    assert (job.status, told) == (JobStatus.SUCCESS, ["closing", job.id])
    with pytest.raises(AppClosedError):
        app.stats()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_it_stops_the_other_workers_of_the_app_as_well(file_app, kind):
    told, begun, go_on = [], threading.Event(), threading.Event()

    @file_app.task(name="long", queue="long")
    def long():
        begun.set()
        go_on.wait(60)

    file_app.task(name="note")(lambda: None)
    file_app.on_job_success(closing_hook(file_app, kind, told))
    held, note = long.enqueue(), file_app.tasks["note"].enqueue()
    other = threading.Thread(target=lambda: file_app.run_worker(queues=["long"], poll=0.01), daemon=True)
    other.start()
    begun.wait(60)
    began = time.monotonic()
    file_app.run_worker(queues=["default"], handle_signals=False, poll=0.01)
    assert time.monotonic() - began < LONGEST
    assert told == ["closing", note.id]
    # The other one still has a job, and the store for it.
    assert file_app.get(held).status is JobStatus.RUNNING
    go_on.set()
    other.join(60)
    assert not other.is_alive()
    with pytest.raises(AppClosedError):
        file_app.stats()
    file_app.start()
    assert file_app.get(held).status is JobStatus.SUCCESS


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_server_goes_on_without_its_worker(file_app, kind, caplog):
    told = []
    file_app.task(name="note")(lambda: None)
    file_app.on_job_success(closing_hook(file_app, kind, told))

    async def server():
        async with file_app.serve(poll=0.01):
            await file_app.tasks["note"].aenqueue()
            async with asyncio.timeout(LONGEST):
                while "the server goes on without one" not in caplog.text:
                    await asyncio.sleep(0.005)

    asyncio.run(server())
    assert len(told) == 2


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_hook_that_closes_and_never_returns_is_left_behind_and_told_of_once(file_app, kind, caplog):
    go_on, ended = threading.Event(), []

    def hook(*_):
        file_app.close()
        go_on.wait(60)

    async def ahook(*_):
        await file_app.aclose()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        ended.append(1)

    file_app.task(name="note")(lambda: None)
    file_app.on_job_success(hook if kind == "sync" else ahook)
    jobs = file_app.tasks["note"].enqueue_many([()] * 2)
    file_app.run_worker(handle_signals=False, poll=0.01, shutdown_timeout=0.1, concurrency=1)
    go_on.set()
    lines = [record.getMessage() for record in caplog.records if record.name == "tinyjobs.hooks"]
    assert len(lines) == 1
    assert "hooks were still running when the worker had to stop" in lines[0]
    with pytest.raises(AppClosedError):
        file_app.stats()
    file_app.start()
    assert {file_app.get(job).status for job in jobs} <= {JobStatus.SUCCESS, JobStatus.QUEUED}


def test_a_hook_that_was_left_behind_closes_the_app_all_the_same(file_app):
    """It is no hook of anybody's any more, at whatever moment that became so."""
    go_on, closed = threading.Event(), threading.Event()

    def hook(*_):
        go_on.wait(60)
        file_app.close()
        closed.set()

    file_app.task(name="note")(lambda: None)
    file_app.on_job_success(hook)
    file_app.tasks["note"].enqueue()
    real = file_app._access.current.roster.leave

    def leave(who):
        # The worker has looked whether it has to close the app; the hook finds it gone.
        must_close = real(who)
        go_on.set()
        assert closed.wait(60)
        return must_close

    file_app._access.current.roster.leave = leave
    file_app.run_worker(until_empty=True, handle_signals=False, poll=0.01, shutdown_timeout=0.1)
    with pytest.raises(AppClosedError):
        file_app.stats()


def test_a_worker_that_ends_between_two_looks_of_a_close_leaves_it_to_the_close(monkeypatch):
    """Of two who each think that the other will close the app, one has to."""
    roster = rosters.Roster()
    real = rosters._is_one_of

    def and_then_it_ends(entries, caller):
        answer = real(entries, caller)
        assert not roster.leave("worker")
        return answer

    monkeypatch.setattr(rosters, "_is_one_of", and_then_it_ends)
    roster.enter("worker", lambda: None, 1.0, worker_id="its id")
    token = telling.set("its id")
    try:
        assert roster.dismiss()
    finally:
        telling.reset(token)
