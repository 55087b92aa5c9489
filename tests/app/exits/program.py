"""One program for each way to end: `python -X dev -W error program.py CASE URL`. Silence and status 0 are right.

With a number behind, it is run so many times, each time in a child that was forked before anything was used: to start
the interpreter takes far longer than the rest. What is wrong with one is written to stdout.
"""

import asyncio
import atexit
import gc
import logging
import os
import select
import signal
import sys
import threading
import time


def early() -> None:
    """Registered before the package is imported, so it is the last to be called."""
    for call in at_the_very_end:
        call()


at_the_very_end: list = []
atexit.register(early)

from tinyjobs import AppClosedError, TinyJobs  # noqa: E402

# Of a busy machine: with `-X dev` a loop says when something took it long.
logging.getLogger("asyncio").addFilter(lambda record: not record.getMessage().startswith("Executing "))

CASE, URL = sys.argv[1:3]
#: None may hang. A worker has thirty seconds for its jobs when it is told to stop, and these take none.
LONGEST = 60.0
#: The statuses other than 0, as the shell or `waitpid` sees them.
STATUS = {"unhandled": 1, "interrupted": -2}


def told_by_a_child(number: int) -> str | None:
    """Fork one, and return what it said until its end and how that was; None in the child itself."""
    global URL
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.dup2(write, 1)
        os.dup2(write, 2)
        os.close(write)
        URL += f"-{number}" if URL.startswith("sqlite") else ""
        return None
    os.close(write)
    said = b""
    ends = time.monotonic() + LONGEST
    while select.select([read], [], [], max(ends - time.monotonic(), 0.0))[0]:
        part = os.read(read, 65536)
        if not part:
            break
        said += part
    else:
        os.kill(pid, signal.SIGKILL)
        said += b"it hung"
    os.close(read)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return said.decode() if status == STATUS.get(CASE, 0) else f"status {status}\n{said.decode()}"


for number in range(int(sys.argv[3]) if len(sys.argv) > 3 else 0):
    told = told_by_a_child(number)
    if told is None:
        break
    if told:
        print(f"--- {CASE}, run {number}\n{told}")
else:
    if len(sys.argv) > 3:
        sys.exit()

app = TinyJobs(URL)


@app.task(name="sample", store_result=True)
def sample(number=0):
    return number


@app.task(name="awaited")
async def awaited():
    await asyncio.sleep(0)


async def use() -> None:
    await sample.aenqueue(1)
    assert await app.astats()


def enqueue_for_ever() -> None:
    while True:
        try:
            sample.enqueue(1)
        except AppClosedError:
            return


def work(**settings) -> None:
    try:
        app.run_worker(poll=0.01, **settings)
    except AppClosedError:
        return  # closed before it had begun


def started(*targets) -> None:
    for target in targets:
        threading.Thread(target=target, daemon=True).start()
    while len(app.list(limit=5).jobs) < 5:
        time.sleep(0.001)


def sync_only():
    sample.enqueue(1)


def async_only():
    asyncio.run(use())


def both():
    sample.enqueue(1)
    asyncio.run(use())
    threading.Thread(target=sample.enqueue).start()


def closed():
    with app:
        sample.enqueue(1)


def closed_from_a_loop():
    async def main():
        async with app:
            await use()

    asyncio.run(main())


def closed_twice():
    both()
    app.close()
    app.close()
    asyncio.run(app.aclose())


def opened_again():
    for _ in range(3):
        app.start()
        sample.enqueue(1)
        app.close()
    app.start()
    asyncio.run(use())


def nothing_done():
    pass


def closed_before_any_use():
    app.close()


def dropped():
    global app, sample, awaited
    both()
    del app, sample, awaited
    gc.collect()


def drained():
    sample.enqueue(1)
    awaited.enqueue()
    assert app.drain() == 2


def worker_of_its_own():
    sample.enqueue(1)
    awaited.enqueue()
    assert app.run_worker(until_empty=True).succeeded == 2


def worker_embedded():
    async def main():
        async with app.serve(poll=0.05):
            job = await sample.aenqueue(1)
            await (await app.aget(job)).awaited(timeout=30)

    asyncio.run(main())


def worker_in_a_daemon_thread():
    started(work, lambda: work(queues=["none"]), enqueue_for_ever)


def closed_beside_a_worker():
    started(work, enqueue_for_ever)
    app.close()


def sys_exit():
    both()
    sys.exit(0)


def sys_exit_in_a_loop():
    async def main():
        await use()
        sys.exit(0)

    asyncio.run(main())


def unhandled():
    both()
    # Says nothing, so that silence stays what is right.
    sys.excepthook = lambda *of: None
    raise ValueError


def interrupted():
    both()
    sys.excepthook = lambda *of: None
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise KeyboardInterrupt


def daemon_threads_enqueue():
    started(*[enqueue_for_ever] * 4)


def daemon_loops_enqueue():
    def loop():
        async def main():
            while True:
                await sample.aenqueue(1)

        asyncio.run(main())

    started(loop, loop, enqueue_for_ever)


def at_exit_enqueues():
    sample.enqueue(1)
    atexit.register(sample.enqueue, 2)


def at_exit_enqueues_at_last():
    sample.enqueue(1)
    at_the_very_end.append(sample.enqueue)


def at_exit_connects_at_last():
    at_the_very_end.append(sample.enqueue)


def at_exit_uses_a_loop():
    both()
    atexit.register(lambda: asyncio.run(use()))


def at_exit_closes():
    both()
    atexit.register(app.close)


def at_exit_closes_at_last():
    both()
    at_the_very_end.append(app.close)


def at_exit_closes_from_a_loop():
    both()
    atexit.register(lambda: asyncio.run(app.aclose()))


def at_exit_drains():
    sample.enqueue(1)
    atexit.register(app.drain)


CASES = [
    sync_only,
    async_only,
    both,
    closed,
    closed_from_a_loop,
    closed_twice,
    opened_again,
    nothing_done,
    closed_before_any_use,
    dropped,
    drained,
    worker_of_its_own,
    worker_embedded,
    worker_in_a_daemon_thread,
    closed_beside_a_worker,
    sys_exit,
    sys_exit_in_a_loop,
    unhandled,
    interrupted,
    daemon_threads_enqueue,
    daemon_loops_enqueue,
    at_exit_enqueues,
    at_exit_enqueues_at_last,
    at_exit_connects_at_last,
    at_exit_uses_a_loop,
    at_exit_closes,
    at_exit_closes_at_last,
    at_exit_closes_from_a_loop,
    at_exit_drains,
]

if __name__ == "__main__":
    {case.__name__: case for case in CASES}[CASE]()
