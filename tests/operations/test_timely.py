"""Looks that end in time."""

import os
import threading

import pytest

from tinyjobs.core.clock import FrozenClock
from tinyjobs.operations.timely import GIVEN_UP_AFTER, begin, timely

PATIENCE = 60.0


def test_the_answer():
    assert timely("answer", lambda: 7, PATIENCE) == 7


def test_what_the_look_raises_is_raised():
    with pytest.raises(ZeroDivisionError):
        timely("raises", lambda: 1 / 0, PATIENCE)


def test_it_runs_on_a_thread_of_its_own():
    assert timely("thread", threading.current_thread, PATIENCE) is not threading.current_thread()


def test_a_look_that_hangs_is_left_behind_and_is_the_only_one():
    over, looks = threading.Event(), threading.Semaphore(0)

    def look():
        looks.release()
        over.wait(PATIENCE)
        return "late"

    for _ in range(3):
        with pytest.raises(TimeoutError):
            timely("hangs", look, 0.1)
    assert looks.acquire(timeout=PATIENCE)
    # Another kind is not held up by it.
    assert timely("another", lambda: 1, PATIENCE) == 1
    assert not looks.acquire(blocking=False)
    over.set()
    assert timely("hangs", lambda: "new", PATIENCE) in ("late", "new")


def test_a_look_that_never_ends_is_given_up_later_and_later():
    """Of a connection whose other end has gone without a word a driver may wait for hours."""
    over, looks, clock = threading.Event(), [], FrozenClock()

    def looks_after(seconds):
        clock.advance(seconds)
        look = begin("lost", lambda: over.wait(PATIENCE), clock)
        with pytest.raises(TimeoutError):
            look.answer(0.01)
        if look not in looks:
            looks.append(look)
        return len(looks)

    assert [looks_after(seconds) for seconds in (0, GIVEN_UP_AFTER, 1)] == [1, 1, 2]
    assert [looks_after(seconds) for seconds in (2 * GIVEN_UP_AFTER, 1)] == [2, 3]
    clock.advance(4 * GIVEN_UP_AFTER + 1)
    assert timely("lost", lambda: "there again", PATIENCE, clock) == "there again"
    # Those left behind change nothing when they end.
    over.set()
    assert timely("lost", lambda: "still there", PATIENCE, clock) == "still there"


def test_whoever_asks_meanwhile_gets_the_same_answer():
    begun, may_end = threading.Event(), threading.Event()

    def look():
        begun.set()
        may_end.wait(PATIENCE)
        return "first"

    answers = []
    first = threading.Thread(target=lambda: answers.append(timely("shared", look, PATIENCE)))
    first.start()
    assert begun.wait(PATIENCE)
    # It would be begun at once if it were a look of its own.
    with pytest.raises(TimeoutError):
        timely("shared", lambda: "second", 0.1)
    may_end.set()
    first.join(PATIENCE)
    assert answers == ["first"]


def test_the_next_look_is_a_new_one():
    assert [timely("next", lambda answer=answer: answer, PATIENCE) for answer in (1, 2)] == [1, 2]


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_does_not_wait_for_the_look_of_its_parent():
    over = threading.Event()
    with pytest.raises(TimeoutError):
        timely("forked", lambda: over.wait(PATIENCE), 0.05)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if timely("forked", lambda: "mine", PATIENCE) == "mine" else 2
        finally:
            os._exit(status)
    over.set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_without_a_thread_it_is_done_here(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert timely("here", threading.current_thread, PATIENCE) is threading.current_thread()
