"""Run a coroutine that never suspends, to its end, in one call.

A SQL verb is written once, as a coroutine over a small connection interface. Behind every connection but an
asynchronous driver's the awaits return at once, so the verb needs no event loop: it is an ordinary call in disguise.
"""

from collections.abc import Coroutine
from typing import Any


def finish[T](coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what the coroutine returns, or raise what it raises. One that suspends is a programming error."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    coroutine.close()
    raise RuntimeError("A coroutine that must run inline tried to wait; its connection is not a synchronous one.")
