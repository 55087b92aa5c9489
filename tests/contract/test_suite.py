"""The suite itself and the door it stands behind: what is skipped and why, and what comes from where."""

import subprocess
import sys
import unittest

import pytest

import tinyjobs.testing
from tests.contract.faults import TemplateStore
from tests.contract.test_faults import bound_to
from tinyjobs.backends.base import BaseBackend, Capabilities
from tinyjobs.core.errors import UnsupportedCapabilityError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Job, ScheduleState
from tinyjobs.core.transitions import ExecutionError


class PlainStore(TemplateStore):
    """Declares nothing beyond what every store does."""

    capabilities = Capabilities(priority=False, delayed=False)

    inline = BaseBackend.inline
    schedules = BaseBackend.schedules
    register_schedules = BaseBackend.register_schedules
    save_schedule = BaseBackend.save_schedule
    delete_schedule = BaseBackend.delete_schedule
    fire_schedule = BaseBackend.fire_schedule


def run(case: type[unittest.TestCase], name: str) -> unittest.TestResult:
    result = unittest.TestResult()
    case(name).run(result)
    return result


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("test_racing_to_fire", "schedules"),
        ("test_racing_enqueues_of_one_key", "dedup"),
        ("test_no_job_before_its_time", "delayed"),
        ("test_the_order_of_one_queue", "priority"),
    ],
)
def test_what_a_store_does_not_declare_is_skipped_with_the_reason(name, capability):
    result = run(bound_to(PlainStore), name)
    assert [reason for _, reason in result.skipped] == [f"PlainStore does not declare the capability '{capability}'"]


def test_what_every_store_must_do_is_never_skipped():
    for name in ("test_racing_claims_share_the_jobs", "test_stale_calls_change_nothing", "test_pages"):
        result = run(bound_to(PlainStore), name)
        assert (result.testsRun, result.skipped, result.failures, result.errors) == (1, [], [], [])


def test_without_a_synchronous_client_that_face_is_skipped():
    case = type("Case", (bound_to(PlainStore),), {"through_sync_face": True})
    result = run(case, "test_success")
    assert [reason for _, reason in result.skipped] == [
        "no synchronous face: PlainStore does not support synchronous calls in the caller's thread."
    ]


def test_the_suite_says_what_has_to_be_written():
    class Unfinished(tinyjobs.testing.BackendContract, unittest.IsolatedAsyncioTestCase):
        pass

    ((_, said),) = run(Unfinished, "test_success").errors
    assert "Write make_backend(clock)" in said


def test_defaults_refuse_what_a_store_does_not_keep():
    store = PlainStore()
    state = ScheduleState(name="n", cron="* * * * *", timezone="UTC", next_run_at=1.0)
    assert finish(store.schedules()) == []
    finish(store.register_schedules([]))
    for call in (
        store.register_schedules([state]),
        store.save_schedule(state),
        store.delete_schedule("n"),
        store.fire_schedule("n", expected=1.0, next_run_at=2.0, jobs=[]),
        store.wait_for_jobs(1.0),
    ):
        with pytest.raises(UnsupportedCapabilityError, match="PlainStore does not support"):
            finish(call)


def test_the_short_ways_to_end_a_claim():
    """`complete`, `fail`, `release` and `hand_back` are there for every store, in terms of `record`."""
    store = TemplateStore()
    finish(store.setup())
    request = ClaimRequest(worker_id="w", limit=9, lease=60.0)
    error = ExecutionError(error_type="ValueError", message="no")

    def claimed() -> Job:
        (job,) = finish(store.claim(request)).jobs
        return job

    finish(store.enqueue(Job(id="1", task="t", payload=b"", max_attempts=5)))
    job = claimed()
    assert finish(store.hand_back(job))
    assert not finish(store.hand_back(job))
    job = claimed()
    assert finish(store.release(job))
    assert not finish(store.release(job))
    assert finish(store.release_many([claimed(), job])) == 1
    assert finish(store.fail(claimed(), error, retry_at=0.0))
    job = claimed()
    assert finish(store.complete(job, b"1"))
    assert not finish(store.complete(job, b"2"))
    assert not finish(store.fail(job, error))
    found = finish(store.get("1"))
    assert (found.status, found.result, found.attempts, found.claims) == ("success", b"1", 2, 5)
    finish(store.close())


def test_the_door_offers_what_the_django_side_has():
    from tinyjobs.taskbackend import testing

    offered = set(tinyjobs.testing.__all__)
    assert offered - {"BackendContract", "FrozenClock"} == set(testing.__all__)
    for name in testing.__all__:
        assert getattr(tinyjobs.testing, name) is getattr(testing, name)
    assert offered <= set(dir(tinyjobs.testing))


def test_the_contract_needs_no_django():
    program = (
        "import sys\n"
        "from tinyjobs.testing import BackendContract, FrozenClock\n"
        "loaded = {name.split('.')[0] for name in sys.modules}\n"
        "assert not loaded & {'django', 'psycopg', 'redis'}, loaded\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'tinyjobs\.testing' has no attribute 'Nonsense'"):
        tinyjobs.testing.Nonsense  # noqa: B018
    assert not hasattr(tinyjobs.testing, "__path_that_is_not_there__")


def test_what_breaks_behind_the_door_is_not_taken_for_a_missing_name(monkeypatch):
    def fail(name: str) -> None:
        raise AttributeError("module 'thing' has no attribute 'part'")

    monkeypatch.delitem(vars(tinyjobs.testing), "drain", raising=False)
    monkeypatch.setattr(tinyjobs.testing, "import_module", fail)
    with pytest.raises(ImportError, match="module 'thing' has no attribute 'part'"):
        from tinyjobs.testing import drain  # noqa: F401
