"""What the store holds in the end, as a table, and whether that is what it must hold.

Everything is read back, wherever jobs are kept: statuses and attempts by `get_result`, the number of jobs by
`manage.py tinyjobs stats`, the effects from the files that the tasks wrote.
"""

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from django.core.management import call_command
from django.tasks import TaskResult, TaskResultStatus, default_task_backend
from django.tasks.exceptions import TaskResultDoesNotExist

from shop.models import Order
from tinyjobs import WorkerLost

PURPOSES = ("receipt", "invoice", "export", "feed")
ONE_RUN = ["success"]
THREE_TRIES = ["failed", "failed", "success"]
KILLED_AND_RUN_AGAIN = ["lost", "success"]


@dataclass
class Events:
    """What the story did: which orders were committed, which jobs were handed out in vain, which job was killed."""

    committed: list[str] = field(default_factory=list)
    rolled_back: list[str] = field(default_factory=list)
    ids_in_vain: list[str] = field(default_factory=list)
    killed_job: str = ""


@dataclass(frozen=True)
class Row:
    """One job of one order as the store has it."""

    reference: str
    purpose: str
    job_id: str
    status: str
    executions: list[str]

    @property
    def is_success(self) -> bool:
        return self.status == TaskResultStatus.SUCCESSFUL.value


def read_rows(references: Sequence[str]) -> list[Row]:
    """Every job of these orders."""
    rows = []
    for order in Order.objects.filter(pk__in=references).order_by("placed_at"):
        for purpose in PURPOSES:
            job_id = order.jobs.get(purpose, "")
            result = _result(job_id)
            rows.append(Row(order.reference, purpose, job_id, _status(result), _executions(result)))
    return rows


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The rows in columns."""
    yield f"{'order':<10} {'job':<8} {'status':<11} attempts"
    previous = ""
    for row in rows:
        shown = row.reference if row.reference != previous else ""
        yield f"{shown:<10} {row.purpose:<8} {row.status.lower():<11} {', '.join(row.executions)}"
        previous = row.reference


def complaints(events: Events, rows: Sequence[Row], directory: Path) -> list[str]:
    """Everything that is not as it should be; nothing, after a story that went well."""
    return [*_missing(events, rows), *_wrong_runs(events, rows), *_unwanted(events), *_effects(events, directory)]


def _missing(events: Events, rows: Sequence[Row]) -> Iterator[str]:
    absent = set(events.committed) - {row.reference for row in rows}
    yield from (f"The order {reference} was committed and is not in the database." for reference in sorted(absent))
    for row in rows:
        if not row.is_success:
            yield f"The {row.purpose} job of order {row.reference} reads {row.status}, not SUCCESSFUL."


def _wrong_runs(events: Events, rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        expected = THREE_TRIES if row.purpose == "export" else ONE_RUN
        if row.job_id == events.killed_job:
            expected = KILLED_AND_RUN_AGAIN
        if row.executions != expected:
            yield (
                f"The {row.purpose} job of order {row.reference} should have run as {', '.join(expected)}; it ran as "
                f"{', '.join(row.executions) or 'nothing'}."
            )
    if events.killed_job not in {row.job_id for row in rows}:
        yield "No job was killed in the middle of its run."


def _unwanted(events: Events) -> Iterator[str]:
    for job_id in events.ids_in_vain:
        if _result(job_id) is not None:
            yield f"The job {job_id} of an order that was rolled back is in the store."
    expected = len(events.committed) * len(PURPOSES)
    stats = io.StringIO()
    call_command("tinyjobs", "stats", "--json", stdout=stats)
    found = sum(json.loads(stats.getvalue())["by_status"].values())
    if found != expected:
        yield f"The store holds {found} jobs; {len(events.committed)} orders should have made {expected}."


def _effects(events: Events, directory: Path) -> Iterator[str]:
    mails = [path.read_text("utf-8", "replace") for path in (directory / "mail").glob("*")]
    for reference in events.committed:
        # Counted in the texts: Django may put two mails of one second into one file.
        received = sum(mail.count(f"Subject: Your order {reference}") for mail in mails)
        if received != 1:
            yield f"{received} receipts were mailed for order {reference}, not one."
        for name in (f"invoices/{reference}.html", f"exports/{reference}.csv", f"feed/{reference}.json"):
            if not (directory / name).is_file():
                yield f"There is no {name}."
    for reference in events.rolled_back:
        if any(reference in mail for mail in mails) or any(directory.glob(f"*/{reference}.*")):
            yield f"Something was written for order {reference}, which was rolled back."


def _result(job_id: str) -> TaskResult | None:
    try:
        return default_task_backend.get_result(job_id)
    except TaskResultDoesNotExist:
        return None


def _status(result: TaskResult | None) -> str:
    return "ABSENT" if result is None else result.status.value


def _executions(result: TaskResult | None) -> list[str]:
    """How each attempt ended, oldest first."""
    if result is None:
        return []
    ended = ["lost" if error.exception_class is WorkerLost else "failed" for error in result.errors]
    return ended + ["success"] * (result.status == TaskResultStatus.SUCCESSFUL)
