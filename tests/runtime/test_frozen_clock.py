"""The clock that stands still, as the tests of this folder lean on it."""

import asyncio
import threading

import pytest

from tinyjobs.core.clock import FrozenClock


def test_moving_on_after_a_loop_has_ended_wakes_the_others():
    clock = FrozenClock()

    async def leave_one_asleep():
        sleeper = asyncio.create_task(clock.sleep(5))
        await asyncio.sleep(0)
        sleeper.cancel()

    async def sleep_through():
        sleeper = asyncio.create_task(clock.sleep(5))
        await asyncio.sleep(0)
        clock.advance(5)
        await asyncio.wait_for(sleeper, 10)

    asyncio.run(leave_one_asleep())
    asyncio.run(sleep_through())
    asyncio.run(leave_one_asleep())
    clock.advance(60)


def test_it_stands_still_and_only_moves_forward():
    clock = FrozenClock(100.0)
    assert (clock.now(), clock.monotonic()) == (100.0, 0.0)
    clock.advance(2.5)
    clock.advance(0)
    assert (clock.now(), clock.monotonic()) == (102.5, 2.5)
    with pytest.raises(ValueError, match="only moves forward"):
        clock.advance(-1)


def test_moving_it_wakes_whoever_is_due_on_any_loop_and_nobody_else():
    clock, barrier, woken = FrozenClock(), threading.Barrier(4), []

    def sleep(seconds):
        async def main():
            sleeper = asyncio.create_task(clock.sleep(seconds))
            await asyncio.sleep(0)
            await asyncio.to_thread(barrier.wait)
            await sleeper
            woken.append((seconds, clock.monotonic()))

        asyncio.run(main())

    threads = [threading.Thread(target=sleep, args=(seconds,)) for seconds in (1, 5, 30)]
    for thread in threads:
        thread.start()
    barrier.wait()
    clock.advance(4.5)
    threads[0].join(60)
    assert woken == [(1, 4.5)]
    clock.advance(0.5)
    threads[1].join(60)
    assert woken == [(1, 4.5), (5, 5.0)]
    clock.advance(1e9)
    threads[2].join(60)
    assert [seconds for seconds, _ in woken] == [1, 5, 30]


def test_a_sleep_of_no_time_needs_no_move():
    clock = FrozenClock()

    async def main():
        await clock.sleep(0)
        await clock.sleep(-3)

    asyncio.run(main())
