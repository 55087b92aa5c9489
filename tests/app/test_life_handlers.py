"""A signal handler that calls the app on top of a call: it is served, wherever it finds that call, and nobody hangs.

In a process of its own, since one that waits for itself could only be killed.
"""

import subprocess
import sys
from pathlib import Path

import pytest

# The handler is the trace function, at every so-manieth line. Each of its calls has to come back.
PROGRAM = """
    import sys, warnings
    from tests.app.strikes import Strike
    from tinyjobs import AppClosedError, TinyJobs
    from tinyjobs.backends.sqlite import connection

    connection._CLOSING = 0.05  # how long a close waits for the call that it has struck, which cannot go on before it
    warnings.simplefilter("ignore", ResourceWarning)
    path, call, answer, step = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    app = TinyJobs(f"sqlite:///{path}")
    sent = []

    @app.task(name="sample")
    def sample(): ...

    def send():
        sent.append(sample.enqueue().id)

    class Handler(Strike):
        def _count(self, frame):
            self._left -= 1
            if self._left == 0:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                print(self.where, flush=True)
                sys.settrace(None)
                CALLS[answer]()

    def first():
        app.close()
        app.start()
        send()

    def drain():
        sample.enqueue()
        app.drain()

    def block():
        with app:
            pass

    CALLS = {"send": send, "first": first, "drain": drain, "block": block, "close": app.close}
    point = 1
    while True:
        app.start()
        handler = Handler(point)
        try:
            handler(CALLS[call])
        except AppClosedError:
            assert "close" in (call, answer) or "block" in (call, answer) or "first" in (call, answer)
        if handler.where is None:
            break
        point += step
    app.start()
    assert len(set(sent)) == len(sent)
    assert all(app.get(job) for job in sent)
    app.close()
"""
HERE = Path(__file__)


@pytest.mark.parametrize("answer", ["send", "close"])
@pytest.mark.parametrize("call", ["send", "first", "drain", "block"])
@pytest.mark.parametrize("step", [pytest.param(3, marks=pytest.mark.slow), 13])
def test_a_handler_may_call_the_app_wherever_it_strikes(tmp_path, call, answer, step):
    program = "\n".join(line.removeprefix("    ") for line in PROGRAM.splitlines())
    command = [sys.executable, "-c", program, str(tmp_path / "jobs.db"), call, answer, str(step)]
    done = subprocess.run(command, cwd=HERE.parents[2], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, ""), f"at {done.stdout[-200:]}"
