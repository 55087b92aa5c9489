"""The loop of a worker's own goes on whatever jobs do to it, unless they have taken away what it stands on."""

import asyncio
import os
import sys

import pytest

from tinyjobs.runtime.ownloop import run_to_end


@pytest.mark.skipif(sys.platform == "win32", reason="the loop stands on other things there")
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_a_loop_whose_descriptors_are_closed_ends():
    """Otherwise the process would turn in circles, hold its jobs' leases and fill the log."""
    told = []

    def note(error):
        told.append(error)
        assert len(told) < 100, "it goes on for ever"

    async def main():
        loop = asyncio.get_running_loop()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, loop._selector.fileno())
        os.close(nothing)
        await asyncio.sleep(3_600)

    with pytest.raises(OSError):
        run_to_end(main(), note)
