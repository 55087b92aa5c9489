"""The clock that stands still, as the tests of this folder lean on it."""

import asyncio

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
