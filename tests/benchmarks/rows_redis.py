"""What is measured on Redis, against what, and the bars.

A drain's row gives all programs as many slots; the quickest peers stand in it a second time with the number that is
their own default. A peer runs coroutines or threads as it can; one that has only one kind is held against that one.
"""

from dataclasses import replace

from tests.benchmarks.plan import DJANGO, FACADE, NO_LOSS, Other, Rival, Row, Subject, Work, against

VTASKS = Subject("django-vtasks", "peer_vtasks_valkey.py", "django-vtasks-valkey", scale=0.5)
DRAMATIQ = Subject("dramatiq", "peer_dramatiq.py", "dramatiq", scale=0.5)
TASKIQ = Subject("taskiq-redis, list (no acknowledgement)", "peer_taskiq.py", "taskiq", scale=0.5)
TASKIQ_STREAM = Subject("taskiq-redis, stream", "peer_taskiq.py", "taskiq", "stream", scale=0.5)
HUEY = Subject("huey (no acknowledgement)", "peer_huey_redis.py", "huey-redis", scale=0.5)
PUBLIC = Subject("tinyjobs 0.7.1", "peer_tinyjobs_071_redis.py", "tinyjobs-0.7.1-redis", scale=0.3)
SAQ = Subject("saq", "peer_saq.py", "saq", scale=0.3)
STREAQ = Subject("streaq", "peer_streaq.py", "streaq", scale=0.2)
ARQ = Subject("arq", "peer_arq.py", "arq", scale=0.05)
ARQ_RESTLESS = Subject("arq, looking every 10 ms", "peer_arq.py", "arq", "restless", scale=0.1)
CELERY = Subject("celery, thread pool", "peer_celery.py", "celery", scale=0.2)
CELERY_PREFORK = Subject("celery, prefork, 1 process", "peer_celery.py", "celery", "prefork", scale=0.2)
RQ = Subject("rq, a fork for each job", "peer_rq.py", "rq", scale=0.02)
RQ_SIMPLE = Subject("rq, SimpleWorker", "peer_rq.py", "rq", "simple", scale=0.05)
TASKS_RQ = Subject("django-tasks-rq, SimpleWorker", "peer_django_tasks_rq.py", "django-tasks-rq", scale=0.05)

BARE = Subject("bare redis-py loop", "bare_redis.py")
FACADE_ASYNC = replace(FACADE, title="tinyjobs, facade, on an event loop", variant="async")

TWICE = 2.0
AHEAD = 1.0
COROUTINES, THREADS = 100, 32


def _default(subject: Subject, slots: int, words: str, bar: float | None = TWICE) -> Other:
    """A peer with the slots that are its own default."""
    return replace(subject, title=f"{subject.title}, {words}"), {"slots": slots}, bar


def _drains() -> list[Row]:
    rows = []
    for workers in (1, 2):
        named = f"{workers} worker{'s' if workers > 1 else ''}"
        work = Work(FACADE, "drain", "coroutine", workers, COROUTINES)
        title = f"Drain, coroutine no-ops, {COROUTINES} slots, {named}"
        quick: tuple[Other, ...] = (
            (VTASKS, {}, TWICE),
            _default(VTASKS, 20, "its default of 20"),
            (TASKIQ, {}, TWICE),
            (TASKIQ_STREAM, {}, TWICE),
            _default(DRAMATIQ, 8, "its default of 8 threads"),
            *([(BARE, {}, None)] if workers == 1 else []),
        )
        rest: tuple[Other, ...] = (
            (PUBLIC, {}, TWICE),
            (DRAMATIQ, {}, TWICE),
            (SAQ, {}, TWICE),
            (STREAQ, {}, TWICE),
            (ARQ, {}, TWICE),
            (ARQ_RESTLESS, {}, TWICE),
        )
        rows.append(Row(f"drain-coroutine-{workers}", title, work, against(work, *quick)))
        rows.append(Row(f"rest-coroutine-{workers}", title, work, against(work, *rest)))
        work = Work(FACADE, "drain", "thread", workers, THREADS)
        title = f"Drain, thread no-ops, {THREADS} threads, {named}"
        quick = (
            (DRAMATIQ, {}, TWICE),
            _default(DRAMATIQ, 8, "its default of 8 threads"),
            (VTASKS, {}, TWICE),
            (TASKIQ, {}, TWICE),
            (HUEY, {}, TWICE),
            _default(HUEY, 1, "its default of 1 thread"),
        )
        rest = (
            (PUBLIC, {}, TWICE),
            (TASKIQ_STREAM, {}, TWICE),
            (SAQ, {}, TWICE),
            (STREAQ, {}, TWICE),
            (CELERY, {}, TWICE),
            (CELERY_PREFORK, {"slots": 1}, TWICE),
            (RQ, {"slots": 1}, TWICE),
            (RQ_SIMPLE, {"slots": 1}, TWICE),
        )
        rows.append(Row(f"drain-thread-{workers}", title, work, against(work, *quick)))
        rows.append(Row(f"rest-thread-{workers}", title, work, against(work, *rest)))
    return rows


def _django_drains() -> list[Row]:
    rows = []
    for workers in (1, 2):
        named = f"{workers} worker{'s' if workers > 1 else ''}"
        work = Work(DJANGO, "drain", "coroutine", workers, COROUTINES)
        rivals = against(work, (FACADE, {}, 0.75), (VTASKS, {}, TWICE))
        title = f"Drain, Django coroutine no-ops, {COROUTINES} slots, {named}"
        rows.append(Row(f"django-coroutine-{workers}", title, work, rivals))
        work = Work(DJANGO, "drain", "thread", workers, THREADS)
        rivals = against(work, (FACADE, {}, 0.75), (VTASKS, {}, TWICE), (TASKS_RQ, {"slots": 1}, TWICE))
        title = f"Drain, Django thread no-ops, {THREADS} threads, {named}"
        rows.append(Row(f"django-thread-{workers}", title, work, rivals))
    return rows


def _filled() -> list[Row]:
    """Delayed jobs stand on fifty priorities, all above those of the due ones."""
    rows = []
    title = "Drain in a filled store, its delayed jobs on higher priorities"
    for subject, kind, slots in (
        (FACADE, "coroutine", COROUTINES),
        (FACADE, "thread", THREADS),
        (DJANGO, "coroutine", COROUTINES),
    ):
        work = Work(subject, "drain", kind, 1, slots, filled=True, priority=1)
        rivals = (Rival(replace(work, filled=False, priority=0), NO_LOSS),)
        which = "facade" if subject is FACADE else "Django"
        rows.append(Row(f"filled-{which.lower()}-{kind}", f"{title}, {which} {kind}s", work, rivals))
    return rows


def _sending() -> list[Row]:
    facade, many = Work(FACADE, "enqueue"), Work(FACADE, "bulk")
    looped, django, django_many = Work(FACADE_ASYNC, "enqueue"), Work(DJANGO, "enqueue"), Work(DJANGO, "bulk")
    thread = {"kind": "thread"}
    return [
        Row(
            "enqueue-facade",
            "Single enqueue by the facade",
            facade,
            against(
                facade,
                (HUEY, thread, NO_LOSS),
                (BARE, {}, None),
                (VTASKS, {}, None),
                (DRAMATIQ, thread, None),
                (PUBLIC, {}, None),
                (CELERY, thread, None),
                (RQ, thread, None),
            ),
        ),
        Row(
            "enqueue-async",
            "Single enqueue by the facade on an event loop",
            looped,
            against(looped, *((peer, {}, None) for peer in (TASKIQ, SAQ, STREAQ, ARQ))),
        ),
        Row(
            "enqueue-django",
            "Single enqueue in Django",
            django,
            against(django, (HUEY, thread, NO_LOSS), (VTASKS, {}, None), (TASKS_RQ, thread, None)),
        ),
        Row(
            "bulk-facade",
            "enqueue_many by the facade",
            many,
            against(
                many,
                (VTASKS, {}, AHEAD),
                (STREAQ, {}, AHEAD),
                (PUBLIC, {}, AHEAD),
                (RQ, thread, AHEAD),
                (BARE, {}, None),
            ),
        ),
        Row("bulk-django", "enqueue_many in Django", django_many, against(django_many, (VTASKS, {}, AHEAD))),
    ]


def _waiting() -> list[Row]:
    rows = []
    for key, shape, figure, title, limit in (
        ("latency", "latency", "p50_ms", "Enqueue to start on an idle worker, p50 ms", 2.0),
        ("latency-p95", "latency", "p95_ms", "Enqueue to start on an idle worker, p95 ms", None),
        ("idle", "idle", "cpu_percent", "An idle worker, % of a core", None),
        ("commands", "idle", "statements_per_second", "An idle worker's commands a second", 1.0),
        ("lateness", "lateness", "max_ms", "A delayed job's lateness, worst ms", 100.0),
    ):
        work = Work(FACADE, shape)
        thread = {"kind": "thread"}
        others: tuple[Other, ...] = ((HUEY, {**thread, "slots": 1}, None), (PUBLIC, {}, None), (DRAMATIQ, thread, None))
        others += () if shape == "lateness" else ((TASKIQ, {}, None),)
        rows.append(Row(f"{key}-facade", f"{title}, facade", work, against(work, *others), figure, limit, True))
        work = Work(DJANGO, shape)
        rivals = against(work, (VTASKS, {}, None))
        rows.append(Row(f"{key}-django", f"{title}, Django", work, rivals, figure, limit, True))
    return rows


def _pressure() -> list[Row]:
    """The longest that one script holds the server up, with a long queue and as long a list of jobs due at once."""
    work = Work(FACADE, "pressure", "coroutine", 1, COROUTINES)
    told = "A long queue, and many delayed jobs due at one moment"
    return [
        Row("pressure-slowest", f"{told}: the slowest script, ms", work, (), "slowest_ms", None, True),
        Row("pressure-ping", f"{told}: another client's slowest PING, ms", work, (), "ping_max_ms", None, True),
        Row("pressure-rate", f"{told}: jobs a second", work, (), "rate", None, True),
    ]


def rows() -> list[Row]:
    """Every row, in the order of the table."""
    return [*_drains(), *_django_drains(), *_filled(), *_sending(), *_waiting(), *_pressure()]
