"""Two signals in a row: the second may interrupt the answer to the first, wherever that is."""

import subprocess
import sys

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
