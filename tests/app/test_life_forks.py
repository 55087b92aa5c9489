"""A program that forks while its threads write to a SQLite file: nothing is lost, and the file stays sound.

What a child finds open of its parent's is told in `tests/runtime/test_forks.py`; Postgres in `tests/postgres`.
"""

import os
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

# Eight threads write all the while, half of them on event loops. Every child finds nothing open, writes by itself, from
# a thread and from a loop, and ends in one of three ways. Whatever went wrong is told on stderr and by the status.
WRITERS = """
    import asyncio, os, signal, sys, threading, traceback, warnings
    from tinyjobs import TinyJobs

    warnings.simplefilter("ignore", DeprecationWarning)
    path, times = sys.argv[1], int(sys.argv[2])
    app = TinyJobs(f"sqlite:///{path}")

    @app.task(name="sample")
    def sample(): ...

    def descriptors():
        found = []
        for number in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink(f"/proc/self/fd/{number}")
            except OSError:
                continue
            found += [target] if target.startswith(path) else []
        return found

    stop, written, failed = threading.Event(), [], []

    def write():
        try:
            while not stop.is_set():
                written.append(sample.enqueue().id)
        except BaseException:
            failed.append(traceback.format_exc())

    async def awrite():
        try:
            while not stop.is_set():
                written.append((await sample.aenqueue()).id)
        except BaseException:
            failed.append(traceback.format_exc())

    async def asend():
        await sample.aenqueue()

    def child(number):
        assert not os.path.isdir("/proc/self/fd") or descriptors() == [], descriptors()
        for send in [sample.enqueue, lambda: asyncio.run(asend())][:: 1 if number % 2 else -1]:
            send()
        if number % 3 == 0:
            app.close()

    sample.enqueue()
    threads = [threading.Thread(target=write) for _ in range(4)]
    threads += [threading.Thread(target=lambda: asyncio.run(awrite())) for _ in range(4)]
    for thread in threads:
        thread.start()
    bad = 0
    for number in range(times):
        sample.enqueue()
        pid = os.fork()
        if pid == 0:
            signal.alarm(200)  # one that hangs ends, and is told apart
            code = 1
            try:
                child(number)
                code = 0
            except BaseException:
                traceback.print_exc()
            if number % 2 or code:
                os._exit(code)
            sys.exit(0)
        _, status = os.waitpid(pid, 0)
        bad += bool(os.waitstatus_to_exitcode(status))
    stop.set()
    for thread in threads:
        thread.join()
    print(*failed, sep="\\n", end="", file=sys.stderr)
    kept, wanted = app.stats().by_status["queued"], len(written) + 1 + times * 3
    if kept != wanted:
        print("kept", kept, "of", wanted, file=sys.stderr)
    app.close()
    sys.exit(1 if bad or failed or kept != wanted else 0)
"""

# The parent ends before its child, and so does every other user of the file. The child's locks must be its own: or a
# third process would take the file for unused, and the child's jobs would be written to a log that nobody reads.
ORPHAN = """
    import os, sqlite3, sys, warnings
    from tinyjobs import TinyJobs

    warnings.simplefilter("ignore", DeprecationWarning)
    app = TinyJobs(f"sqlite:///{sys.argv[1]}")
    app.send("parents")
    (gone, parent), (done, child) = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(parent)
        os.close(done)
        app.send("childs")
        os.write(child, b"?")
        os.read(gone, 1)  # returns when the parent has gone
        app.send("childs")
        os.write(child, b"!")
        app.close()
        os._exit(0)
    os.close(child)
    assert os.read(done, 1) == b"?"
    app.close()
    other = sqlite3.connect(sys.argv[1])
    other.execute("CREATE TABLE other (number)")
    other.execute("INSERT INTO other VALUES (1)")
    other.commit()
    other.close()
    os.close(parent)
    assert os.read(done, 1) == b"!"
"""

# A single-threaded program forks: nothing of ours is a thread that Python would warn of.
ALONE = """
    import os, sys
    from tinyjobs import TinyJobs

    app = TinyJobs(sys.argv[1])

    @app.task(name="sample")
    def sample(): ...

    sample.enqueue()
    app.drain()
    pid = os.fork()
    if pid == 0:
        sample.enqueue()
        assert app.drain() == 1
        sys.exit(0)
    _, status = os.waitpid(pid, 0)
    sys.exit(os.waitstatus_to_exitcode(status))
"""

# A job closes the app, which its drain is to do in the end, and forks. In the child that is not the drain's business.
FORKED_IN_A_JOB = """
    import logging, os, sys
    from tinyjobs import TinyJobs

    logging.disable()  # of the two who report the outcome one comes too late, and says so
    app = TinyJobs(sys.argv[1])
    pids = []

    @app.task(name="fork")
    def fork():
        app.close()
        pids.append(os.fork())

    @app.task(name="sample")
    def sample(): ...

    fork.enqueue()
    app.drain()
    if pids == [0]:
        sample.enqueue()
        sys.exit(0)
    _, status = os.waitpid(pids[0], 0)
    app.start()
    assert app.stats().by_status["queued"] == 1
    sys.exit(os.waitstatus_to_exitcode(status))
"""


def run(program, *arguments):
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def check_file(path):
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [task for (task,) in raw.execute("SELECT task FROM tinyjobs_jobs ORDER BY task")]


@pytest.mark.parametrize("times", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_a_fork_under_eight_writing_threads_loses_nothing(tmp_path, times):
    path = tmp_path / "jobs.db"
    run(WRITERS, path, times)
    check_file(path)


def test_a_child_has_locks_of_its_own(tmp_path):
    path = tmp_path / "jobs.db"
    run(ORPHAN, path)
    assert check_file(path) == ["childs", "childs", "parents"]


@pytest.mark.parametrize("url", ["sqlite:///{}", "memory://"])
def test_a_program_without_threads_forks_without_a_warning(tmp_path, url):
    run(ALONE, url.format(tmp_path / "jobs.db"))


def test_a_close_that_a_job_asked_for_is_none_of_a_child_that_it_forked(tmp_path):
    run(FORKED_IN_A_JOB, f"sqlite:///{tmp_path / 'jobs.db'}")
