"""Counters of one process and gauges of its store, in the text format that Prometheus reads. Needs no package for it.

A collector is told of each attempt by whoever runs jobs: a worker, a drain, an eager call. It never asks a store; who
renders hands in the store's figures. It must not know how it is served.

However many names of tasks and queues there are, each family has `MOST_NAMES` of them at most, and one more, `other`,
for the rest: a name that a program makes up as it goes must not fill the memory of whoever keeps the figures.
"""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from math import inf
from typing import Final

from tinyjobs.app.forking import renew_in_children
from tinyjobs.core.errors import JobExpired
from tinyjobs.core.job import Job, QueueStats, Stats
from tinyjobs.core.retention import FINAL_STATUSES
from tinyjobs.version import __version__

#: So many names of tasks, and so many of queues, have figures of their own.
MOST_NAMES: Final = 200
#: Where the figures of all further names are added up.
OTHER: Final = "other"
#: The upper bounds of the histogram's buckets, in seconds.
BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0)
#: What `render` writes, as an HTTP header says it.
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

type _Labels = Mapping[str, str]
type _Sample = tuple[str, _Labels, float]

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


class Metrics:
    """What one process counted of its jobs. Safe to share between threads; a call costs about a microsecond."""

    def __init__(self) -> None:
        # A signal handler may run jobs on a thread that holds it: it then has to be the thread's own still.
        self._lock = threading.RLock()
        self._tasks: dict[str, str] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._durations: dict[str, _Histogram] = {}
        # By job and claim, so that an end without a start, or a second one, changes nothing.
        self._running: dict[tuple[str, int], str] = {}
        renew_in_children(self, Metrics._begin_anew)

    def _begin_anew(self) -> None:
        """In a forked child: the counts are the parent's, and a thread that it has not got may have the lock."""
        self._lock = threading.RLock()
        self._tasks, self._counts, self._durations, self._running = {}, {}, {}, {}

    # --- what happens to jobs -----------------------------------------------------------------------------------

    def began(self, job: Job) -> None:
        """An attempt begins."""
        self._running[job.id, job.claims] = job.task

    def ended(self, job: Job) -> None:
        """An attempt has come to an end of whatever kind, also one that is not recorded."""
        self._running.pop((job.id, job.claims), None)

    def succeeded(self, job: Job, seconds: float) -> None:
        """A success is recorded; the function ran for so many seconds."""
        with self._lock:
            task = self._count(job.task, "success")
            histogram = self._durations.get(task)
            if histogram is None:
                histogram = self._durations[task] = _Histogram()
            histogram.add(seconds)

    def failed(self, job: Job, error: BaseException, will_retry: bool) -> None:
        """A failed attempt is recorded, or the end of a job that expired before it could run."""
        outcome = "expired" if isinstance(error, JobExpired) else "retry" if will_retry else "failure"
        with self._lock:
            self._count(job.task, outcome)

    def _count(self, name: str, outcome: str) -> str:
        task = self._label(name)
        self._counts[task, outcome] = self._counts.get((task, outcome), 0) + 1
        return task

    def _label(self, name: str) -> str:
        """The task's own name, for the first ones that come; a counter must not change its label later."""
        known = self._tasks.get(name)
        if known is None:
            if len(self._tasks) >= MOST_NAMES:
                return OTHER
            known = self._tasks[name] = name
        return known

    # --- telling of it ------------------------------------------------------------------------------------------

    def render(self, stats: Stats | None = None, *, asked: bool = False) -> str:
        """Everything as text. With `stats`, also the store's gauges; `asked` and none: the store did not answer."""
        families = [_family("tinyjobs_info", "gauge", "The release.", [("", {"version": __version__}, 1)])]
        families += self._own()
        if stats is not None or asked:
            told: list[_Sample] = [("", {}, 0 if stats is None else 1)]
            families.append(_family("tinyjobs_store_up", "gauge", "Whether the store answered for this scrape.", told))
        if stats is not None:
            families += _of_store(stats)
        return "".join(families)

    def _own(self) -> list[str]:
        running = list(self._running.values())
        with self._lock:
            active = Counter(self._label(task) for task in running)
            counts = sorted(self._counts.items())
            durations = [(task, self._durations[task].samples(task)) for task in sorted(self._durations)]
            tasks = sorted({*self._tasks, *active})
        return [
            _family(
                "tinyjobs_jobs_total",
                "counter",
                "Attempts of jobs that this process recorded, by how they ended.",
                [("", {"task": task, "outcome": outcome}, count) for (task, outcome), count in counts],
            ),
            _family(
                "tinyjobs_job_duration_seconds",
                "histogram",
                "How long successful attempts ran.",
                [sample for _, samples in durations for sample in samples],
            ),
            _family(
                "tinyjobs_jobs_running",
                "gauge",
                "Attempts under way in this process.",
                [("", {"task": task}, active[task]) for task in tasks],
            ),
        ]


class _Histogram:
    """Durations of one task."""

    __slots__ = ("_counts", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(BUCKETS, seconds)] += 1
        self._sum += seconds

    def samples(self, task: str) -> list[_Sample]:
        found: list[_Sample] = []
        total = 0
        for bound, count in zip((*BUCKETS, inf), self._counts, strict=True):
            total += count
            found.append(("_bucket", {"task": task, "le": "+Inf" if bound == inf else f"{bound:g}"}, total))
        return [*found, ("_sum", {"task": task}, self._sum), ("_count", {"task": task}, total)]


def _of_store(stats: Stats) -> list[str]:
    names = _bounded(queue.name for queue in stats.queues)
    return [
        _family(
            "tinyjobs_store_jobs",
            "gauge",
            "Jobs in the store that have not ended.",
            _summed(
                ({"queue": names[queue.name], "status": status}, count)
                for queue in stats.queues
                for status, count in _by_status(queue).items()
            ),
        ),
        _family(
            "tinyjobs_store_due_jobs",
            "gauge",
            "Jobs that a worker could take now, or that a limit holds back.",
            _summed(({"queue": names[queue.name]}, queue.ready + queue.held) for queue in stats.queues),
        ),
        _family(
            "tinyjobs_store_ended_jobs",
            "gauge",
            "Jobs in the store that have ended.",
            [("", {"status": status.value}, stats.by_status.get(status.value, 0)) for status in FINAL_STATUSES],
        ),
        _family(
            "tinyjobs_store_queued_jobs",
            "gauge",
            "Jobs in the store that have not begun.",
            _summed(_by_task(stats.queued_by_task)),
        ),
        _family(
            "tinyjobs_store_oldest_due_seconds",
            "gauge",
            "How long the oldest due job of a queue has waited. The number to scale workers on.",
            _largest(({"queue": names[queue.name]}, _wait(queue, stats.now)) for queue in stats.queues),
        ),
        _family(
            "tinyjobs_store_expired_leases",
            "gauge",
            "Running jobs whose worker no longer answers.",
            [("", {}, stats.expired_leases)],
        ),
    ]


def _by_status(queue: QueueStats) -> dict[str, int]:
    return {
        "queued": queue.ready + queue.delayed,
        "running": queue.running,
        "held": queue.held,
        "waiting": queue.waiting,
    }


def _by_task(queued: Mapping[str, int]) -> Iterable[tuple[_Labels, float]]:
    names = _bounded(queued)
    return (({"task": names[task]}, count) for task, count in queued.items())


def _wait(queue: QueueStats, now: float) -> float:
    return 0.0 if queue.oldest_due is None else max(now - queue.oldest_due, 0.0)


def _bounded(names: Iterable[str]) -> dict[str, str]:
    """A label for each name: its own for the first in the alphabet, so that every process picks the same ones."""
    ordered = sorted(set(names))
    return {name: name if place < MOST_NAMES else OTHER for place, name in enumerate(ordered)}


def _summed(samples: Iterable[tuple[_Labels, float]]) -> list[_Sample]:
    found: dict[tuple[tuple[str, str], ...], float] = {}
    for labels, value in samples:
        key = tuple(labels.items())
        found[key] = found.get(key, 0) + value
    return [("", dict(key), value) for key, value in found.items()]


def _largest(samples: Iterable[tuple[_Labels, float]]) -> list[_Sample]:
    found: dict[tuple[tuple[str, str], ...], float] = {}
    for labels, value in samples:
        key = tuple(labels.items())
        found[key] = max(found.get(key, value), value)
    return [("", dict(key), value) for key, value in found.items()]


def _family(name: str, kind: str, help: str, samples: Iterable[_Sample]) -> str:
    lines = [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{suffix}{_written(labels)} {_number(value)}" for suffix, labels, value in samples]
    return "\n".join(lines) + "\n"


def _written(labels: _Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    # Half a surrogate pair is no text that could be sent.
    return value.encode("utf-8", "replace").decode().translate(_ESCAPES)


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))
