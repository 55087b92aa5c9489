"""The pool of threads by itself: what it tells of its calls, and what it does when the system gives no thread."""

import asyncio
import threading

from tests.runtime.conftest import PATIENCE, eventually
from tinyjobs.core.job import Job
from tinyjobs.core.options import TaskOptions
from tinyjobs.core.task import TaskSpec
from tinyjobs.executors.call import Call, End
from tinyjobs.executors.thread import ThreadExecutor


def call(function, name="note", **options):
    return Call(Job(id=name, task=name), TaskSpec(name=name, call=function, options=TaskOptions(**options)), (), {})


def run(test, size=2):
    async def main():
        loop = asyncio.get_running_loop()
        endings = []
        executor = ThreadExecutor(size, endings.extend, loop.time, loop)
        try:
            await asyncio.wait_for(test(executor, endings), PATIENCE)
        finally:
            executor.close()

    asyncio.run(main())


def test_a_call_no_thread_can_be_started_for_fails_and_the_next_one_runs(monkeypatch):
    real = threading.Thread.start
    refusals = [RuntimeError("can't start new thread")]

    def start(thread):
        if thread.name.startswith("tinyjobs-job") and refusals:
            raise refusals.pop()
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)

    async def test(executor, endings):
        executor.start(call(lambda: None, "first"))
        assert [(ending.call.job.id, ending.end) for ending in endings] == [("first", End.RAISED)]
        assert executor.free == 2
        executor.start(call(lambda: 5, "second"))
        await eventually(lambda: len(endings) == 2)
        assert (endings[1].call.job.id, endings[1].value) == ("second", 5)

    run(test)


def test_calls_nobody_began_can_be_taken_back_and_never_run():
    go_on, begun, ran = threading.Event(), threading.Event(), []

    async def test(executor, endings):
        executor.start(call(lambda: (begun.set(), go_on.wait()), "long"))
        await asyncio.to_thread(begun.wait, PATIENCE)
        executor.start(call(lambda: ran.append(1), "queued"))
        assert executor.free == -1 or executor.free == 0
        taken = [taken.job.id for taken in executor.take_back()]
        assert [running.job.id for running in executor.running()] == ["long"]
        go_on.set()
        await eventually(lambda: endings)
        assert taken == ["queued"]
        assert not ran

    run(test, size=1)


def test_long_calls_spread_over_all_threads():
    meet = threading.Barrier(4, timeout=PATIENCE)

    async def test(executor, endings):
        for number in range(4):
            executor.start(call(meet.wait, f"call {number}"))
        await eventually(lambda: len(endings) == 4)
        assert {ending.end for ending in endings} == {End.RETURNED}

    run(test, size=4)


def test_calls_of_any_length_all_run_and_every_slot_comes_back():
    """Short and long ones mixed, handed in while others end: no wake-up may be lost between the two."""

    async def test(executor, endings):
        started = 0
        while started < 2_000:
            while executor.free > 0 and started < 2_000:
                hold = threading.Event().wait if started % 50 == 0 else (lambda timeout: None)
                executor.start(call(lambda hold=hold: hold(0.002), str(started)))
                started += 1
            await asyncio.sleep(0)
        await eventually(lambda: len(endings) == 2_000)
        assert executor.free == 4
        assert not executor.running()

    run(test, size=4)


def test_a_timeout_counts_from_the_start_in_the_thread_and_keeps_the_slot():
    go_on, begun = threading.Event(), threading.Event()

    async def test(executor, endings):
        executor.start(call(lambda: (begun.set(), go_on.wait()), "stuck", timeout=0.05))
        executor.start(call(lambda: "ran", "behind", timeout=0.05))
        await eventually(lambda: endings)
        assert [(ending.call.job.id, ending.end) for ending in endings] == [("stuck", End.TIMED_OUT)]
        assert [overdue.job.id for overdue in executor.overdue()] == ["stuck"]
        assert executor.free == -1
        await asyncio.sleep(0.15)  # three times the timeout of the one behind, which has not begun
        assert len(endings) == 1
        go_on.set()
        await eventually(lambda: len(endings) == 2 and executor.free == 1)
        assert (endings[1].call.job.id, endings[1].value) == ("behind", "ran")

    run(test, size=1)
