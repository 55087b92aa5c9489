"""How many jobs a worker may claim now: as many as it has free slots for, and no more than it can answer for.

Pure arithmetic over what the executors and the recorder say of themselves.
"""

from tinyjobs.core.job import Room
from tinyjobs.core.task import Catalogue


def capacity(
    catalogue: Catalogue, *, coroutines: int, threads: int, unconfirmed: int, slots: int
) -> tuple[int, Room | None]:
    """The most jobs a claim may bring, and the room it must keep to for the kind of task with fewer free slots.

    `coroutines` and `threads` are the free ones; `unconfirmed` outcomes wait for a later write than the one that
    claims. They count against all `slots`, so a worker that is killed leaves at most twice its slots to be run again.
    """
    limit, room = _free(catalogue, max(coroutines, 0), max(threads, 0))
    return max(min(limit, slots - unconfirmed), 0), room


def _free(catalogue: Catalogue, coroutines: int, threads: int) -> tuple[int, Room | None]:
    thread_names = catalogue.thread_names()
    if not thread_names:
        return coroutines, None
    coroutine_names = frozenset(catalogue.names()) - thread_names
    if not coroutine_names:
        return threads, None
    if coroutines >= threads:
        return coroutines, Room(thread_names, threads)
    return threads, Room(coroutine_names, coroutines)
