"""A Ctrl-C while a command does what no handler of its own looks after, as importing what it was told of."""

import signal
import sys

import pytest

from tests.cli.processes import Program
from tinyjobs import TinyJobs
from tinyjobs.cli.target import AppTarget

SLOW = """\
import time

print("importing", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("command", [["jobs", "list"], ["check"]], ids=" ".join)
def test_it_ends_by_the_signal_and_without_a_traceback(tmp_path, command):
    """So that a shell which runs several such commands ends as well."""
    tmp_path.joinpath("slow.py").write_text(SLOW)
    with Program([sys.executable, "-m", "tinyjobs", *command, "--app", "slow:app"], tmp_path) as program:
        program.wait_for("importing")
        program.signal(signal.SIGINT)
        assert program.process.wait(60) == -signal.SIGINT
    assert program.output == "importing"


def test_a_check_that_is_interrupted_waits_no_longer_for_its_answer(monkeypatch):
    """To close the app would be to wait for the call under way, for seconds where the server says nothing."""

    def interrupted(**_):
        raise KeyboardInterrupt

    closed = []
    with TinyJobs("memory://") as app:
        target = AppTarget("shop:app", app)
        with monkeypatch.context() as patched:
            patched.setattr(app, "check", interrupted)
            patched.setattr(app, "close", lambda: closed.append(app))
            with pytest.raises(KeyboardInterrupt):
                target.check(max_wait=None, store_warnings=False)
            target.close()
    assert not closed
