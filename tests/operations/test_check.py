"""The health check, over what a store answers."""

import asyncio
import math
import re
from typing import Any

import pytest

from tests.docs.pages import ROOT, first_codes, tables
from tinyjobs.backends.base import Capabilities
from tinyjobs.core.errors import ConfigurationError, SchemaMissingError, StoreUnavailableError
from tinyjobs.core.job import QueueStats, ScheduleState, Stats
from tinyjobs.core.watching import FORGOTTEN_AFTER, SILENT_AFTER, Finding, WorkerSeen
from tinyjobs.operations.check import check, is_healthy
from tinyjobs.operations.presence import FAILING_FOR

PACKAGE = ROOT / "tinyjobs"
NOW = 1_800_000_000.0
NEVER = 2.0**62
#: Silent for longer than that alone fails.
LONG_SILENT = SILENT_AFTER + FAILING_FOR + 1.0


class Catalogue:
    def __init__(self, *names):
        self._names = names

    def names(self):
        return self._names

    def find(self, name) -> Any:
        return name if name in self._names else None

    def thread_names(self):
        return frozenset()


class Timetable:
    def __init__(self, *names):
        self._names = names

    def declared(self) -> Any:
        return dict.fromkeys(self._names)


class Store:
    """Answers what it is given; an exception is raised."""

    def __init__(self, *, stats=None, schedules=(), workers=(), audited=(), capabilities=None):
        self.capabilities = Capabilities(**{"schedules": True, "workers_seen": True, **(capabilities or {})})
        self._answers = {
            "stats": stats or Stats(now=NOW),
            "schedules": list(schedules),
            "workers": list(workers),
            "audit": list(audited),
        }

    def __getattr__(self, verb):
        if verb not in self._answers:
            raise AttributeError(verb)

        async def answer():
            if isinstance(self._answers[verb], Exception):
                raise self._answers[verb]
            return self._answers[verb]

        return answer

    def answer(self, verb, value):
        self._answers[verb] = value


def worker(name="w1", *, ago=1.0, threads=8, **values):
    told = {"host": "h", "pid": 1, "version": "1", "started_at": NOW - 100.0, "scheduled_at": None, **values}
    return WorkerSeen(worker_id=name, seen_at=NOW - ago, threads=threads, **told)


def queue(name="default", *, due=None, **values):
    return QueueStats(
        name=name, ready=1 if due is not None else 0, oldest_due=None if due is None else NOW - due, **values
    )


def stats(*queues, **values):
    return Stats(now=NOW, queues=queues, **values)


def schedule(name="nightly", *, in_=100.0, **values):
    told = {"cron": "@daily", "timezone": "UTC", "next_run_at": NOW + in_, **values}
    return ScheduleState(name=name, **told)


def findings(store, *, tasks=("send",), **options) -> list[Finding]:
    return asyncio.run(check(store, Catalogue(*tasks), **options))


def failing(store, **options) -> list[str]:
    found = findings(store, **options)
    names = [finding.name for finding in found if not finding.ok]
    assert is_healthy(found) == (not names)
    for finding in found:
        if not finding.ok or finding.is_warning:
            assert finding.remedy
    return names


def warned(store, **options) -> list[str]:
    return [finding.name for finding in findings(store, **options) if finding.is_warning]


def the(name, store, **options) -> Finding:
    (found,) = [finding for finding in findings(store, **options) if finding.name == name]
    return found


HEALTHY = {"workers": [worker(scheduled_at=NOW - 20.0)], "schedules": [schedule()], "stats": stats(queue(due=3.0))}


def test_all_is_well():
    store = Store(**HEALTHY)
    assert failing(store) == []
    assert warned(store) == []
    assert {finding.name for finding in findings(store)} == {
        "tasks",
        "unknown_tasks",
        "leases",
        "waiting",
        "schedules",
        "workers",
        "scheduler",
    }


def test_no_tasks():
    assert failing(Store(**HEALTHY), tasks=()) == ["tasks"]


def test_queued_jobs_of_tasks_that_are_not_registered():
    store = Store(**{**HEALTHY, "stats": stats(queue(due=3.0), queued_by_task={"send": 4, "gone": 2})})
    assert failing(store) == ["unknown_tasks"]
    assert "gone (2)" in the("unknown_tasks", store).message
    assert "send" not in the("unknown_tasks", store).message


def test_a_job_past_its_lease():
    assert failing(Store(**{**HEALTHY, "stats": stats(expired_leases=2)})) == ["leases"]


@pytest.mark.parametrize(("wait", "allowed", "names"), [(31.0, 30, ["waiting"]), (30.0, 30, []), (500.0, None, [])])
def test_a_job_that_waits_too_long(wait, allowed, names):
    store = Store(**{**HEALTHY, "stats": stats(queue("mail", due=wait))})
    assert failing(store, max_wait=allowed) == names


def test_each_queue_that_waits_too_long_is_named():
    store = Store(**{**HEALTHY, "stats": stats(queue("a", due=99.0), queue("b", due=1.0), queue("c", due=98.0))})
    told = [finding.message for finding in findings(store, max_wait=30) if finding.name == "waiting"]
    assert len(told) == 2
    assert " a " in told[0]
    assert " c " in told[1]


@pytest.mark.parametrize("value", [-1, "10", True, math.nan])
def test_a_wait_that_is_no_number_of_seconds(value):
    with pytest.raises(ConfigurationError, match="max_wait"):
        findings(Store(), max_wait=value)


def test_a_schedule_that_nobody_fires():
    store = Store(**{**HEALTHY, "schedules": [schedule("late", in_=-61.0), schedule("soon", in_=-59.0)]})
    assert failing(store) == ["schedules"]
    assert "late" in the("schedules", store).message
    assert "soon" not in the("schedules", store).message


def test_a_paused_schedule_is_not_overdue_and_needs_no_scheduler():
    store = Store(workers=[worker()], schedules=[schedule(next_run_at=NEVER)])
    assert failing(store) == []


def test_a_schedule_that_stopped_itself_is_a_warning():
    store = Store(**{**HEALTHY, "schedules": [schedule("odd", next_run_at=NEVER, error="no such task")]})
    assert failing(store) == []
    assert warned(store) == ["stopped_schedules"]
    assert "no such task" in the("stopped_schedules", store).message


@pytest.mark.parametrize("last", [None, NOW - 61.0])
def test_a_dead_scheduler(last):
    store = Store(**{**HEALTHY, "workers": [worker(scheduled_at=last)]})
    assert failing(store) == ["scheduler"]


def test_the_latest_pass_of_any_scheduler_counts():
    store = Store(**{**HEALTHY, "workers": [worker(scheduled_at=NOW - 600.0), worker("w2", scheduled_at=NOW - 30.0)]})
    assert failing(store) == []


def test_schedules_that_are_declared_and_that_no_scheduler_has_seen_yet():
    assert failing(Store(workers=[worker()]), timetable=Timetable("nightly")) == ["scheduler"]
    assert failing(Store(workers=[worker()]), timetable=Timetable()) == []
    # Paused in the store, whatever the code says.
    paused = Store(workers=[worker()], schedules=[schedule(next_run_at=NEVER)])
    assert failing(paused, timetable=Timetable("nightly")) == []


def test_jobs_that_no_worker_is_there_for():
    store = Store(stats=stats(queue("mail", due=31.0)))
    assert failing(store) == ["workers"]
    assert "mail" in the("workers", store).message


def test_a_worker_may_take_half_a_minute_to_be_replaced():
    store = Store(stats=stats(queue("mail", due=29.0)))
    assert failing(store) == []
    assert warned(store) == ["workers"]


def test_no_worker_and_nothing_to_do_is_a_warning():
    assert failing(Store()) == []
    assert warned(Store()) == ["workers"]


def test_a_queue_that_no_worker_serves():
    store = Store(stats=stats(queue("mail", due=90.0), queue("slow", due=90.0)), workers=[worker(queues=("mail",))])
    assert failing(store) == ["workers"]
    assert "slow" in the("workers", store).message
    assert "mail" not in the("workers", store).message


@pytest.mark.parametrize(
    "other", [worker("w2", is_stopping=True), worker("w2", threads=0), worker("w2", ago=LONG_SILENT, is_stopping=True)]
)
def test_who_takes_no_jobs_serves_no_queue(other):
    assert failing(Store(stats=stats(queue(due=90.0)), workers=[other])) == ["workers"]


def test_coroutines_alone_serve_a_queue():
    assert failing(Store(stats=stats(queue(due=90.0)), workers=[worker(threads=0, coroutines=5)])) == []


def test_a_silent_worker_fails_while_nobody_else_serves_its_queues():
    silent = worker("gone", ago=31.0, queues=("mail",))
    assert failing(Store(workers=[silent])) == ["silent_workers"]
    assert failing(Store(workers=[silent, worker(queues=("slow",))])) == ["silent_workers"]
    assert "gone" in the("silent_workers", Store(workers=[silent])).message


@pytest.mark.parametrize("ago", [31.0, SILENT_AFTER + FAILING_FOR - 1.0])
@pytest.mark.parametrize("store_warnings", [False, True])
def test_a_worker_that_just_went_silent_fails_whoever_else_serves_its_queues(ago, store_warnings):
    """Somebody has to hear of one that was suspended, though nothing waits for it."""
    store = Store(**{**HEALTHY, "workers": [*HEALTHY["workers"], worker("gone", ago=ago)]})
    assert failing(store, store_warnings=store_warnings) == ["silent_workers"]
    told = the("silent_workers", store).message
    assert "gone" in told
    assert "others serve their queues" in told
    assert "5 minutes" in told


@pytest.mark.parametrize("other", [{"threads": 0}, {"is_stopping": True}])
def test_so_does_one_that_takes_no_jobs(other):
    store = Store(**{**HEALTHY, "workers": [worker(scheduled_at=NOW), worker("s", ago=90.0, **other)]})
    assert failing(store) == ["silent_workers"]


@pytest.mark.parametrize("queues", [("mail",), (), ("slow", "mail")])
def test_a_silent_worker_is_a_warning_later_if_others_serve_its_queues(queues):
    store = Store(workers=[worker("gone", ago=LONG_SILENT, queues=("mail",)), worker("w2", queues=queues)])
    assert failing(store) == []
    assert warned(store) == ["silent_workers"]


def test_a_silent_worker_fails_for_as_long_as_it_is_listed_if_nobody_serves_its_queues():
    silent = worker("gone", ago=FORGOTTEN_AFTER - 1.0, queues=("mail",))
    assert failing(Store(workers=[silent, worker(queues=("slow",))])) == ["silent_workers"]


def test_only_those_that_fail_are_named_beside_one_that_was_replaced_long_ago():
    store = Store(workers=[worker("old", ago=LONG_SILENT), worker("new", ago=31.0), worker("w2")])
    told = the("silent_workers", store).message
    assert told.startswith("1 worker has")
    assert "new" in told
    assert "old" not in told


def test_a_silent_worker_of_every_queue_is_replaced_by_those_that_serve_all_there_are():
    silent = worker("gone", ago=LONG_SILENT)
    seen = stats(queue("mail"), queue("slow"))
    mail, slow = worker("w2", queues=("mail",)), worker("w3", queues=("slow",))
    assert failing(Store(stats=seen, workers=[silent, mail])) == ["silent_workers"]
    assert failing(Store(stats=seen, workers=[silent, mail, slow])) == []


def test_two_silent_workers_do_not_replace_each_other():
    store = Store(workers=[worker("a", ago=LONG_SILENT), worker("b", ago=LONG_SILENT + 9.0)])
    assert failing(store) == ["silent_workers"]
    assert the("silent_workers", store).message.startswith("2 workers")


def test_a_silent_scheduler_is_a_warning_by_itself_later():
    seen = [worker(scheduled_at=NOW), worker("s", ago=LONG_SILENT, threads=0)]
    store = Store(**{**HEALTHY, "workers": seen})
    assert failing(store) == []
    assert warned(store) == ["silent_workers"]


BAD = Finding(name="store.fsync", ok=False, message="fsync is off.", remedy="Set it.")


def test_what_the_audit_finds_fails_unless_it_is_to_be_a_warning():
    store = Store(**HEALTHY, audited=[BAD])
    assert failing(store) == ["store.fsync"]
    assert failing(store, store_warnings=True) == []
    assert warned(store, store_warnings=True) == ["store.fsync"]


def test_store_warnings_leave_the_rest_of_the_check_as_it_is():
    store = Store(**{**HEALTHY, "stats": stats(expired_leases=1)}, audited=[BAD])
    assert failing(store, store_warnings=True) == ["leases"]


@pytest.mark.parametrize("verb", ["stats", "schedules", "workers", "audit"])
@pytest.mark.parametrize("error", [StoreUnavailableError("gone"), SchemaMissingError("no table")])
def test_a_store_out_of_reach_is_one_finding(verb, error):
    store = Store(**HEALTHY)
    store.answer(verb, error)
    assert failing(store) == ["store"]
    (found,) = findings(store)
    assert str(error) in found.message


def test_what_fails_stands_first_and_warnings_before_what_is_in_order():
    passing = Finding(name="store", ok=True, message="WAL.")
    store = Store(stats=stats(expired_leases=1), audited=[passing, BAD])
    found = findings(store)
    marks = [(finding.ok, not finding.is_warning) for finding in found]
    assert marks == sorted(marks)
    assert [finding.name for finding in found[:2]] == ["leases", "store.fsync"]
    assert found[2].name == "workers"


def test_a_store_that_keeps_neither_workers_nor_schedules_is_not_asked():
    store = Store(capabilities={"schedules": False, "workers_seen": False})
    store.answer("schedules", AssertionError("asked"))
    store.answer("workers", AssertionError("asked"))
    assert failing(store, timetable=Timetable("nightly")) == []
    assert warned(store) == []


def test_long_lists_of_names_are_cut():
    many = {f"task{number}": 1 for number in range(12)}
    told = the("unknown_tasks", Store(**{**HEALTHY, "stats": stats(queued_by_task=many)})).message
    assert "7 more" in told


def test_every_finding_is_in_the_docs():
    """Names are for programs to compare, so each has a row, and no row is of one that is gone."""
    places = [
        *(PACKAGE / "operations").glob("*.py"),
        PACKAGE / "taskbackend" / "checking.py",
        *PACKAGE.glob("backends/*/audit.py"),
    ]
    source = "".join(path.read_text("utf-8") for path in places)
    named = set(re.findall(r'(?:Finding\(\s*name=|\.fail\(\s*)"(\w+)"', source))
    page = tables("docs/how-to/health.md")
    told = set(first_codes(page["What is looked at"]))
    told |= {row[1].strip("`") for row in page["How the store is set up"]}
    assert named == told
