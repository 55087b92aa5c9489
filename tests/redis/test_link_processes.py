"""Links in processes: a forked child leaves its parent's connections alone, and nothing is said under -X dev."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEV = ("-X", "dev")

START = """
    import asyncio, gc, os, signal, sys, threading, time
    from tests.redis.links import make_source
    from tinyjobs.backends.redis.link import Script
    from tinyjobs.backends.redis.listener import Listener
    from tinyjobs.backends.redis.looplink import LoopLink
    from tinyjobs.backends.redis.threadlink import ThreadLink
    from tinyjobs.backends.waiters import Waiters
    from tinyjobs.core.errors import StoreError
    from tinyjobs.core.inline import finish

    source = make_source(sys.argv[1])
"""


def run(program, url, *options):
    """Run the program with warnings as errors, and Python's options; what it wrote to stderr."""
    done = subprocess.run(
        [sys.executable, *options, "-W", "error", "-c", textwrap.dedent(START) + textwrap.dedent(program), url],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    # asyncio tells of what it calls slow, which a machine that is busy makes of anything.
    return [line for line in done.stderr.splitlines() if not (line.startswith("Executing <") and " took " in line)]


def test_nothing_is_said_under_dev_mode(own_redis):
    program = """
        def drop():
            import redis
            with redis.Redis.from_url(sys.argv[1]) as client:
                client.client_kill_filter(_type="normal", skipme=True)
                client.client_kill_filter(_type="pubsub", skipme=True)

        threads = ThreadLink(source)
        for _ in range(3):
            finish(threads.command("PING"))
            drop()

        async def main():
            link, waiters = LoopLink(source), Waiters()
            listener, waiter = Listener(source, waiters, "wake", link), waiters.mine()
            for _ in range(3):
                await link.command("PING")
                task = asyncio.create_task(link.command("BLPOP", "nothing", 0))
                await asyncio.sleep(0.02)
                task.cancel()
                try:
                    await listener.wait(waiter, 0.1)
                except StoreError:
                    pass
                drop()
                gc.collect()
            await listener.close()
            await link.close()

        asyncio.run(main())
        finish(threads.close())
        gc.collect()
    """
    assert run(program, own_redis.url(), *DEV) == []


def test_a_server_that_is_not_there_under_dev_mode():
    program = """
        threads = ThreadLink(source)

        async def main():
            link = LoopLink(source)
            for _ in range(3):
                try:
                    await link.command("PING")
                except StoreError:
                    pass
            await link.close()

        try:
            finish(threads.command("PING"))
        except StoreError:
            pass
        asyncio.run(main())
        gc.collect()
    """
    assert run(program, "redis://127.0.0.1:1", *DEV) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_opens_its_own_connections(own_redis):
    program = """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        threads, looped = ThreadLink(source), LoopLink(source)
        stop, failed, seen = threading.Event(), [], set()

        def talk():
            number = 0
            while not stop.is_set():
                number += 1
                word = f"{threading.get_ident()} {number}".encode()
                if finish(threads.command("ECHO", word)) != word:
                    failed.append(word)
                seen.add(finish(threads.command("CLIENT", "ID")))

        def child(parents):
            assert finish(threads.command("ECHO", "child")) == b"child"
            assert finish(threads.command("CLIENT", "ID")) not in parents

            async def main():
                assert await looped.command("ECHO", "child") == b"child"
                assert await looped.command("CLIENT", "ID") not in parents
                await looped.close()

            asyncio.run(main())
            finish(threads.close())

        async def main():
            ids = {await looped.command("CLIENT", "ID")}
            talking = [threading.Thread(target=talk) for _ in range(3)]
            for thread in talking:
                thread.start()
            # A fork beside a thread that looks a name up leaves the child a lock of libc's that nobody will open.
            while len(seen) < 3:
                await asyncio.sleep(0.001)
            children = []
            for number in range(20):
                ids.add(await looped.command("CLIENT", "ID"))
                pid = os.fork()
                if not pid:
                    code = 1
                    try:
                        asyncio._set_running_loop(None)
                        child(ids | seen)
                        code = 0
                    finally:
                        os._exit(code)
                children.append(pid)
                assert await looped.command("ECHO", number) == b"%d" % number
            for pid in children:
                assert os.waitpid(pid, 0)[1] == 0
            stop.set()
            for thread in talking:
                thread.join()
            assert await looped.command("CLIENT", "ID") in ids
            await looped.close()

        asyncio.run(main())
        assert not failed and len(seen) <= 3, (failed, seen)
        finish(threads.close())
    """
    # Not under -X dev, where Python 3.13.0 itself was seen to hang in a child forked beside threads.
    assert run(program, own_redis.url()) == []
