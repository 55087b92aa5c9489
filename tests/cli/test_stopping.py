"""Two signals in a row: the second may interrupt the answer to the first, wherever that is."""

import subprocess
import sys

import pytest

# In a process of its own, which a lock that is waited for by its own holder would keep for ever. The second signal
# comes at the first line of the first one's answer, then at the second, and so on to the end.
PROGRAM = """
import os, signal, sys
from tinyjobs.cli.stopping import StopRequest, stop_by_signals

class Worker:
    def stop(self):
        self.is_stopped = True
    def force(self, answered):
        self.is_forced = True
        answered.set()

def press_twice(at):
    request, worker, lines = StopRequest(), Worker(), 0
    def trace(frame, event, argument):
        nonlocal lines
        if event == "line":
            if lines == at:
                sys.settrace(None)
                os.kill(os.getpid(), signal.SIGTERM)
            lines += 1
        return trace
    with stop_by_signals(request, owns_process=False):
        request.attach(worker)
        sys.settrace(trace)
        os.kill(os.getpid(), signal.SIGINT)
        sys.settrace(None)
        assert request.wait(10) and request.wait(10), "nobody was told"
        assert worker.is_stopped
        assert lines <= at or worker.is_forced
    return lines

place = 0
while press_twice(place) > place:
    place += 1
print(place)
"""


def test_a_second_signal_at_any_line_of_the_answer_to_the_first():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5


# The signal comes while the one who is to be told waits, at the first line of the wait, then at the second, and so on
# to its end; the lines of the standard library count as well.
WAITING = """
import faulthandler, os, signal, sys
from tinyjobs.cli import reload
from tinyjobs.cli.stopping import StopRequest, stop_by_signals

faulthandler.dump_traceback_later(30, exit=True)
reload._SECONDS_BETWEEN_LOOKS = 0.01

class Strike:
    def __init__(self, at):
        self.at, self.lines = at, 0
    def __call__(self, frame, event, argument):
        if event == "line":
            if self.lines == self.at:
                sys.settrace(None)
                os.kill(os.getpid(), signal.SIGTERM)
            self.lines += 1
        return self

def wait_for_a_request(strike):
    request = StopRequest()
    with stop_by_signals(request, owns_process=False):
        sys.settrace(strike)
        request.wait(0.01)
        sys.settrace(None)
        assert request.is_asked == (strike.lines > strike.at)

class Looks:
    # What the parent of a program that cannot start looks at between two waits.
    def __init__(self, strike):
        self.strike, self.count = strike, 0
    def changed(self):
        sys.settrace(None)
        self.count += 1
        if self.count == 1:
            sys.settrace(self.strike)
        elif self.strike.lines <= self.strike.at:
            os.kill(os.getpid(), signal.SIGTERM)

class Quiet:
    def say(self, text): ...
    warn = say

def wait_for_a_change(strike):
    parent = reload._Parent(Quiet(), [])
    parent._watch = Looks(strike)
    parent._run_child = lambda: 1
    parent.run()

place = 0
while True:
    strike = Strike(place)
    {"request": wait_for_a_request, "reload": wait_for_a_change}[sys.argv[1]](strike)
    if strike.lines <= place:
        break
    place += 1
print(place)
"""


@pytest.mark.parametrize("what", ["request", "reload"])
def test_a_signal_at_any_line_of_the_wait_for_it(what):
    done = subprocess.run([sys.executable, "-c", WAITING, what], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 3
