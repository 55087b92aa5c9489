"""Each way in which numbers may fail to match, on values made by hand."""

from dataclasses import replace

import pytest

from tinyjobs.core.job import Execution, Job
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.operations.verify.ledger import Run
from tinyjobs.operations.verify.reckoning import Kept, reckon
from tinyjobs.operations.verify.sending import Sent

LEASE = 5.0


def execution(claim, status=ExecutionStatus.SUCCESS, start=100.0, lasted=0.05):
    return Execution(
        job_id="j1",
        attempt=claim,
        claim=claim,
        status=status,
        worker_id="w",
        started_at=start,
        finished_at=start + lasted,
    )


def job(**changes):
    made = Job(id="j1", task="t", status=JobStatus.SUCCESS, claims=1, created_at=99.0, finished_at=100.05)
    return replace(made, **changes)


class Scene:
    """One job that was sent, ran and succeeded; a test changes one thing."""

    def __init__(self):
        self.sent = Sent(ids={1: {"j1"}})
        self.kept = [Kept(job(), 1, "token", [execution(1)])]
        self.applied = frozenset({1})
        self.runs = [Run(1, 1, "j1", 1, "token", True)]

    def reckon(self):
        return reckon(self.sent, self.kept, self.applied, self.runs, LEASE)


@pytest.fixture
def scene():
    return Scene()


BREACHES = ("lost", "unacknowledged", "unknown", "twice", "missing", "phantoms", "repeated")
BREACHES += ("too_early", "overlapping", "untraced", "usurped")


def breaches(found):
    return {name: getattr(found, name) for name in BREACHES if getattr(found, name)}


def test_nothing_is_wrong(scene):
    found = scene.reckon()
    assert breaches(found) == {}
    assert found.by_status == {JobStatus.SUCCESS: 1}
    assert found.unfinished == 0
    assert found.latencies == [pytest.approx(1.05)]


def test_a_loss_and_a_phantom_do_not_cancel_out(scene):
    scene.sent.ids[2] = {"j2"}
    scene.kept.append(Kept(job(id="j9"), 9, "token", [execution(1)]))
    scene.runs.append(Run(2, 9, "j9", 1, "token", True))
    scene.applied = frozenset({1, 9})
    assert breaches(scene.reckon()) == {"lost": {2}, "missing": {2}, "unknown": {9}, "phantoms": {9}}


def test_a_send_that_failed_and_was_kept(scene):
    scene.sent = Sent(failed={1})
    assert breaches(scene.reckon()) == {"unacknowledged": {1}}


def test_two_jobs_with_one_number(scene):
    scene.kept.append(Kept(job(id="j2"), 1, "token", [execution(1)]))
    scene.runs.append(Run(2, 1, "j2", 1, "token", True))
    assert breaches(scene.reckon()) == {"twice": {1}}


def test_a_race_for_a_key_that_took_too_long_is_excused(scene):
    scene.sent = Sent(ids={1: {"j1", "j2"}}, contested={1}, excused={1})
    scene.kept.append(Kept(job(id="j2"), 1, "token", [execution(1)]))
    scene.runs.append(Run(2, 1, "j2", 1, "token", True))
    assert breaches(scene.reckon()) == {}
    scene.sent.excused.clear()
    assert breaches(scene.reckon()) == {"twice": {1}}


def test_a_side_effect_that_never_happened(scene):
    scene.applied = frozenset()
    assert breaches(scene.reckon()) == {"missing": {1}}


def test_arguments_that_cannot_be_read(scene):
    scene.kept.append(Kept(job(id="j2"), None, "token", [execution(1)]))
    scene.runs.append(Run(2, 9, "j2", 1, "token", True))
    assert breaches(scene.reckon()) == {"unknown": {-1}}


def taken_back(scene, lasted, second_start):
    lost = execution(1, ExecutionStatus.LOST, lasted=lasted)
    scene.kept = [Kept(job(claims=2), 1, "token", [lost, execution(2, start=second_start)])]
    scene.runs.append(Run(2, 1, "j1", 2, "token", True))
    return breaches(scene.reckon())


def test_a_job_that_came_back_after_its_lease_ran_again_as_it_may(scene):
    assert taken_back(scene, LEASE + 0.5, 106.0) == {"repeated": {1}}


def test_a_job_taken_from_a_worker_that_had_it(scene):
    assert taken_back(scene, LEASE - 1, 106.0) == {"repeated": {1}, "too_early": {1}}


def test_an_attempt_that_began_before_the_one_before_had_ended(scene):
    assert taken_back(scene, LEASE + 0.5, 103.0) == {"repeated": {1}, "overlapping": {1}}


@pytest.mark.parametrize(
    "history",
    [[], [execution(1, ExecutionStatus.FAILED)], [execution(1), execution(2)], [execution(2)]],
    ids=["none", "of a failure", "of two successes", "of another claim"],
)
def test_a_success_without_the_history_of_one(scene, history):
    scene.kept = [Kept(job(), 1, "token", history)]
    assert "untraced" in breaches(scene.reckon())


def test_a_run_that_the_history_does_not_know(scene):
    scene.runs.append(Run(2, 1, "j1", 2, "other", True))
    assert breaches(scene.reckon()) == {"untraced": {1}}


def test_a_run_that_began_after_the_job_was_read(scene):
    """As where the time to settle was over and workers went on: the ledger is read last."""
    scene.applied = frozenset({1})
    scene.kept = [Kept(job(status=JobStatus.QUEUED, claims=0, finished_at=None), 1, None, [])]
    assert breaches(scene.reckon()) == {}
    scene.kept = [Kept(job(status=JobStatus.RUNNING, claims=1, finished_at=None), 1, None, [])]
    assert breaches(scene.reckon()) == {"untraced": {1}}


def test_a_result_of_a_run_whose_claim_no_longer_held(scene):
    lost = execution(1, ExecutionStatus.LOST, lasted=LEASE)
    scene.kept = [Kept(job(claims=2), 1, "token", [lost, execution(2, start=106.0)])]
    scene.runs.append(Run(2, 1, "j1", 2, "other", True))
    assert breaches(scene.reckon()) == {"repeated": {1}, "usurped": {1}}


def test_what_has_not_ended_and_what_ended_badly_is_counted(scene):
    scene.kept += [Kept(job(id=f"q{n}", status=status, finished_at=None), 1 + n, None, []) for n, status in NOT_WELL]
    scene.sent.ids |= {1 + n: {f"q{n}"} for n, _ in NOT_WELL}
    found = scene.reckon()
    assert found.unfinished == 2
    assert found.by_status[JobStatus.FAILED] == found.by_status[JobStatus.CANCELLED] == 1
    assert len(found.latencies) == 1


NOT_WELL = list(enumerate((JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.FAILED, JobStatus.CANCELLED), 1))
