"""What a forked child must not take over from its parent: locks that a thread it has not got may hold, and connections.

Knows nothing of what is renewed.
"""

import os
import weakref
from collections.abc import Callable
from typing import Any

_known: weakref.WeakKeyDictionary[object, Callable[[Any], None]] = weakref.WeakKeyDictionary()


def renew_in_children[T](owner: T, renew: Callable[[T], None]) -> None:
    """In every child that this process forks from now on, call `renew(owner)` before anything else.

    It makes new locks, and lets go of what belongs to the parent without touching it.
    """
    _known[owner] = renew


def _renew() -> None:
    for owner, renew in list(_known.items()):
        renew(owner)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
