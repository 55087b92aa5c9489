"""A job that forks: the child leaves the parent's SQLite connections alone, also those of threads it has not got."""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

# The child is without the other thread, so what that thread kept for itself is let go of during the fork.
PROGRAM = """
    import gc, os, sys, threading, warnings
    from tinyjobs.backends.sqlite.backend import SQLiteBackend
    from tinyjobs.core.inline import finish

    warnings.simplefilter("ignore")
    store = SQLiteBackend(sys.argv[1])
    raw, connected, leave = [], threading.Event(), threading.Event()

    def other_thread():
        finish(store.inline().setup())
        raw.append(store.inline()._runner.connection()._raw)
        connected.set()
        leave.wait()

    threading.Thread(target=other_thread).start()
    connected.wait()
    finish(store.inline().get("none"))
    raw.append(store.inline()._runner.connection()._raw)
    pid = os.fork()
    if pid == 0:
        if sys.argv[2] == "let go":
            del store
        gc.collect()
        for connection in raw:
            connection.execute("SELECT 1").fetchall()  # a closed one raises
        raw.clear()
        gc.collect()
        if sys.argv[2] == "exit":
            sys.exit(0)
        os._exit(0)
    leave.set()
    _, status = os.waitpid(pid, 0)
    finish(store.inline().get("none"))
    sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize("how", ["let go", "exit", "leave"])
def test_a_forked_child_closes_no_connection_of_its_parents_threads(tmp_path, how):
    program = textwrap.dedent(PROGRAM)
    command = [sys.executable, "-c", program, str(tmp_path / "jobs.db"), how]
    assert subprocess.run(command, timeout=30, check=False).returncode == 0
