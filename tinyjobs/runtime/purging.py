"""A purge by hand: by the retention or by an age, at once, in batches that others can write between."""

import threading
from collections.abc import Awaitable, Callable, Mapping

from tinyjobs.backends.base import Backend
from tinyjobs.core.retention import FINAL_STATUSES, Purged, Sweep
from tinyjobs.core.status import JobStatus

type Rest = Callable[[float], Awaitable[object]]
type Progress = Callable[[Sweep], object]

# The longest rest after one write, in seconds.
_LONGEST_REST = 0.25


async def block(seconds: float) -> None:
    """The rest of a purge in a thread of its own, where nothing may suspend."""
    threading.Event().wait(seconds)


async def purge(
    store: Backend,
    rules: Mapping[JobStatus, float],
    *,
    rest: Rest,
    progress: Progress | None = None,
    is_dry_run: bool = False,
) -> Purged:
    """Delete all that the rules allow; `progress` is told after every batch. What was done stays if it is cut short."""
    if is_dry_run:
        deleted = {status: await store.purgeable(status, age) for status, age in rules.items()}
        counts = await store.counts_by_status()
        kept = {status: counts.get(status.value, 0) - deleted.get(status, 0) for status in FINAL_STATUSES}
        return Purged(rules=dict(rules), deleted=deleted, kept=kept, is_dry_run=True)
    sweep = Sweep(rules)
    while (status := sweep.status) is not None:
        began = store.clock.monotonic()
        sweep.took(await store.purge(status, rules[status], sweep.batch))
        if progress is not None:
            progress(sweep)
        await rest(min(store.clock.monotonic() - began, _LONGEST_REST))
    counts = await store.counts_by_status()
    kept = {status: counts.get(status.value, 0) for status in FINAL_STATUSES}
    return Purged(rules=dict(rules), deleted=dict(sweep.deleted), kept=kept)
