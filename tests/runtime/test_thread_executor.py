"""The thread pool by itself: endings reach the loop whatever the calls around them do."""

import asyncio
import threading
import time

import pytest

from tinyjobs.core.job import Job
from tinyjobs.core.options import TaskOptions
from tinyjobs.core.task import TaskSpec
from tinyjobs.executors.call import Call, End, Ending
from tinyjobs.executors.thread import ThreadExecutor

PATIENCE = 60


def call(function) -> Call:
    return Call(Job(id="1", task="t"), TaskSpec.of("t", function, TaskOptions()), (), {})


async def until(condition) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_short_call_is_told_of_while_the_next_one_blocks(size):
    async def main():
        told: list[Ending] = []
        gate = threading.Event()
        pool = ThreadExecutor(size, told.extend, time.monotonic, asyncio.get_running_loop())
        try:
            pool.start(call(lambda: "short"))
            for _ in range(size):
                pool.start(call(gate.wait))
            await until(lambda: [ending.value for ending in told] == ["short"])
        finally:
            gate.set()
        await until(lambda: len(told) == size + 1)
        pool.close()

    for _ in range(50):
        asyncio.run(main())


def test_every_ending_of_many_short_calls_arrives():
    async def main():
        told: list[Ending] = []
        pool = ThreadExecutor(4, told.extend, time.monotonic, asyncio.get_running_loop())
        for number in range(300):
            pool.start(call(lambda number=number: number))
        await until(lambda: len(told) == 300)
        assert sorted(ending.value for ending in told) == list(range(300))
        assert pool.free == 4
        pool.close()

    for _ in range(20):
        asyncio.run(main())


def test_calls_that_wait_for_each_other_all_get_a_thread():
    async def main():
        told: list[Ending] = []
        barrier = threading.Barrier(8)
        pool = ThreadExecutor(8, told.extend, time.monotonic, asyncio.get_running_loop())
        for _ in range(8):
            pool.start(call(lambda: barrier.wait(PATIENCE)))
        await until(lambda: len(told) == 8)
        assert all(ending.error is None for ending in told)
        pool.close()

    for _ in range(20):
        asyncio.run(main())


def test_at_the_end_of_the_interpreter_a_call_is_not_started_and_no_more_are_taken_than_there_are_threads(monkeypatch):
    async def main():
        told: list[Ending] = []
        gate = threading.Event()
        pool = ThreadExecutor(3, told.extend, time.monotonic, asyncio.get_running_loop())
        try:
            pool.start(call(gate.wait))
            monkeypatch.setattr(threading.Thread, "start", refuse)
            pool.start(call(lambda: None))
            assert [ending.end for ending in told] == [End.NOT_STARTED]
            assert pool.free == 0
        finally:
            gate.set()
        await until(lambda: len(told) == 2)
        assert pool.free == 1
        pool.start(call(lambda: "by the thread there is"))
        await until(lambda: told[-1].value == "by the thread there is")
        pool.close()

    def refuse(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    asyncio.run(main())
