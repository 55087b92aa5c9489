"""What a socket tells without being asked. Knows no driver."""

import os
import select
import socket
from collections.abc import Callable
from contextlib import suppress


def is_readable(descriptor: int) -> bool:
    """Whether something has arrived there, be it only the end of the connection. Takes no time."""
    return watch(descriptor)()


def watch(descriptor: int) -> Callable[[], bool]:
    """What tells the same of that descriptor again and again, for as long as it is open."""
    if not hasattr(select, "poll"):
        return lambda: bool(select.select([descriptor], [], [], 0)[0])
    # A process with many files open has descriptors too large for `select`.
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return lambda: bool(poll.poll(0))


def cut_off(descriptor: int) -> None:
    """End the connection under whoever uses it, who then meets its end. The descriptor stays open."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as twin:
        twin.shutdown(socket.SHUT_RDWR)
