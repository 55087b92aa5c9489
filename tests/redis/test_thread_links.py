"""What only threads meet: several that call at once in a forked child, and an answer behind a command cut short."""

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tests.redis.links import make_source
from tinyjobs.backends.redis import threadlink
from tinyjobs.backends.redis.threadlink import ThreadLink
from tinyjobs.core.errors import DataRefusedError, StoreError, StoreUnavailableError
from tinyjobs.core.inline import finish

pytestmark = pytest.mark.redis
PATIENCE = 10.0


def in_a_thread(call: Any) -> None:
    """Run it to its end in a thread; one that waits for ever is left behind."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(PATIENCE)


def stopped_at(number: int, name: str, then: Any) -> Any:
    """A trace function that calls `then` before the line of that number which a function of the name comes to."""
    left = [number]

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_name != name:
            return trace if event == "call" else None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                then()
        return trace

    return trace


def test_threads_of_a_forked_child_that_call_at_once_leave_what_is_the_parents_alone(redis_url, monkeypatch):
    """Two, the second at each line of what the first does about the fork. A thread of the parent's held the lock."""
    process = [1]
    monkeypatch.setattr(threadlink, "os", SimpleNamespace(getpid=lambda: process[0]))
    line = 0
    was_reached = True
    while was_reached:
        line += 1
        was_reached = False
        link = ThreadLink(make_source(redis_url))
        of_parent = finish(link.command("CLIENT", "ID"))
        link._lock.acquire()
        process[0] += 1
        seen: list[Any] = []

        def call(link: ThreadLink = link, seen: list[Any] = seen) -> None:
            seen.append(finish(link.command("CLIENT", "ID")))

        def second() -> None:
            nonlocal was_reached
            was_reached = True
            in_a_thread(call)

        def first(second: Any = second, line: int = line) -> None:
            sys.settrace(stopped_at(line, "_begin", second))
            try:
                call()
            finally:
                sys.settrace(None)

        in_a_thread(first)
        assert len(seen) == 1 + was_reached, f"a call hangs, the other came at line {line}"
        assert of_parent not in seen, f"a connection of the parent's was used, the other came at line {line}"
        finish(link.close())
    assert line > 4


@pytest.mark.parametrize("size", [1 << 21, 1 << 24, 1 << 26])
def test_why_a_server_hung_up_on_a_command_is_told(own_redis, size):
    """It answers and ends the connection while the rest of what is too large for it is still on its way.

    Once in a thousand times the kernel throws the answer away.
    """
    own_redis.execute("CONFIG SET", "proto-max-bulk-len", str(1 << 20))
    link = ThreadLink(make_source(own_redis.url()))
    told: list[StoreError] = []
    for _ in range(4):
        with pytest.raises((DataRefusedError, StoreUnavailableError)) as refused:
            finish(link.command("SET", "a", "x" * size))
        told.append(refused.value)
        assert finish(link.command("PING")) == b"PONG"
    finish(link.close())
    assert sum("proto-max-bulk-len" in str(error) for error in told if isinstance(error, DataRefusedError)) > 2, told
