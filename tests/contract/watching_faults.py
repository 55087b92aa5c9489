"""The same for whoever watches: stores with one fault each in what they keep of workers, ends and deleted jobs."""

import asyncio
from dataclasses import replace
from typing import Any

from tests.contract.faults import Faulty
from tinyjobs.core.job import Job, Page
from tinyjobs.core.status import ACTIVE, ExecutionStatus, JobStatus
from tinyjobs.core.transitions import Outcome
from tinyjobs.core.watching import FORGOTTEN_AFTER, Tally, WorkerSeen


class BelievesWhenItWasSeen(Faulty):
    found_by = ("test_a_worker_is_seen_as_it_tells_of_itself",)

    async def beat(self, worker: WorkerSeen) -> None:
        await super().beat(worker)
        self.data.workers[worker.worker_id] = worker


class KeepsWhatAWorkerNoLongerTells(Faulty):
    found_by = ("test_a_worker_stands_there_once",)

    async def beat(self, worker: WorkerSeen) -> None:
        known = self.data.workers.get(worker.worker_id)
        if known is not None and worker.scheduled_at is None:
            worker = replace(worker, scheduled_at=known.scheduled_at)
        await super().beat(worker)


class RemembersEveryWorker(Faulty):
    found_by = ("test_a_worker_signs_off",)

    async def sign_off(self, worker_id: str) -> None:
        pass


class NeverForgets(Faulty):
    found_by = ("test_a_silent_worker_is_forgotten", "test_tidying_forgets_silent_workers_alone")

    async def workers(self) -> list[WorkerSeen]:
        return list(self.data.workers.values())


class ForgetsTooSoon(Faulty):
    found_by = ("test_a_silent_worker_is_forgotten",)

    async def workers(self) -> list[WorkerSeen]:
        since = self.clock.now() - FORGOTTEN_AFTER / 2
        return [worker for worker in await super().workers() if worker.seen_at > since]


class ListsTheLatestBeatFirst(Faulty):
    found_by = ("test_the_oldest_worker_comes_first",)

    async def workers(self) -> list[WorkerSeen]:
        return sorted(await super().workers(), key=lambda worker: -worker.seen_at)


class DeletesWhatRuns(Faulty):
    found_by = ("test_a_job_that_has_not_ended_is_not_deleted",)

    async def delete(self, job_id: str) -> bool:
        self.data.executions.pop(job_id, None)
        return self.data.jobs.pop(job_id, None) is not None


class LeavesTheHistoryOfADeletedJob(Faulty):
    found_by = ("test_deleting_what_has_ended", "test_a_deleted_id_may_come_again")

    async def delete(self, job_id: str) -> bool:
        history = self.data.executions.get(job_id)
        deleted: bool = await super().delete(job_id)
        if deleted and history:
            self.data.executions[job_id] = history
        return deleted


class DeletesInTwoSteps(Faulty):
    """Looks, lets others run, and deletes."""

    found_by = ("test_racing_to_delete",)

    async def delete(self, job_id: str) -> bool:
        job = self.data.jobs.get(job_id)
        if job is None or job.status in ACTIVE:
            return False
        await asyncio.sleep(0)
        self.data.jobs.pop(job_id, None)
        self.data.executions.pop(job_id, None)
        return True


class TakesTheOlderForTheNewer(Faulty):
    found_by = ("test_neighbours",)

    async def neighbours(self, job_id: str) -> tuple[str | None, str | None]:
        newer, older = await super().neighbours(job_id)
        return older, newer


class Tallying(Faulty):
    """What is tallied goes by `told`, which a fault changes; nothing is tallied where that gives None."""

    def told(self, tally: Tally, job: Job, ended_as: ExecutionStatus | None) -> Tally | None:
        return tally

    def _tally(self, job: Job, ended_as: ExecutionStatus | None, status: JobStatus, at: float | None) -> None:
        before = len(self.data.tallies)
        super()._tally(job, ended_as, status, at)
        if len(self.data.tallies) > before:
            told = self.told(self.data.tallies.pop(), job, ended_as)
            if told is not None:
                self.data.tallies.append(told)


class TalliesFinalFailuresAlone(Tallying):
    found_by = ("test_each_way_an_attempt_ends", "test_a_group_of_every_kind")

    def _apply(self, outcome: Outcome) -> bool:
        self._is_final = outcome.status is not JobStatus.QUEUED
        applied: bool = super()._apply(outcome)
        return applied

    def told(self, tally: Tally, job: Job, ended_as: ExecutionStatus | None) -> Tally | None:
        return tally if self._is_final else None


class TalliesNoTimeouts(Tallying):
    found_by = ("test_each_way_an_attempt_ends",)

    def told(self, tally: Tally, job: Job, ended_as: ExecutionStatus | None) -> Tally | None:
        return None if ended_as is ExecutionStatus.TIMEOUT else tally


class TalliesNoLostRuns(Tallying):
    found_by = ("test_each_way_an_attempt_ends",)

    def told(self, tally: Tally, job: Job, ended_as: ExecutionStatus | None) -> Tally | None:
        return None if ended_as is ExecutionStatus.LOST else tally


class TalliesNoCancels(Tallying):
    found_by = ("test_cancelled_jobs", "test_jobs_that_expired")

    def told(self, tally: Tally, job: Job, ended_as: ExecutionStatus | None) -> Tally | None:
        return None if tally.cancelled else tally


class TalliesByTheStart(Tallying):
    found_by = ("test_minute_by_minute_and_queue_by_queue",)

    def told(self, tally: Tally, job: Job, ended_as: ExecutionStatus | None) -> Tally | None:
        began = job.started_at or 0.0
        return replace(tally, start=began - began % 60)


class CountsTheWaitFromTheEnqueue(Tallying):
    """A retry that was delayed did not wait while it was not due."""

    found_by = ("test_a_wait_begins_when_the_attempt_is_due",)

    def told(self, tally: Tally, job: Job, ended_as: ExecutionStatus | None) -> Tally | None:
        waited = (job.started_at or 0.0) - job.created_at
        return replace(tally, waited=waited, longest_wait=waited)


class ForgetsTheQueue(Tallying):
    found_by = ("test_minute_by_minute_and_queue_by_queue", "test_cancelled_jobs")

    def told(self, tally: Tally, job: Job, ended_as: ExecutionStatus | None) -> Tally | None:
        return replace(tally, queue="default")


class AllowsNegativeTimes(Tallying):
    found_by = ("test_no_wait_and_no_run_is_negative",)

    def told(self, tally: Tally, job: Job, ended_as: ExecutionStatus | None) -> Tally | None:
        return replace(tally, ran=-tally.ran - 1.0)


class TalliesWhatIsGivenBack(Faulty):
    found_by = ("test_what_was_given_back_counts_nowhere",)

    def _tally(self, job: Job, ended_as: ExecutionStatus | None, status: JobStatus, at: float | None) -> None:
        super()._tally(job, ended_as or ExecutionStatus.FAILED, status, at)


class TellsOfAMinuteTooFew(Faulty):
    found_by = ("test_since",)

    async def tallies(self, since: float) -> list[Tally]:
        return [tally for tally in await super().tallies(since) if tally.start > since]


class CountsRetriedJobsForGood(Faulty):
    """Keeps its counts beside the jobs, and takes nothing away where jobs are put back."""

    found_by = ("test_counts_hold_through_anything", "test_counts_hold_in_a_race")

    async def requeue(self, job_id: str) -> bool:
        requeued: bool = await super().requeue(job_id)
        self.data.put_back = getattr(self.data, "put_back", 0) + requeued
        return requeued

    async def counts_by_status(self) -> dict[str, int]:
        counts: dict[str, int] = await super().counts_by_status()
        return {**counts, "failed": counts.get("failed", 0) + getattr(self.data, "put_back", 0)}


class CountsDeletedJobs(Faulty):
    """The same where jobs are deleted."""

    found_by = ("test_counts_hold_through_anything", "test_counts_hold_in_a_race")

    async def delete(self, job_id: str) -> bool:
        deleted: bool = await super().delete(job_id)
        self.data.deleted = getattr(self.data, "deleted", 0) + deleted
        return deleted

    async def counts_by_status(self) -> dict[str, int]:
        counts: dict[str, int] = await super().counts_by_status()
        return {**counts, "success": counts.get("success", 0) + getattr(self.data, "deleted", 0)}


class LooksAtEverything(Faulty):
    found_by = ("test_a_bounded_look",)

    async def list(self, *, scan: int | None = None, **filters: Any) -> Page:
        page: Page = await super().list(**filters)
        return page


class LosesWhatABoundedLookLeft(Faulty):
    found_by = ("test_a_bounded_look", "test_a_bounded_look_along_a_filter")

    async def list(self, **filters: Any) -> Page:
        page = await super().list(**filters)
        return replace(page, cursor=None) if filters.get("scan") is not None and not page.jobs else page


class SeeksTextByPattern(Faulty):
    """Takes a percent sign for anything, as a LIKE does."""

    found_by = ("test_a_text",)

    async def list(self, *, text: str | None = None, **filters: Any) -> Page:
        page: Page = await super().list(text=text.strip("%") if text else text, **filters)
        return page


class TellsLettersApart(Faulty):
    found_by = ("test_a_text", "test_a_text_within_a_filter")

    async def list(self, *, text: str | None = None, **filters: Any) -> Page:
        if text and text != text.lower():
            return Page([])
        page: Page = await super().list(text=text, **filters)
        return page


FAULTS = [
    kind
    for kind in [*Faulty.__subclasses__(), *Tallying.__subclasses__()]
    if kind.__module__ == __name__ and kind is not Tallying
]
