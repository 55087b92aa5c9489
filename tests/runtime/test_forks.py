"""A process that forks while its threads use a SQLite store: the child finds no connection of theirs, and opens one."""

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
    path = sys.argv[1]
    store = SQLiteBackend(path)
    connected, leave = threading.Event(), threading.Event()

    def descriptors():
        "What this process has open of the store."
        found = []
        for number in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink(f"/proc/self/fd/{number}")
            except OSError:
                continue
            found += [target] if target.startswith(path) else []
        return sorted(found)

    def other_thread():
        finish(store.inline().setup())
        connected.set()
        leave.wait()

    threading.Thread(target=other_thread).start()
    connected.wait()
    finish(store.inline().get("none"))
    assert descriptors(), "the test sees what is open"
    pid = os.fork()
    if pid == 0:
        if sys.argv[2] == "let go":
            del store
        else:
            assert descriptors() == [], descriptors()
            finish(store.inline().get("none"))
            assert descriptors()
        gc.collect()
        if sys.argv[2] == "exit":
            sys.exit(0)
        os._exit(0)
    leave.set()
    _, status = os.waitpid(pid, 0)
    finish(store.inline().get("none"))
    sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are looked up in /proc")
@pytest.mark.parametrize("how", ["let go", "exit", "leave"])
def test_a_forked_child_finds_no_connection_of_its_parents_threads(tmp_path, how):
    program = textwrap.dedent(PROGRAM)
    command = [sys.executable, "-c", program, str(tmp_path / "jobs.db"), how]
    assert subprocess.run(command, timeout=120, check=False).returncode == 0
