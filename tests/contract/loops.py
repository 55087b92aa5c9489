"""What the bindings of the contract run on: event loops that watch over their callers and keep no record of them.

Under unittest a loop is in debug mode. There it refuses what comes from the wrong thread, which is why it stays so. It
would also note down the whole stack at each future, task and callback, to show it with a complaint; that takes as long
as all the rest of a test of the contract.
"""

import asyncio
import unittest
from typing import ClassVar


class WithoutStacks(asyncio.SelectorEventLoop):
    """Its own checks go by what it was set to; who asks whether to keep a stack is told no."""

    def get_debug(self) -> bool:
        return False


class AsyncCase(unittest.IsolatedAsyncioTestCase):
    """For a store's binding. Before Python 3.13 unittest makes its loops itself, which are slower then."""

    loop_factory: ClassVar[type[asyncio.AbstractEventLoop]] = WithoutStacks
