"""What a run found: the figures, the reasons why it is not ok, and both as lines and as a document for programs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tinyjobs.core.status import JobStatus
from tinyjobs.operations.verify.fleet import Ends
from tinyjobs.operations.verify.reckoning import Reckoning
from tinyjobs.operations.verify.sending import Sent

#: Of the shape of the document; raised when a field changes its meaning or goes.
FORMAT = 1
_SHOWN = 5


@dataclass(kw_only=True)
class Report:
    """One run. `reckoning` is None if the jobs could not be read back; `clearing` says what became of them.

    `trouble` is what kept the run itself from going on, which the store had no part in.
    """

    where: str
    queue: str
    settings: dict[str, Any]
    sent: Sent
    ends: Ends
    reckoning: Reckoning | None = None
    halves: int = 0
    was_suspended: bool = False
    has_run: bool = False
    has_settled: bool = False
    was_cut_short: bool = False
    is_cleared: bool = False
    clearing: str = "the store was not cleared"
    trouble: str = ""
    store_errors: list[str] = field(default_factory=list)
    log_tail: str = ""

    @property
    def is_ok(self) -> bool:
        """Whether nothing at all was wrong."""
        return not self.reasons()

    def reasons(self) -> list[str]:
        """Each thing that keeps the run from being ok, in a few words."""
        found = [*_of_the_run(self), *self.ends.problems]
        if self.reckoning is None:
            found.append("the jobs could not be read back")
        else:
            found += _of_the_jobs(self.reckoning, self.halves)
        if not self.is_cleared:
            found.append(self.clearing)
        return found

    def lines(self) -> list[str]:
        """The report for people; the last line is the verdict."""
        reasons = self.reasons()
        lines = [*_counted(self), f"{_count(len(self.sent.failures), 'enqueue failure')}; {self.clearing}"]
        if tail := self._told_tail():
            lines += ["the end of the workers' log:", *(f"  {line}" for line in tail.splitlines())]
        return [*lines, *(f"not ok: {reason}" for reason in reasons)] if reasons else [*lines, "ok"]

    def _told_tail(self) -> str:
        """The end of the log, if a worker did not end as it should; else it says nothing that matters."""
        return self.log_tail if self.ends.problems else ""

    def document(self) -> dict[str, Any]:
        """The report for programs. Counts are numbers of jobs, latencies in seconds."""
        found, ends = self.reckoning, self.ends
        return {
            "format": FORMAT,
            "ok": self.is_ok,
            "reasons": self.reasons(),
            "store": self.where,
            "queue": self.queue,
            "settings": self.settings,
            "sent": len(self.sent.numbers),
            "contested": len(self.sent.contested),
            "enqueue_failures": len(self.sent.failures),
            "jobs": None if found is None else _figures(found, self.halves),
            "workers": {
                "terminated": ends.terminated,
                "killed": ends.killed,
                "suspended": int(self.was_suspended),
                "unexpected_deaths": ends.unexpected,
            },
            "latency_seconds": None if found is None else {f"p{share}": _at(found, share) for share in (50, 95, 100)},
            "interrupted": self.was_cut_short,
            "settled": self.has_settled,
            "store_errors": self.store_errors,
            "clearing": self.clearing,
            "log_tail": self._told_tail(),
        }


def _figures(found: Reckoning, halves: int) -> dict[str, int]:
    return {
        "succeeded": found.by_status[JobStatus.SUCCESS],
        "failed": found.by_status[JobStatus.FAILED],
        "cancelled": found.by_status[JobStatus.CANCELLED],
        "unfinished": found.unfinished,
        "ran_more_than_once": len(found.repeated),
        "seen_by_halves": halves,
        **{name: len(getattr(found, name)) for name, _ in _BREACHES},
    }


#: What may happen to no number, and how it is said.
_BREACHES = (
    ("lost", "acknowledged and then lost by the store"),
    ("unacknowledged", "kept by the store though the enqueue had failed"),
    ("unknown", "in the store and never sent"),
    ("twice", "enqueued more than once"),
    ("missing", "acknowledged, with a side effect that never happened"),
    ("phantoms", "with a side effect and never sent"),
    ("too_early", "taken from a worker before the lease had run out"),
    ("overlapping", "begun again before the attempt before had ended"),
    ("untraced", "with a history that does not tell each run, or tells of two successes"),
    ("usurped", "recorded by a run whose claim no longer held"),
)


def _of_the_jobs(found: Reckoning, halves: int) -> list[str]:
    reasons = []
    for status, word in ((JobStatus.FAILED, "failed"), (JobStatus.CANCELLED, "cancelled, by somebody else")):
        if found.by_status[status]:
            reasons.append(f"{_count(found.by_status[status], 'job')} {word}")
    if found.unfinished:
        reasons.append(f"{_count(found.unfinished, 'job')} unfinished")
    for name, words in _BREACHES:
        numbers: set[int] = getattr(found, name)
        if numbers:
            reasons.append(f"{_count(len(numbers), 'job')} {words}: {_listed(sorted(numbers))}")
    if halves:
        reasons.append(f"{_count(halves, 'job')} seen by halves: ended without its history, or with it before its end")
    return reasons


def _of_the_run(report: Report) -> list[str]:
    reasons = []
    if report.was_cut_short:
        reasons.append("the run was cut short")
    if report.trouble:
        reasons.append(f"the run could not go on: {report.trouble}")
    if not report.has_run:
        reasons.append("no worker ran a job")
    if not report.ends.killed:
        reasons.append("no worker was killed by SIGKILL, so nothing is proven about leases; make the run longer")
    if not report.was_suspended:
        reasons.append("no worker was suspended beyond its lease, so nothing is proven about claims; try once more")
    if report.sent.failures:
        failures = report.sent.failures
        reasons.append(f"{_count(len(failures), 'enqueue failure')}, the first: {failures[0]}")
    if report.has_run and not (report.has_settled or report.was_cut_short or report.trouble):
        reasons.append("the store did not settle: jobs were left when the time to settle was over")
    if report.store_errors:
        reasons.append(f"the store did not answer throughout: {report.store_errors[0]}")
    return reasons


def _counted(report: Report) -> list[str]:
    found, ends = report.reckoning, report.ends
    stops = ends.terminated + ends.killed
    lines = [f"sent {_count(len(report.sent.numbers), 'job')}, which could not be read back"]
    if found is not None:
        told = (
            f"sent {_count(len(report.sent.numbers), 'job')}: {found.by_status[JobStatus.SUCCESS]:,} succeeded, "
            f"{found.by_status[JobStatus.FAILED]:,} failed, {found.by_status[JobStatus.CANCELLED]:,} cancelled, "
            f"{found.unfinished:,} unfinished, {len(found.lost):,} lost"
        )
        lines = [told]
    suspended = ", 1 suspended beyond its lease" if report.was_suspended else ""
    deaths = _count(ends.unexpected, "unexpected death")
    lines.append(
        f"workers stopped {_count(stops, 'time')}, {ends.terminated} by SIGTERM and {ends.killed} by SIGKILL"
        f"{suspended}, {deaths}"
    )
    if found is not None:
        lines.append(f"{_count(len(found.repeated), 'job')} ran more than once, after the stops; {_applied(found)}")
        if found.latencies:
            lines.append(
                f"end-to-end p50 {_at(found, 50) * 1000:.0f} ms, p95 {_at(found, 95) * 1000:.0f} ms, stops included"
            )
    return lines


def _applied(found: Reckoning) -> str:
    """What is to be said of the side effects."""
    wrong = []
    if found.missing:
        wrong.append(
            f"{len(found.missing):,} never applied {'its' if len(found.missing) == 1 else 'their'} side effect"
        )
    if found.phantoms:
        wrong.append(f"{_count(len(found.phantoms), 'side effect')} of what was never sent")
    return ", ".join(wrong) or "every job applied its side effect once"


def _at(found: Reckoning, share: int) -> float:
    """The latency that so many in a hundred stayed within, 0 without any."""
    if not found.latencies:
        return 0.0
    return found.latencies[min(len(found.latencies) * share // 100, len(found.latencies) - 1)]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _listed(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    return ", ".join(f"number {number}" for number in numbers[:_SHOWN]) + more
