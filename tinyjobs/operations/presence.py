"""What the workers that a store has seen say about its health: who is there, who went silent, which jobs nobody serves.

Pure: it is given what the store answered. All instants are by the clock that decides in the store.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from tinyjobs.core.job import Stats
from tinyjobs.core.sentences import Sentence, say
from tinyjobs.core.watching import SILENT_AFTER, Finding, WorkerSeen

#: A scheduler makes a pass every half minute at least. For so long its passes may be late, or a firing.
LATE_AFTER = 60.0
#: For so long after it went silent a worker fails the check, whoever else serves its queues: somebody has to look at
#: one that hangs or is suspended, and a warning is not seen by a probe.
FAILING_FOR = 300.0
#: How many names a message holds.
_NAMED = 5


@dataclass(slots=True)
class Presence:
    """The workers of one store, at the instant of its figures."""

    stats: Stats
    workers: Sequence[WorkerSeen]
    silent: list[WorkerSeen] = field(init=False)
    #: Those that are there and take jobs.
    serving: list[WorkerSeen] = field(init=False)

    def __post_init__(self) -> None:
        self.silent = [worker for worker in self.workers if self.silence(worker) > SILENT_AFTER]
        self.serving = [
            worker for worker in self.workers if self.silence(worker) <= SILENT_AFTER and _takes_jobs(worker)
        ]

    def silence(self, worker: WorkerSeen) -> float:
        """For how many seconds it has not been seen."""
        return max(self.stats.now - worker.seen_at, 0.0)

    def serves(self, queue: str) -> bool:
        """Whether somebody takes jobs of that queue."""
        return any(not worker.queues or queue in worker.queues for worker in self.serving)

    def findings(self, *, has_schedules: bool) -> Iterator[Finding]:
        """What there is to say of them."""
        yield self._workers()
        if self.silent:
            yield self._silent()
        if has_schedules:
            yield self._scheduler()

    def _workers(self) -> Finding:
        """Whether every queue with due jobs is served. A worker that is just being replaced has half a minute."""
        unserved = {
            queue.name: max(self.stats.now - queue.oldest_due, 0.0)
            for queue in self.stats.queues
            if queue.oldest_due is not None and not self.serves(queue.name)
        }
        if not unserved and self.serving:
            count = len(self.serving)
            there = say("1 worker is there.") if count == 1 else say("%(count)s workers are there.", count=count)
            return Finding(name="workers", ok=True, message=there)
        longest = max(unserved.values(), default=0.0)
        has_waited = longest > SILENT_AFTER
        if not unserved:
            message = say("No worker is there; no job waits for one.")
        elif not self.serving:
            message = say(
                "No worker is there, and jobs have been due for %(seconds)s s in %(queues)s.",
                seconds=f"{longest:.0f}",
                queues=named(unserved),
            )
        else:
            message = say(
                "Jobs have been due for %(seconds)s s in %(queues)s, which no worker that is there serves.",
                seconds=f"{longest:.0f}",
                queues=named(unserved),
            )
        return Finding(
            name="workers",
            ok=not has_waited,
            is_warning=not has_waited,
            message=message,
            remedy=say("Start a worker that serves these queues.") if unserved else say("Start a worker."),
        )

    def _silent(self) -> Finding:
        unreplaced = [worker for worker in self.silent if not self._is_replaced(worker)]
        recent = [worker for worker in self.silent if self.silence(worker) <= SILENT_AFTER + FAILING_FOR]
        shown = unreplaced or recent or self.silent
        names = named([f"{worker.worker_id} ({self.silence(worker):.0f} s)" for worker in shown])
        if len(shown) == 1:
            message = say("1 worker has not been heard of: %(workers)s", workers=names)
        else:
            message = say("%(count)s workers have not been heard of: %(workers)s", count=len(shown), workers=names)
        if unreplaced:
            rest = say("and no other one serves their queues")
        elif recent:
            minutes = f"{FAILING_FOR / 60:.0f}"
            rest = say(
                "others serve their queues, so this fails only for the first %(minutes)s minutes", minutes=minutes
            )
        else:
            rest = say("others serve their queues")
        fails = bool(unreplaced or recent)
        return Finding(
            name="silent_workers",
            ok=not fails,
            is_warning=not fails,
            message=say("%(message)s; %(rest)s.", message=message, rest=rest),
            remedy=say(
                "It was killed, or it hangs, is suspended or cannot reach the store. Look at its process and its "
                "log, and start another one. One that is gone is forgotten an hour after it was last seen."
            ),
        )

    def _is_replaced(self, worker: WorkerSeen) -> bool:
        if not _takes_jobs(worker):
            return True  # it had stopped taking jobs, or only fired schedules, which are looked at by themselves
        known = worker.queues or tuple(queue.name for queue in self.stats.queues)
        return bool(self.serving) and all(map(self.serves, known))

    def _scheduler(self) -> Finding:
        passes = [worker.scheduled_at for worker in self.workers if worker.scheduled_at is not None]
        ago = self.stats.now - max(passes) if passes else None
        ok = ago is not None and ago <= LATE_AFTER
        if ago is None:
            message = say("There are schedules, and nobody here fires them.")
        else:
            message = say("Schedules were last looked after %(seconds)s s ago.", seconds=f"{max(ago, 0.0):.0f}")
        return Finding(
            name="scheduler",
            ok=ok,
            message=message,
            remedy=""
            if ok
            else say(
                "Start a worker without --no-scheduler, or the command `scheduler`; if one runs, look at its log."
            ),
        )


def named(names: Collection[str]) -> Sentence:
    """The first names, and how many more there are."""
    shown = ", ".join(sorted(names)[:_NAMED])
    more = len(names) - _NAMED
    return say("%(names)s and %(count)s more", names=shown, count=more) if more > 0 else Sentence(shown)


def _takes_jobs(worker: WorkerSeen) -> bool:
    return (worker.threads or worker.coroutines) > 0 and not worker.is_stopping
