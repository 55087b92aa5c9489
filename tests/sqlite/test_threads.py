"""One store used by many threads: each has its own connection, and nothing is left of those that have gone."""

import asyncio
import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.sqlite.stores import connection_of, make_job, make_store, request
from tinyjobs.backends.sqlite.backend import SQLiteBackend
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.errors import StoreUnavailableError
from tinyjobs.core.inline import finish


def test_fifty_threads_want_one_key(tmp_path):
    """One gets the new job, forty-nine the handle of that job with the mark of a duplicate."""
    store = make_store(tmp_path / "jobs.db", busy_timeout=60)
    inline = store.inline()
    barrier = threading.Barrier(50)

    def send(_: int):
        barrier.wait(60)
        return finish(inline.enqueue(make_job(store.clock, key="K")))

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(send, range(50)))
    assert len({job.id for job in answers}) == 1
    assert sorted(job.existing for job in answers) == [False] + [True] * 49
    assert finish(inline.counts_by_status())["queued"] == 1


def test_threads_and_loops_share_the_jobs(tmp_path):
    """Synchronous threads, and two event loops over the same store object, claim from one queue at once."""
    store = make_store(tmp_path / "jobs.db", busy_timeout=60)
    jobs = finish(store.inline().enqueue_many([make_job(store.clock) for _ in range(300)]))
    barrier = threading.Barrier(4)
    taken: list[str] = []

    def by_hand() -> None:
        barrier.wait(60)
        while batch := finish(store.inline().claim(request(3))).jobs:
            taken.extend(job.id for job in batch)

    async def by_a_loop() -> None:
        while batch := (await store.claim(request(3))).jobs:
            taken.extend(job.id for job in batch)

    def run_a_loop() -> None:
        barrier.wait(60)
        asyncio.run(by_a_loop())

    threads = [threading.Thread(target=target) for target in (by_hand, by_hand, run_a_loop, run_a_loop)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(taken) == [job.id for job in jobs]
    asyncio.run(store.close())


def open_files(path) -> int:
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith(str(path))
        except OSError:
            continue
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="this system does not list a process's open files")
def test_threads_that_end_take_their_connections_along(tmp_path):
    path = tmp_path / "jobs.db"
    store = make_store(path)
    inline = store.inline()
    for _ in range(20):
        thread = threading.Thread(target=lambda: finish(inline.enqueue(make_job(store.clock))))
        thread.start()
        thread.join()
    gc.collect()
    assert finish(inline.counts_by_status())["queued"] == 20
    assert open_files(path) < 10, "this thread's three, and those SQLite keeps until nobody holds a lock by them"
    finish(inline.close())
    assert open_files(path) == 0


def test_closing_closes_every_threads_connection(tmp_path):
    store = make_store(tmp_path / "jobs.db")
    inline = store.inline()
    connections = []
    with ThreadPoolExecutor(1) as pool:
        pool.submit(finish, inline.enqueue(make_job(store.clock))).result()
        connections.append(pool.submit(connection_of, inline).result())
        finish(inline.enqueue(make_job(store.clock)))
        connections.append(connection_of(inline))
        assert connections[0] is not connections[1]
        asyncio.run(store.close())
        for connection in connections:
            with pytest.raises(StoreUnavailableError, match="closed"):
                connection.data_version()
        with pytest.raises(StoreUnavailableError, match="The store was closed"):
            pool.submit(finish, inline.enqueue(make_job(store.clock))).result()
    assert not [entry for entry in os.listdir(tmp_path) if entry.endswith(("-wal", "-shm"))], "the last one tidies up"


def test_a_call_that_comes_while_the_store_closes_is_answered(tmp_path):
    """With the job, or with an error, but never with silence."""

    async def main() -> None:
        for _ in range(30):
            store = SQLiteBackend(str(tmp_path / "jobs.db"), clock=FrozenClock())
            await store.setup()
            closing = threading.Thread(target=asyncio.run, args=(store.close(),))
            calls = [asyncio.create_task(store.next_due()) for _ in range(3)]
            await asyncio.sleep(0)
            closing.start()
            for _ in range(20):
                calls.append(asyncio.create_task(store.next_due()))
                await asyncio.sleep(0)
            for answer in await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 60):
                assert answer == (False, None) or isinstance(answer, StoreUnavailableError)
            closing.join(60)

    asyncio.run(main())


@pytest.mark.parametrize("path", ["jobs.db", "file:jobs.db?mode=rwc", "file:./jo%62s.db"])
def test_a_relative_path_means_the_same_file_for_good(tmp_path, monkeypatch, path):
    """A connection opened later, after the process changed its folder, must not begin another store."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    store = SQLiteBackend(path, clock=FrozenClock())
    monkeypatch.chdir(tmp_path / "elsewhere")
    inline = store.inline()
    finish(inline.setup())
    monkeypatch.chdir("/")
    job = finish(inline.enqueue(make_job(store.clock)))
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(finish, inline.get(job.id)).result() == job
    assert (tmp_path / "jobs.db").exists()
    assert os.listdir(tmp_path / "elsewhere") == []
    finish(inline.close())


def test_a_store_may_be_closed_again_and_from_another_loop(tmp_path):
    store = make_store(tmp_path / "jobs.db")

    async def use_and_close() -> None:
        await store.counts_by_status()
        await store.close()
        await asyncio.wait_for(store.close(), 20)

    asyncio.run(use_and_close())
    asyncio.run(asyncio.wait_for(store.close(), 20))
