"""A process that forks while its threads use the store: the child leaves their connections alone and opens its own."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.servers.postgres import Cluster

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork"),
]

# The parent writes from two threads and two event loops all the while; every child writes from a thread and from a
# loop, the one first or the other. Whatever went wrong on either side is told on stderr and by the exit code.
PROGRAM = """
    import asyncio, os, signal, sys, threading, traceback, warnings
    from tinyjobs import TinyJobs

    warnings.simplefilter("ignore", DeprecationWarning)
    url, times = sys.argv[1], int(sys.argv[2])
    app = TinyJobs(url)

    @app.task(name="sample")
    def sample(): ...

    def sessions(store):
        "The server's processes behind the connections of a store's pools."
        found = []
        for pool in (store._threads._pool, store._own._pool):
            found += [] if pool is None else [raw.pgconn.backend_pid for raw in list(pool._pool)]
        return set(found)

    stop, written, failed = threading.Event(), [], []

    def write():
        while not stop.is_set():
            try:
                written.append(sample.enqueue().id)
            except BaseException:
                failed.append(traceback.format_exc())
                return

    async def awrite():
        while not stop.is_set():
            try:
                written.append((await sample.aenqueue()).id)
            except BaseException:
                failed.append(traceback.format_exc())
                return

    def child(number, parents):
        async def asend():
            for _ in range(3):
                await sample.aenqueue()

        def send():
            for _ in range(3):
                sample.enqueue()

        if number % 2:
            send()
            asyncio.run(asend())
        else:
            asyncio.run(asend())
            send()
        own = sessions(app.store)
        assert own and not own & parents, (own, parents)
        if number % 5 == 0:
            assert app.run_worker(queues=["none"], until_empty=True, handle_signals=False).succeeded == 0
        if number % 3 == 0:
            app.close()

    sample.enqueue()
    asyncio.run(sample.aenqueue())
    threads = [threading.Thread(target=write) for _ in range(2)]
    threads += [threading.Thread(target=lambda: asyncio.run(awrite())) for _ in range(2)]
    for thread in threads:
        thread.start()
    bad = 0
    for number in range(times):
        parents = sessions(app.store)
        sample.enqueue()
        pid = os.fork()
        if pid == 0:
            signal.alarm(60)  # one that hangs ends, and is told apart
            code = 1
            try:
                child(number, parents)
                code = 0
            except BaseException:
                traceback.print_exc()
            if number % 2 or code:
                os._exit(code)
            sys.exit(0)
        _, status = os.waitpid(pid, 0)
        if os.waitstatus_to_exitcode(status):
            bad += 1
    stop.set()
    for thread in threads:
        thread.join()
    for text in failed:
        print(text, file=sys.stderr)
    kept = app.stats().by_status["queued"]
    wanted = len(written) + 2 + times * 7
    if kept != wanted:
        print("kept", kept, "of", wanted, file=sys.stderr)
    app.close()
    sys.exit(1 if bad or failed or kept != wanted else 0)
"""


def forked(url, times=50):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), url, str(times)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_children_open_connections_of_their_own(postgres_url):
    done = forked(postgres_url)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="a certificate is made with the openssl program")
def test_children_open_connections_of_their_own_over_tls(own_cluster):
    """Two processes on one session would also get each other's encryption wrong."""
    switch_tls_on(own_cluster)
    done = forked(f"{own_cluster.url()}?sslmode=require", times=20)
    assert (done.returncode, done.stderr) == (0, "")


def switch_tls_on(cluster: Cluster) -> None:
    ((data,),) = cluster.execute("SHOW data_directory")
    key, certificate = Path(data, "server.key"), Path(data, "server.crt")
    command = ["openssl", "req", "-new", "-x509", "-days", "2", "-nodes", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-out", certificate, "-keyout", key], check=True, capture_output=True, timeout=60)
    owner = os.stat(data)
    for file in (key, certificate):
        file.chmod(0o600)
        os.chown(file, owner.st_uid, owner.st_gid)
    cluster.execute("ALTER SYSTEM SET ssl = on")
    cluster.restart()
