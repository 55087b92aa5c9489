"""What tests are written with: the contract of a store, a clock that stands still, and the Django side's own tools.

The author of a store binds the contract suite to it and gets every invariant the engine relies on, raced by several
clients, as ordinary unittest cases:

    import unittest
    from tinyjobs.testing import BackendContract

    class MyStoreTests(BackendContract, unittest.IsolatedAsyncioTestCase):
        async def make_backend(self, clock):
            return MyStore("my://test", clock=clock)        # empty, and nobody else's, for every test

        async def another_client(self, backend, clock):
            return MyStore("my://test", clock=clock)        # its own connections to the same jobs

    class MyStoreThroughItsSyncFace(MyStoreTests):
        through_sync_face = True                            # every verb by `store.inline()`, in threads

A store whose clients cannot share it, such as one in this process's memory, sets `independent_clients = False` instead
of writing `another_client`, and races one client against itself. Tests of a capability that the store does not declare
are skipped and say which; a store without a synchronous client needs no second class. The suite calls `setup()` and
`close()` itself and moves time by a `FrozenClock`, so a store must read the clock it is given.

What is handed on from the Django side (`drain`, `eager`, `assert_enqueued`, `ImmediateBackend`, …) is imported when it
is asked for; without Django in the process the rest works all the same.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinyjobs.core.clock import FrozenClock as FrozenClock
    from tinyjobs.testing.contract import BackendContract as BackendContract

_OWNERS = {
    "BackendContract": "tinyjobs.testing.contract",
    "FrozenClock": "tinyjobs.core.clock",
    # A floor above this one, so these are known by their path alone.
    "DummyBackend": "tinyjobs.taskbackend.testing",
    "ImmediateBackend": "tinyjobs.taskbackend.testing",
    "adrain": "tinyjobs.taskbackend.testing",
    "assert_enqueued": "tinyjobs.taskbackend.testing",
    "assert_not_enqueued": "tinyjobs.taskbackend.testing",
    "drain": "tinyjobs.taskbackend.testing",
    "eager": "tinyjobs.taskbackend.testing",
    "enqueued_jobs": "tinyjobs.taskbackend.testing",
}

__all__ = sorted(_OWNERS)  # noqa: PLE0605 - the table is the one place that names them


def __getattr__(name: str) -> Any:
    if name not in _OWNERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    owner = _OWNERS[name]
    try:
        value = getattr(import_module(owner), name)
    except AttributeError as error:
        # `from … import …` would take an AttributeError for "no such name" and hide what really broke.
        raise ImportError(f"{__name__}.{name} is not usable, importing {owner} failed: {error}", name=owner) from error
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
