"""What is measured on Postgres, against what, and the bars.

All programs of a row have as many slots. pgqueuer, the fastest, is shown twice: bounded to the slots like everyone else
(that is the bar), and unbounded (that is told).
"""

from dataclasses import replace

from tests.benchmarks.plan import DJANGO, FACADE, NO_LOSS, Other, Rival, Row, Subject, Work, against

PGQUEUER = Subject("pgqueuer", "peer_pgqueuer.py", "pgqueuer")
PGQUEUER_UNBOUNDED = Subject("pgqueuer, tasks not bounded", "peer_pgqueuer.py", "pgqueuer", "unbounded")
PGQUEUER_UNLOGGED = Subject(
    "pgqueuer, tasks not bounded, log not durable", "peer_pgqueuer.py", "pgqueuer", "unbounded-unlogged"
)
PROCRASTINATE = Subject("procrastinate", "peer_procrastinate.py", "procrastinate", scale=0.1)
OBAN = Subject("oban", "peer_oban.py", "oban", scale=0.4)
CHANCY = Subject("chancy", "peer_chancy.py", "chancy", scale=0.4)
DJ_QUEUE = Subject("dj-queue", "peer_dj_queue.py", "dj-queue", scale=0.1)
OX = Subject("django-ox", "peer_ox.py", "django-ox", scale=0.1)
VTASKS = Subject("django-vtasks", "peer_vtasks.py", "django-vtasks", scale=0.07)
TASKS_DB = Subject("django-tasks-db", "peer_tasks_db.py", "django-tasks-db", scale=0.05)

BARE_INSERT = Subject("bare INSERT, same table and connection", "bare_insert.py")
DJANGO_ATOMIC = replace(DJANGO, variant="atomic")
BARE_INSERT_ATOMIC = replace(BARE_INSERT, variant="atomic")
DJANGO_SILENT = replace(DJANGO, title="tinyjobs, Django tasks, no wake-ups", variant="silent")

AHEAD = 1.0
# An enqueue may take 1.3 times as long as the statement in it.
NEAR_THE_STATEMENT = 1 / 1.3
# 4 processes of 8 threads.
SENDERS, THREADS = 4, 8


def _drains() -> list[Row]:
    rows = []
    for workers in (1, 2):
        named = f"{workers} worker{'s' if workers > 1 else ''}"
        for slots in (32, 100):
            work = Work(FACADE, "drain", "coroutine", workers, slots)
            rivals = against(
                work,
                (PGQUEUER, {}, AHEAD),
                (PGQUEUER_UNBOUNDED, {}, None),
                *([(PGQUEUER_UNLOGGED, {}, None)] if slots == 100 else []),
                *((peer, {}, AHEAD) for peer in (OBAN, CHANCY, PROCRASTINATE)),
            )
            title = f"Drain, coroutine no-ops, {slots} slots, {named}"
            rows.append(Row(f"drain-coroutine-{slots}-{workers}", title, work, rivals))
        work = Work(FACADE, "drain", "thread", workers, 32)
        peers = (PGQUEUER, OBAN, CHANCY, PROCRASTINATE)
        rivals = against(work, *((peer, {}, AHEAD) for peer in peers), (PGQUEUER_UNBOUNDED, {}, None))
        rows.append(Row(f"drain-thread-32-{workers}", f"Drain, thread no-ops, 32 threads, {named}", work, rivals))
    return rows


def _django_drains() -> list[Row]:
    rows = []
    for workers in (1, 2):
        named = f"{workers} worker{'s' if workers > 1 else ''}"
        work = Work(DJANGO, "drain", "coroutine", workers, 100)
        rivals = against(work, (FACADE, {}, 0.75), (PGQUEUER, {}, AHEAD), (VTASKS, {}, AHEAD))
        title = f"Drain, Django coroutine no-ops, 100 slots, {named}"
        rows.append(Row(f"django-coroutine-{workers}", title, work, rivals))
        work = Work(DJANGO, "drain", "thread", workers, 32)
        native: tuple[Other, ...] = tuple((peer, {}, AHEAD) for peer in (DJ_QUEUE, OX, VTASKS, TASKS_DB))
        title = f"Drain, Django thread no-ops, 32 threads, {named}"
        rows.append(Row(f"django-thread-{workers}", title, work, against(work, (FACADE, {}, 0.75), *native)))
    return rows


def _filled() -> list[Row]:
    """Delayed jobs stand on fifty priorities, all above those of the due ones."""
    rows = []
    title = "Drain in a filled table, its delayed jobs on higher priorities"
    subjects = [(FACADE, "coroutine", 100), (FACADE, "thread", 32), (DJANGO, "coroutine", 100)]
    subjects += [(peer, "coroutine", 100) for peer in (PGQUEUER, PGQUEUER_UNBOUNDED, OBAN, CHANCY, PROCRASTINATE)]
    subjects += [(peer, "thread", 32) for peer in (DJ_QUEUE, OX, VTASKS, TASKS_DB)]
    for subject, kind, slots in subjects:
        own = subject.peer is None
        work = Work(subject, "drain", kind, 1, slots, filled=True, priority=1)
        rivals = (Rival(replace(work, filled=False, priority=0), NO_LOSS if own else None),)
        which = ("facade" if subject is FACADE else "django") if own else "-".join(filter(None, _names(subject)))
        told = f"{title}, {'facade' if subject is FACADE else 'Django'} {kind}s" if own else title
        rows.append(Row(f"filled-{which}-{kind}", told, work, rivals, once=not own))
    return rows


def _names(subject: Subject) -> tuple[str | None, str]:
    return subject.peer, subject.variant


def _sending() -> list[Row]:
    single, atomic = Work(DJANGO, "enqueue"), Work(DJANGO_ATOMIC, "enqueue")
    facade, many = Work(FACADE, "enqueue"), Work(FACADE, "bulk")
    django_many, commits = Work(DJANGO, "bulk"), Work(DJANGO, "commits", workers=SENDERS, slots=THREADS)
    native: tuple[Other, ...] = tuple((peer, {}, AHEAD) for peer in (DJ_QUEUE, OX, VTASKS, TASKS_DB))
    others = (PGQUEUER, OBAN, CHANCY, PROCRASTINATE)
    told: tuple[Other, ...] = tuple((peer, {}, None) for peer in others)
    judged: tuple[Other, ...] = tuple((peer, {}, AHEAD) for peer in others)
    return [
        Row(
            "enqueue-django",
            "Single enqueue in Django, each committed",
            single,
            against(single, (BARE_INSERT, {}, NEAR_THE_STATEMENT), *native, *told),
        ),
        Row(
            "enqueue-django-atomic",
            "Single enqueue in Django, all in one transaction",
            atomic,
            against(atomic, (BARE_INSERT_ATOMIC, {}, NEAR_THE_STATEMENT)),
        ),
        Row("enqueue-facade", "Single enqueue by the facade", facade, against(facade, *told)),
        Row(
            "bulk-django",
            "enqueue_many in Django",
            django_many,
            against(django_many, *judged, *(other for other in native if other[0] is not TASKS_DB)),
        ),
        Row("bulk-facade", "enqueue_many by the facade", many, against(many, *judged)),
        Row(
            "commits",
            "Transactions with an enqueue, 32 at a time, with wake-ups",
            commits,
            against(commits, (DJANGO_SILENT, {}, 0.9)),
        ),
    ]


def _waiting() -> list[Row]:
    rows = []
    for key, shape, figure, title, limit in (
        ("latency", "latency", "p50_ms", "Enqueue to start on an idle worker, p50 ms", 4.0),
        ("latency-p95", "latency", "p95_ms", "Enqueue to start on an idle worker, p95 ms", None),
        ("idle", "idle", "cpu_percent", "An idle worker, % of a core", None),
        ("statements", "idle", "statements_per_second", "An idle worker's statements a second", 1.0),
        ("lateness", "lateness", "max_ms", "A delayed job's lateness, worst ms", 100.0),
    ):
        work = Work(FACADE, shape)
        others: tuple[Other, ...] = tuple((peer, {}, None) for peer in (PGQUEUER, OBAN, CHANCY, PROCRASTINATE))
        rows.append(Row(f"{key}-facade", f"{title}, facade", work, against(work, *others), figure, limit, True))
        work = Work(DJANGO, shape)
        native: tuple[Other, ...] = ((VTASKS, {}, None), (OX, {"kind": "thread"}, None))
        native += ((DJ_QUEUE, {"kind": "thread"}, None), (TASKS_DB, {"kind": "thread"}, None))
        rows.append(Row(f"{key}-django", f"{title}, Django", work, against(work, *native), figure, limit, True))
    return rows


def rows() -> list[Row]:
    """Every row, in the order of the table."""
    return [*_drains(), *_django_drains(), *_filled(), *_sending(), *_waiting()]
