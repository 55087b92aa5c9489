"""How long the dashboard's pages take over a large store: `python -m tests.benchmarks.dashboard --store postgres`.

A database of its own is filled with finished, failed, delayed and ready jobs, workers, schedules and a day of tallies.
Then each page is asked for by Django's test client, with the admin's middleware, several times. Printed are the median
of the time from the request to the rendered page, its statements included, and the time that a processor was busy with
one, in this process and in the database's: on a machine that has other work as well, the second is the one to trust.
"""

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

COLUMNS = (
    *("id", "task", "queue", "status", "priority", "attempts", "max_attempts", "claims", "run_at", "created_at"),
    *("started_at", "finished_at", "ready_at", "due_at", "worker_id", "last_error", "payload", "result"),
)
TALLY = (
    *("minute", "owner", "queue", "minutes", "success", "failed", "succeeded", "unsuccessful"),
    *("waited", "ran", "longest_wait", "longest_run"),
)
QUEUES = ("default", "mail", "video")
TASKS = ("shop.tasks.pack", "shop.tasks.post", "shop.tasks.render")
WEEK = 7 * 86_400.0
#: The budget of a page, in milliseconds.
BUDGET = 200.0


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 1 if a page takes longer than its budget."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.dashboard", description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--jobs", type=int, default=1_000_000, help="how many jobs there are (default: 1,000,000)")
    parser.add_argument("--rounds", type=int, default=7, help="how often each page is asked for (default: 7)")
    given = parser.parse_args(arguments)
    os.environ["DJANGO_SETTINGS_MODULE"] = f"tests.settings.{given.store}"
    import django
    from django.test.runner import DiscoverRunner
    from django.test.utils import setup_test_environment

    django.setup()
    setup_test_environment()
    runner = DiscoverRunner(verbosity=0, interactive=False)
    made = runner.setup_databases(aliases={"default"})
    try:
        job_id = fill(given.jobs)
        figures = measured(job_id, given.rounds)
    finally:
        runner.teardown_databases(made)
    print(f"{given.store}, {given.jobs:,} jobs, {given.rounds} rounds: median ms, busy ms, statements")
    for page, (taken, busy, statements) in figures.items():
        late = "" if busy <= BUDGET else "  over the budget"
        print(f"{page:<46} {taken:7.1f} {busy:7.1f}  {statements:3}{late}", flush=True)
    return int(any(busy > BUDGET for _, busy, _ in figures.values()))


def fill(count: int) -> str:
    """Write the rows; the id of a failed job in their middle."""
    from django.db import connection

    now = time.time()
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY tinyjobs_jobs ({', '.join(COLUMNS)}) FROM STDIN") as copy:
                for row in rows(count, now):
                    copy.write_row(row)
        else:
            marks = ", ".join(["%s"] * len(COLUMNS))
            sql = f"INSERT INTO tinyjobs_jobs ({', '.join(COLUMNS)}) VALUES ({marks})"
            cursor.execute("BEGIN")
            cursor.executemany(sql, rows(count, now))
            cursor.execute("COMMIT")
    attempts, counts = executions_and_counts(count, now)
    beside(attempts, counts, now)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return id_of(count // 2 // 100 * 100, count, now)


def id_of(place: int, count: int, now: float) -> str:
    """The id of the job at that place, oldest first: its time, then the place."""
    milliseconds = int((now - WEEK + WEEK * place / count) * 1000)
    return f"{milliseconds >> 16:08x}-{milliseconds & 0xFFFF:04x}-7000-8000-{place:012x}"


def status_of(place: int, count: int) -> str:
    """The newest jobs are ready or delayed, one in a hundred of the others has failed."""
    if place >= count - 3_000:
        return "delayed" if place % 3 == 0 else "ready"
    return "failed" if place % 100 == 0 else "success"


def rows(count: int, now: float) -> Iterator[tuple[Any, ...]]:
    """The jobs, in the order of `COLUMNS`."""
    for place in range(count):
        sent = now - WEEK + WEEK * place / count
        status = status_of(place, count)
        has_ended = status in ("success", "failed")
        yield (
            id_of(place, count, now),
            TASKS[place % 3],
            QUEUES[place % 7 % 3],
            status if has_ended else "queued",
            place % 5,
            int(has_ended),
            1,
            int(has_ended),
            sent + 90_000 if status == "delayed" else sent,
            sent,
            sent + 0.1 if has_ended else None,
            sent + 0.2 if has_ended else None,
            sent if status == "ready" else None,
            sent + 90_000 if status == "delayed" else None,
            f"worker-{place % 20}" if has_ended else None,
            "ValueError: no such parcel" if status == "failed" else None,
            b'[[%d],{"user":"bob","token":"abcdef"}]' % place,
            b"null" if status == "success" else None,
        )


def executions_and_counts(count: int, now: float) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    """An attempt for each job that failed, and how many there are of each ended status."""
    counts = {"success": 0, "failed": 0}
    attempts = []
    for place in range(count):
        status = status_of(place, count)
        if status in counts:
            counts[status] += 1
        if status == "failed":
            sent = now - WEEK + WEEK * place / count
            attempt = (id_of(place, count, now), 1, 1, "failed", "worker-1", sent + 0.1, sent + 0.2)
            attempts.append((*attempt, "builtins.ValueError", "Traceback (most recent call last):\n" * 20))
    return attempts, counts


def beside(attempts: list[tuple[Any, ...]], counts: dict[str, int], now: float) -> None:
    """Executions, tallies, workers and schedules."""
    from django.db import connection
    from django.tasks import task_backends

    from tinyjobs.core.inline import finish
    from tinyjobs.core.watching import WorkerSeen

    minute = int(now // 60)
    total = [(0, "", "default", 1, counts["success"], counts["failed"], 0, 0, 0.0, 0.0, 0.0, 0.0)]
    lately = [(minute - n, f"worker-{w}", queue) for n in range(60) for w in range(20) for queue in QUEUES]
    before = [(minute // 15 * 15 - 15 * n, "", queue) for n in range(5, 96) for queue in QUEUES]
    tallies = [
        *total,
        *((*key, 1, 0, 0, 40, 2, 60.0, 9.0, 4.0, 1.5) for key in lately),
        *((*key, 15, 0, 0, 600, 9, 900.0, 90.0, 9.0, 2.5) for key in before),
    ]
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO tinyjobs_executions (job_id, claim, attempt, status, worker_id, started_at, finished_at, "
            "error_type, traceback) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            attempts,
        )
        marks = ", ".join(["%s"] * len(TALLY))
        cursor.executemany(f"INSERT INTO tinyjobs_tallies ({', '.join(TALLY)}) VALUES ({marks})", tallies)
    backend: Any = task_backends["default"]
    for number in range(20):
        seen = WorkerSeen(worker_id=f"worker-{number}", host="oak", pid=number, version="1", started_at=now, threads=10)
        finish(backend.shared.store.beat(seen))
    for number in range(50):
        task = "tests.taskbackend.shop.tasks.noop"
        backend.save_schedule(f"schedule-{number:02}", task=task, cron=f"{number} * * * *", args=[number])


def pages(job_id: str) -> list[str]:
    """What is measured."""
    lists = ["", "?status=success", "?status=failed", "?status=queued", "?queue=mail", "?status=failed&queue=mail"]
    searches = [
        "?task=shop.tasks.pack",
        "?task=no.such.task",
        "?q=no-such-text",
        "?q=%22user%22",
        "?status=success&q=zz",
    ]
    deep = f"?cursor={job_id}"
    return [
        "",
        *(f"job/{query}" for query in (*lists, deep, f"{deep}&queue=mail", *searches)),
        f"job/{job_id}/",
        "schedule/",
        "schedule/schedule-07/change/",
        "queues/",
        "workers/",
    ]


def measured(job_id: str, rounds: int) -> dict[str, tuple[float, float, int]]:
    """For each page the median time and the busy time in milliseconds, and how many statements it makes."""
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    figures = {}
    for page in pages(job_id):
        url = f"/admin/tinyjobs/{page}"
        with CaptureQueriesContext(connection) as captured:
            assert client.get(url).status_code == 200
        statements = len(captured)
        taken = []
        before = busy_seconds()
        for _ in range(rounds):
            began = time.perf_counter()
            client.get(url)
            taken.append((time.perf_counter() - began) * 1000)
        busy = (busy_seconds() - before) / rounds * 1000
        figures[page.replace(job_id, "ID") or "overview"] = median(taken), busy, statements
    return figures


def busy_seconds() -> float:
    """For how long a processor was busy with this process, and with the server's end of its connection on Linux."""
    from django.db import connection

    busy = time.process_time()
    if connection.vendor == "postgresql":
        pid = connection.connection.info.backend_pid
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        busy += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return busy


if __name__ == "__main__":
    raise SystemExit(main())
