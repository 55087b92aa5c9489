"""Stores with one fault each: the template store with a mistake that real stores have made.

Each names the tests of the contract that must find it. Where a fault is a race, the store lets others run between
looking and writing, as a store across a network does.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from tests.contract.template import load
from tinyjobs.core.job import Claimed, ClaimRequest, Execution, Held, Job, Page, Recorded, ScheduleState
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.core.transitions import Outcome

TemplateStore: Any = load().TemplateStore


class Faulty(TemplateStore):  # type: ignore[misc]
    #: The tests of the contract that have to fail.
    found_by: ClassVar[tuple[str, ...]] = ()


class ClaimsBeforeTheTime(Faulty):
    found_by = ("test_no_job_before_its_time", "test_giving_back_for_later", "test_retrying_a_cancelled_job")

    async def claim(self, request: ClaimRequest) -> Claimed:
        now, self.clock = self.clock, _Ahead(self.clock)
        try:
            return await super().claim(request)
        finally:
            self.clock = now


class _Ahead:
    def __init__(self, clock: Any) -> None:
        self._now = clock.now() + 75

    def now(self) -> float:
        return self._now


class ClaimsInTwoSteps(Faulty):
    """Looks, lets others run, and then takes what it saw."""

    found_by = (
        "test_racing_claims_share_the_jobs",
        "test_racing_for_the_last_job",
        "test_racing_a_claim_by_id",
        "test_recording_and_claiming_at_once",
        "test_a_cancel_racing_a_claim",
    )

    async def claim(self, request: ClaimRequest) -> Claimed:
        before = dict(self.data.jobs)
        claimed = await super().claim(request)
        after = {job.id: self.data.jobs[job.id] for job in claimed.jobs}
        self.data.jobs.update({job_id: before[job_id] for job_id in after})
        await asyncio.sleep(0)
        self.data.jobs.update(after)
        return claimed


class ServesEveryQueue(Faulty):
    found_by = ("test_only_the_queues_asked_for", "test_queue_names")

    async def claim(self, request: ClaimRequest) -> Claimed:
        return await super().claim(replace(request, queues=()))


class ForgetsTheRoom(Faulty):
    found_by = ("test_the_room_of_some_tasks_is_kept", "test_a_room_is_shared_by_its_tasks")

    async def claim(self, request: ClaimRequest) -> Claimed:
        return await super().claim(replace(request, room=None))


class TakesOneTooMany(Faulty):
    found_by = ("test_no_more_than_asked_for",)

    async def claim(self, request: ClaimRequest) -> Claimed:
        return await super().claim(replace(request, limit=request.limit + 1))


class SmallNumbersFirst(Faulty):
    found_by = ("test_the_order_of_one_queue", "test_one_order_over_several_queues", "test_priorities")

    async def enqueue_many(self, jobs: Sequence[Job]) -> list[Job]:
        kept: list[Job] = await super().enqueue_many([replace(job, priority=-job.priority) for job in jobs])
        return kept


class OneQueueAfterTheOther(Faulty):
    found_by = ("test_one_order_over_several_queues", "test_a_busy_queue_does_not_hide_a_quiet_one")

    async def claim(self, request: ClaimRequest) -> Claimed:
        names = request.queues or sorted({job.queue for job in self.data.jobs.values()})
        jobs: list[Job] = []
        for name in names:
            part = await super().claim(replace(request, queues=(name,), limit=request.limit - len(jobs)))
            jobs.extend(part.jobs)
        return Claimed(jobs, (await self.next_due())[1])


class NeverTellsTheNextTime(Faulty):
    found_by = ("test_the_next_due_instant_is_told", "test_looking_takes_nothing")

    async def next_due(self, queues: Sequence[str] = ()) -> tuple[bool, float | None]:
        return (await super().next_due(queues))[0], None


class FencesByAttempt(Faulty):
    """Takes the attempt number for the claim: the same again after a hand-back or a retry by hand."""

    found_by = ("test_stale_calls_do_not_touch_the_next_claim", "test_a_cancelled_run_does_not_come_back")

    async def record(self, outcomes: Sequence[Outcome], request: ClaimRequest | None = None) -> Recorded:
        recent = []
        for outcome in outcomes:
            job = self.data.jobs.get(outcome.job_id)
            used = outcome.execution.attempt if outcome.execution else outcome.attempts + 1
            recent.append(replace(outcome, claim=job.claims) if job and job.attempts == used else outcome)
        recorded: Recorded = await super().record(recent, request)
        return recorded


class DoesNotFence(Faulty):
    found_by = (
        "test_stale_calls_change_nothing",
        "test_stale_ones_among_live_ones",
        "test_one_claim_twice_in_a_group",
        "test_racing_reports_of_one_claim",
        "test_racing_different_reports",
        "test_a_reaper_racing_the_outcome",
        "test_racing_groups",
    )

    def _holder(self, job_id: str, claim: int) -> Job | None:
        return self.data.jobs.get(job_id) if claim else None


class BeatsForAnybody(Faulty):
    found_by = ("test_a_heartbeat_answers_for_each_job", "test_a_worker_cannot_keep_anothers_claim_alive")

    async def heartbeat(self, held: Sequence[Held], lease: float) -> Collection[Held]:
        for entry in held:
            job = self.data.jobs.get(entry.job_id)
            if job and job.status is JobStatus.RUNNING:
                self._change(job.id, lease_expires_at=self.clock.now() + lease)
        return list(held)


class ReapsInTwoSteps(Faulty):
    found_by = (
        "test_a_reaper_racing_the_outcome",
        "test_a_reaper_racing_a_heartbeat",
        "test_racing_reapers_share_the_jobs",
    )

    async def reap_expired(self, limit: int = 500, own: Callable[[], Collection[Held]] = tuple) -> list[Job]:
        before = dict(self.data.jobs)
        reaped: list[Job] = await super().reap_expired(limit, own)
        after = {job.id: self.data.jobs[job.id] for job in reaped}
        self.data.jobs.update({job_id: before[job_id] for job_id in after})
        await asyncio.sleep(0)
        self.data.jobs.update(after)
        return reaped


class ReapsEarly(Faulty):
    found_by = ("test_a_lease_that_still_runs_is_left_alone", "test_a_heartbeat_lengthens_the_lease")

    async def reap_expired(self, limit: int = 500, own: Callable[[], Collection[Held]] = tuple) -> list[Job]:
        for job in self.data.jobs.values():
            if job.status is JobStatus.RUNNING:
                self._change(job.id, lease_expires_at=job.lease_expires_at - 30)
        reaped: list[Job] = await super().reap_expired(limit, own)
        return reaped


class ReapsWhatItsCallerRuns(Faulty):
    found_by = ("test_a_reap_leaves_what_its_caller_runs",)

    async def reap_expired(self, limit: int = 500, own: Callable[[], Collection[Held]] = tuple) -> list[Job]:
        reaped: list[Job] = await super().reap_expired(limit)
        return reaped


class HandBacksAreAttempts(Faulty):
    found_by = ("test_hand_back", "test_every_kind_in_one_group")

    def _apply(self, outcome: Outcome) -> bool:
        if outcome.execution is None:
            execution = Execution(
                job_id=outcome.job_id,
                attempt=outcome.attempts + 1,
                claim=outcome.claim,
                status=ExecutionStatus.CANCELLED,
                worker_id="",
                started_at=0.0,
            )
            outcome = replace(outcome, execution=execution, attempts=outcome.attempts + 1)
        applied: bool = super()._apply(outcome)
        return applied


class OneStaleOutcomeSinksTheGroup(Faulty):
    found_by = ("test_stale_ones_among_live_ones", "test_one_claim_twice_in_a_group")

    async def record(self, outcomes: Sequence[Outcome], request: ClaimRequest | None = None) -> Recorded:
        held = [self._holder(outcome.job_id, outcome.claim) for outcome in outcomes]
        if len({job.id for job in held if job}) < len(outcomes):
            return Recorded([False] * len(outcomes), await self.claim(request) if request else None)
        recorded: Recorded = await super().record(outcomes, request)
        return recorded


class WritesTheHistoryLater(Faulty):
    """Ends the jobs of a group, lets others run, and then writes what the history is to tell of them."""

    found_by = ("test_an_outcome_is_seen_whole",)

    async def record(self, outcomes: Sequence[Outcome], request: ClaimRequest | None = None) -> Recorded:
        before = {job_id: dict(kept) for job_id, kept in self.data.executions.items()}
        recorded: Recorded = await super().record(outcomes, request)
        after = {outcome.job_id: dict(self.data.executions[outcome.job_id]) for outcome in outcomes}
        for job_id in after:
            self.data.executions[job_id] = before.get(job_id, {})
        for _ in range(50):
            await asyncio.sleep(0)
        self.data.executions.update(after)
        return recorded


class ForgetsTheClaimOfAGroup(Faulty):
    found_by = ("test_record_and_claim_in_one_call", "test_an_empty_group")

    async def record(self, outcomes: Sequence[Outcome], request: ClaimRequest | None = None) -> Recorded:
        recorded = await super().record(outcomes)
        return replace(recorded, claimed=Claimed() if request else None)


class KeepsHistoryByAttempt(Faulty):
    found_by = ("test_history_is_kept_by_claim", "test_retrying_by_hand")

    def _apply(self, outcome: Outcome) -> bool:
        kept = self.data.executions[outcome.job_id]
        applied: bool = super()._apply(outcome)
        if applied and outcome.execution:
            for claim, entry in list(kept.items()):
                if claim != outcome.claim and entry.attempt == outcome.execution.attempt:
                    del kept[claim]
        return applied


class HidesTheRunningAttempt(Faulty):
    found_by = ("test_the_attempt_under_way_is_shown",)

    async def executions(self, job_id: str) -> list[Execution]:
        found = await super().executions(job_id)
        return [entry for entry in found if entry.status is not ExecutionStatus.RUNNING]


class LooksForTheKeyFirst(Faulty):
    """Reads the holder, lets others run, and inserts."""

    found_by = ("test_racing_enqueues_of_one_key", "test_racing_bulks_of_the_same_keys")

    async def enqueue_many(self, jobs: Sequence[Job]) -> list[Job]:
        before = dict(self.data.jobs)
        kept: list[Job] = await super().enqueue_many(jobs)
        new = {job_id: job for job_id, job in self.data.jobs.items() if job_id not in before}
        for job_id in new:
            del self.data.jobs[job_id]
        await asyncio.sleep(0)
        self.data.jobs.update(new)
        return kept


class KeepsTheKeyOfLostJobs(Faulty):
    found_by = ("test_a_key_is_free_after_every_end", "test_the_key_of_a_lost_job")

    async def enqueue_many(self, jobs: Sequence[Job]) -> list[Job]:
        lost = {
            job.key: job
            for job in self.data.jobs.values()
            if job.key and job.status is JobStatus.FAILED and "WorkerLost" in (job.last_error or "")
        }
        if any(job.key in lost for job in jobs):
            return [replace(lost[job.key], existing=True) if job.key in lost else job for job in jobs]
        kept: list[Job] = await super().enqueue_many(jobs)
        return kept


class FreesTheKeyBetweenAttempts(Faulty):
    found_by = ("test_a_key_is_held_until_the_job_has_ended", "test_the_key_of_a_lost_job")

    def _apply(self, outcome: Outcome) -> bool:
        applied: bool = super()._apply(outcome)
        if applied and outcome.status is JobStatus.QUEUED:
            self._change(outcome.job_id, key=None)
        return applied


class RetriesOverAHeldKey(Faulty):
    found_by = ("test_retrying_by_hand_needs_the_key", "test_racing_a_retry_by_hand_with_an_enqueue")

    async def requeue(self, job_id: str) -> bool:
        key = self.data.jobs[job_id].key if job_id in self.data.jobs else None
        if key:
            self._change(job_id, key=None)
        requeued: bool = await super().requeue(job_id)
        if key:
            self._change(job_id, key=key)
        return requeued


class KeepsHalfABulk(Faulty):
    found_by = ("test_all_or_none", "test_a_firing_is_whole_or_nothing")

    async def enqueue_many(self, jobs: Sequence[Job]) -> list[Job]:
        kept: list[Job] = []
        for job in jobs:
            kept.extend(await super().enqueue_many([job]))
        return kept


class LeavesTheRunOfACancelledJob(Faulty):
    found_by = ("test_cancelling_a_running_job", "test_a_cancelled_run_does_not_come_back")

    async def cancel(self, job_id: str) -> bool:
        cancelled: bool = await super().cancel(job_id)
        if cancelled and self.data.executions[job_id]:
            claim, entry = self.data.executions[job_id].popitem()
            if entry.status is not ExecutionStatus.CANCELLED:
                self.data.executions[job_id][claim] = entry
        return cancelled


class RestartsClaimsOnARetry(Faulty):
    found_by = ("test_retrying_by_hand", "test_history_is_kept_by_claim")

    async def requeue(self, job_id: str) -> bool:
        requeued: bool = await super().requeue(job_id)
        if requeued:
            self._change(job_id, claims=0)
        return requeued


class RestartSchedules(Faulty):
    found_by = ("test_a_stored_time_is_kept",)

    async def register_schedules(self, states: Sequence[ScheduleState]) -> None:
        for state in states:
            self.data.schedules.pop(state.name, None)
        await super().register_schedules(states)


class FiresWhateverItReads(Faulty):
    found_by = ("test_only_the_expected_time_fires", "test_racing_to_fire")

    async def fire_schedule(self, name: str, **values: Any) -> list[Job] | None:
        state = self.data.schedules.get(name)
        if state is None:
            return None
        fired: list[Job] | None = await super().fire_schedule(name, **{**values, "expected": state.next_run_at})
        return fired


class SavesOverTheCode(Faulty):
    found_by = ("test_what_the_code_declares_is_not_saved_over",)

    async def save_schedule(self, state: ScheduleState) -> bool:
        await self.register_schedules([replace(state, source="data")])
        return True


class CountsNoSkips(Faulty):
    found_by = ("test_a_firing_that_meets_its_last_job",)

    async def fire_schedule(self, name: str, **values: Any) -> list[Job] | None:
        fired: list[Job] | None = await super().fire_schedule(name, **values)
        if name in self.data.schedules:
            self.data.schedules[name] = replace(self.data.schedules[name], skips=0)
        return fired


class ForgetsExpiries(Faulty):
    found_by = ("test_an_expiry_is_kept", "test_a_claim_after_the_expiry", "test_an_expired_job_holds_no_key")

    async def enqueue_many(self, jobs: Sequence[Job]) -> list[Job]:
        kept: list[Job] = await super().enqueue_many([replace(job, expires_at=None) for job in jobs])
        return kept


class ForgetsThatItWasHandedBack(Faulty):
    found_by = ("test_a_job_that_was_handed_back",)

    def _apply(self, outcome: Outcome) -> bool:
        applied: bool = super()._apply(replace(outcome, hand_backs=0))
        return applied


class KeepsTheExpiryOfARetriedJob(Faulty):
    found_by = ("test_retrying_an_expired_job",)

    async def requeue(self, job_id: str) -> bool:
        before = self.data.jobs.get(job_id)
        requeued: bool = await super().requeue(job_id)
        if requeued:
            self._change(job_id, expires_at=before.expires_at)
        return requeued


class SaysWhenAnExpiredJobStarted(Faulty):
    found_by = ("test_a_claim_after_the_expiry",)

    def _apply(self, outcome: Outcome) -> bool:
        applied: bool = super()._apply(replace(outcome, started_at=self.clock.now()))
        return applied


class ListsPayloads(Faulty):
    found_by = ("test_large_columns_stay_in_the_store",)

    async def list(self, **filters: Any) -> Page:
        page = await super().list(**filters)
        return replace(page, jobs=[self.data.jobs[job.id] for job in page.jobs])


class PagesByPosition(Faulty):
    found_by = ("test_pages_hold_their_place",)

    async def list(self, *, limit: int = 100, cursor: str | None = None, **filters: Any) -> Page:
        start = int(cursor or 0)
        jobs = (await super().list(limit=1_000_000, **filters)).jobs
        end = start + limit
        return Page(jobs[start:end], str(end) if len(jobs) > end else None)


class EndsTextAtNul(Faulty):
    found_by = ("test_results", "test_an_outcome_no_store_takes_fails_alone")

    def _apply(self, outcome: Outcome) -> bool:
        if outcome.result is not None:
            outcome = replace(outcome, result=outcome.result.split(b"\0")[0])
        if outcome.last_error is not None:
            outcome = replace(outcome, last_error=outcome.last_error.split("\0")[0])
        applied: bool = super()._apply(outcome)
        return applied


class RoundsInstants(Faulty):
    found_by = ("test_instants",)

    def _apply(self, outcome: Outcome) -> bool:
        applied: bool = super()._apply(replace(outcome, run_at=round(outcome.run_at, 3)))
        return applied


class KnowsOnlySmallLetters(Faulty):
    found_by = ("test_queue_names", "test_other_keys_are_other_jobs")

    async def enqueue_many(self, jobs: Sequence[Job]) -> list[Job]:
        small = [replace(job, queue=job.queue.lower(), key=job.key and job.key.lower().strip()) for job in jobs]
        kept: list[Job] = await super().enqueue_many(small)
        return kept


class CountsDelayedJobsAsReady(Faulty):
    found_by = ("test_the_figures_of_each_queue",)

    async def stats(self) -> Any:
        stats = await super().stats()
        queues = [replace(queue, ready=queue.ready + queue.delayed, delayed=0) for queue in stats.queues]
        return replace(stats, queues=queues)


# Those of this module, whatever else is imported.
FAULTS = [fault for fault in Faulty.__subclasses__() if fault.__module__ == __name__]
