"""A worker that runs until its store is empty: what its own hooks send is run too, and no hook can hold it for ever."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from tests.runtime.conftest import PATIENCE, Wrapped, eventually
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest
from tinyjobs.runtime.emptiness import Emptiness
from tinyjobs.runtime.settings import WorkerSettings

#: How long a hook here waits for what a worker that ends too early will never do.
LONG_ENOUGH = 3.0


class Looks:
    """How often the worker has looked for work since the job it had was done. Two are more than it needs to end."""

    def __init__(self, bench, store):
        self._bench = bench
        self._count = 0
        self._twice = threading.Event()
        store.after["next_due"] = self._count_one

    def _count_one(self, answer):
        if not {"queued", "running"} & self._bench.counts().keys():
            self._count += 1
            if self._count >= 2:
                self._twice.set()

    def wait(self):
        self._twice.wait(LONG_ENOUGH)


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("told_of", ["on_start", "on_success", "on_failure"])
def test_what_a_slow_hook_sends_is_run(bench, told_of, kind):
    store, ran = Wrapped(bench.store), []
    looks = Looks(bench, store)

    def fails():
        ran.append("first")
        if told_of == "on_failure":
            raise ValueError

    def hook(job, *_):
        if job.task == "first":
            looks.wait()
            bench.put("second")

    async def on_the_loop(*arguments):
        await asyncio.to_thread(hook, *arguments)

    bench.task("first", fails)
    bench.task("second", lambda: ran.append("second"))
    getattr(bench.hooks, told_of).append(hook if kind == "sync" else on_the_loop)
    bench.put("first")
    bench.run(store=store, poll=0.01)
    assert ran == ["first", "second"]


def test_hooks_that_send_one_job_after_another_are_followed_to_the_last(bench):
    bench.hooks.on_success.append(lambda job, left, seconds: left and bench.put("count", left - 1))
    bench.task("count", lambda left: left)
    bench.put("count", 20)
    assert bench.run(poll=0.01).succeeded == 21


def test_a_hook_may_wait_for_the_job_that_it_sends(bench):
    """The worker goes on while its hooks run."""
    ended = threading.Event()
    answers = []

    def hook(job, result, seconds):
        if job.task == "first":
            bench.put("second")
            answers.append(ended.wait(LONG_ENOUGH))

    bench.hooks.on_success.append(hook)
    bench.task("first", lambda: None)
    bench.task("second", ended.set)
    bench.put("first")
    assert bench.run(poll=0.01).succeeded == 2
    assert answers == [True]


def test_what_the_hook_of_a_job_taken_back_sends_is_run(make_bench):
    """Also where the store has ended that job already, and the worker does not know of it yet."""
    bench = make_bench("file")
    store, ran = Wrapped(bench.store), []
    looks = Looks(bench, store)
    bench.task("lost", lambda: None)
    bench.task("second", lambda: ran.append("second"))
    bench.hooks.on_failure.append(lambda job, error, will_retry: bench.put("second"))
    bench.put("lost")
    finish(bench.store.inline().claim(ClaimRequest(worker_id="gone", limit=1, lease=-1.0)))

    async def slow(answer):
        if answer:
            await asyncio.to_thread(looks.wait)

    store.after["reap_expired"] = slow
    bench.run(store=store, poll=0.01)
    assert ran == ["second"]


def test_a_stop_waits_for_a_hook_no_longer_than_its_timeout(bench, hook_without_end, caplog):
    bench.task("note", lambda number: None)
    bench.put_many("note", 3)

    async def main():
        # Long before it would give the hook up by itself.
        worker = bench.worker(until_empty=True, shutdown_timeout=PATIENCE, poll=0.01)
        running = asyncio.create_task(worker.run())
        await asyncio.to_thread(hook_without_end.wait, PATIENCE)
        await eventually(lambda: bench.counts() == {"success": 3})
        worker.settings = WorkerSettings(shutdown_timeout=0.1)
        worker.stop()
        await asyncio.wait_for(running, PATIENCE / 2)

    asyncio.run(main())
    assert "hooks were still running when the worker had to stop; 2 untold" in caplog.text


def test_it_is_the_hook_under_way_that_is_given_up_not_a_row_of_them(bench):
    """However long a row of hooks takes, each of them may take as long as a stop would wait for it."""
    hooks = SimpleNamespace(is_busy=True, seconds_on_this_one=0.0, added=1, told_all=None)
    idler = SimpleNamespace(look=lambda: None)
    upkeep = SimpleNamespace(is_taking=False)

    async def main():
        emptiness = Emptiness(bench.engine(), WorkerSettings(shutdown_timeout=30.0), hooks, upkeep, idler)
        answers = []
        for seconds in (0.0, 29.0, 5.0, 29.0, 30.0):
            hooks.seconds_on_this_one = seconds
            answers.append(emptiness.is_near())
        assert emptiness.has_given_up
        hooks.is_busy = False
        answers.append(emptiness.is_near())
        assert not emptiness.has_given_up
        emptiness.close()
        return answers

    assert asyncio.run(main()) == [False, False, False, False, True, True]


def test_a_hook_told_of_while_the_store_was_asked_counts(bench):
    hooks = SimpleNamespace(is_busy=False, seconds_on_this_one=0.0, added=1, told_all=None)
    store = Wrapped(bench.store)
    store.after["stats"] = lambda answer: setattr(hooks, "added", hooks.added + 1)
    idler, upkeep = SimpleNamespace(look=lambda: None), SimpleNamespace(is_taking=False)

    async def main():
        emptiness = Emptiness(bench.engine(store), WorkerSettings(), hooks, upkeep, idler)
        first = await emptiness.left()
        store.after.clear()
        return first, await emptiness.left()

    assert asyncio.run(main()) == (None, 0)
