"""The loops under the contract's bindings still refuse what comes from the wrong thread."""

import asyncio

from tests.contract.loops import AsyncCase


class LoopTests(AsyncCase):
    async def test_a_call_from_another_thread_is_refused(self) -> None:
        loop = asyncio.get_running_loop()
        with self.assertRaisesRegex(RuntimeError, "Non-thread-safe operation"):
            await asyncio.to_thread(loop.call_soon, print)
        future = loop.create_future()
        future.add_done_callback(print)
        with self.assertRaisesRegex(RuntimeError, "Non-thread-safe operation"):
            await asyncio.to_thread(future.set_result, None)
