"""What is measured on SQLite, against what, and the bars."""

from dataclasses import replace

from tests.benchmarks.plan import DJANGO, FACADE, NO_LOSS, Other, Rival, Row, Subject, Work, against

BARE = Subject("bare sqlite3 loop, same table", "bare_sqlite.py")
BARE_TRANSACTION = Subject("BEGIN IMMEDIATE, the same INSERT, COMMIT", "bare_transaction.py")
EAGER = Subject("tinyjobs, eager", "eager.py")
CLAIMED = Subject("a claim and a completion", "eager.py", variant="floor")
PUBLIC = Subject("tinyjobs 0.7.1", "peer_tinyjobs_071.py", "tinyjobs-0.7.1", scale=0.3)
HUEY = Subject("huey", "peer_huey.py", "huey", scale=0.3)
HUEY_UNSYNCED = Subject("huey, fsync off", "peer_huey.py", "huey", "nofsync")
VTASKS = Subject("django-vtasks", "peer_vtasks.py", "django-vtasks", scale=0.07)
OX = Subject("django-ox", "peer_ox.py", "django-ox", scale=0.04)
TASKS_DB = Subject("django-tasks-db", "peer_tasks_db.py", "django-tasks-db", scale=0.07)


def _drains() -> list[Row]:
    rows = []
    for workers in (1, 4):
        named = f"{workers} worker{'s' if workers > 1 else ''}"
        # Coroutine slots: ours by default 128; the public engine is given as many, which is also its best.
        work = Work(FACADE, "drain", "coroutine", workers, 128)
        rivals = against(
            work,
            (PUBLIC, {}, 4.0),
            (HUEY, {"kind": "thread", "slots": 1}, 3.0),
            (HUEY_UNSYNCED, {"kind": "thread", "slots": 1}, None),
            *([(BARE, {}, None)] if workers == 1 else []),
        )
        rows.append(Row(f"drain-coroutine-{workers}", f"Drain, coroutine no-ops, {named}", work, rivals))
        for slots in (8, 32):
            work = Work(FACADE, "drain", "thread", workers, slots)
            others: list[Other] = [(PUBLIC, {}, 4.0)]
            if slots == 8:
                others += [(HUEY, {"slots": 1}, None), (HUEY_UNSYNCED, {"slots": 1}, None)]
            title = f"Drain, thread no-ops, {slots} threads, {named}"
            rows.append(Row(f"drain-thread-{slots}-{workers}", title, work, against(work, *others)))
    return rows


def _django_drains() -> list[Row]:
    rows = []
    for workers in (1, 4):
        named = f"{workers} worker{'s' if workers > 1 else ''}"
        work = Work(DJANGO, "drain", "coroutine", workers, 128)
        rivals = against(work, (FACADE, {}, 0.75), (VTASKS, {"slots": 20}, NO_LOSS))
        rows.append(Row(f"django-coroutine-{workers}", f"Drain, Django coroutine no-ops, {named}", work, rivals))
        work = Work(DJANGO, "drain", "thread", workers, 8)
        others: list[Other] = [(VTASKS, {"slots": 20}, NO_LOSS), (OX, {}, NO_LOSS), (TASKS_DB, {}, NO_LOSS)]
        rivals = against(work, (FACADE, {}, 0.75), *others)
        rows.append(Row(f"django-thread-{workers}", f"Drain, Django thread no-ops, {named}", work, rivals))
    return rows


def _filled() -> list[Row]:
    rows = []
    for priority in (0, 10):
        stands = "the same priority" if not priority else "a higher priority"
        title = f"Drain in a filled file, its delayed jobs of {stands}"
        for subject, kind, slots in ((FACADE, "coroutine", 128), (FACADE, "thread", 8), (DJANGO, "coroutine", 128)):
            work = Work(subject, "drain", kind, 1, slots, filled=True, priority=priority)
            rivals = (Rival(replace(work, filled=False, priority=0), NO_LOSS),)
            which = "facade" if subject is FACADE else "django"
            told = f"{title}, {which} {kind}s"
            rows.append(Row(f"filled-{which}-{kind}-{priority}", told, work, rivals))
        for subject, kind, slots in (
            (PUBLIC, "coroutine", 128),
            (HUEY, "thread", 1),
            (VTASKS, "thread", 20),
            (OX, "thread", 0),
            (TASKS_DB, "thread", 0),
        ):
            work = Work(subject, "drain", kind, 1, slots, filled=True, priority=priority)
            rivals = (Rival(replace(work, filled=False, priority=0)),)
            rows.append(Row(f"filled-{subject.peer}-{priority}", title, work, rivals, once=True))
    return rows


def _sending() -> list[Row]:
    facade, django = Work(FACADE, "enqueue"), Work(DJANGO, "enqueue")
    eager = Work(EAGER, "enqueue", "thread")
    many, django_many = Work(FACADE, "bulk"), Work(DJANGO, "bulk")
    native: tuple[Other, ...] = ((VTASKS, {}, 1.0), (OX, {}, 1.0), (TASKS_DB, {}, 1.0))
    huey = {"kind": "thread"}
    return [
        Row("enqueue-django", "Single enqueue in Django", django, against(django, *native, (HUEY, huey, None))),
        Row(
            "enqueue-facade",
            "Single enqueue by the facade",
            facade,
            against(facade, (PUBLIC, {}, NO_LOSS), (HUEY, huey, NO_LOSS), (HUEY_UNSYNCED, huey, None)),
        ),
        Row(
            "enqueue-floor",
            "Single enqueue by the facade, over its INSERT alone",
            facade,
            against(facade, (BARE_TRANSACTION, {}, 1 / 1.5)),
        ),
        Row("eager-floor", "An eager send, over a claim and a completion", eager, against(eager, (CLAIMED, {}, 0.5))),
        Row(
            "bulk-django",
            "enqueue_many in Django",
            django_many,
            against(django_many, (VTASKS, {}, 3.0), (OX, {}, 1.0)),
        ),
        Row("bulk-facade", "enqueue_many by the facade", many, against(many, (PUBLIC, {}, NO_LOSS))),
    ]


def _waiting() -> list[Row]:
    rows = []
    for shape, figure, title, limit in (
        ("latency", "p50_ms", "Enqueue to start on an idle worker, p50 ms", 10.0),
        ("idle", "cpu_percent", "An idle worker, % of a core", 1.0),
        ("lateness", "max_ms", "A delayed job's lateness, worst ms", 100.0),
    ):
        work = Work(FACADE, shape)
        thread = {"kind": "thread"}
        others: tuple[Other, ...] = ((PUBLIC, {}, None), (HUEY, {**thread, "slots": 1}, None))
        rows.append(Row(f"{shape}-facade", f"{title}, facade", work, against(work, *others), figure, limit, True))
        work = Work(DJANGO, shape)
        native: tuple[Other, ...] = ((VTASKS, {"slots": 20}, None), (OX, {}, None), (TASKS_DB, {}, None))
        rows.append(Row(f"{shape}-django", f"{title}, Django", work, against(work, *native), figure, limit, True))
    return rows


def rows() -> list[Row]:
    """Every row, in the order of the table."""
    return [*_drains(), *_django_drains(), *_filled(), *_sending(), *_waiting()]
