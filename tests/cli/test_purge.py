"""`purge`: the rule it goes by, what it deletes and keeps, the dry run, wrong ages, and an interrupt."""

import signal

import pytest

from tests.cli.test_commands import Answer, store
from tests.taskbackend.shop import tasks
from tinyjobs.cli import purge as command
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.inline import finish
from tinyjobs.core.retention import BATCH
from tinyjobs.taskbackend.shared import use_clock
from tinyjobs.taskbackend.working import drain_here

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("each_store")]
NONE = {"success": 0, "cancelled": 0, "failed": 0}


@pytest.fixture(autouse=True)
def clock():
    clock = FrozenClock(2_000_000_000.0)
    use_clock(clock)
    yield clock
    use_clock(None)


@pytest.fixture
def ended():
    """Three jobs that succeeded, two that failed, one that was cancelled and one that has not ended."""
    tasks.noop.enqueue_many([()] * 3)
    tasks.fail.enqueue_many([()] * 2)
    drain_here()
    cancelled = tasks.noop.enqueue()
    finish(store().cancel(cancelled.id))
    return tasks.noop.enqueue()


def test_jobs_of_today_are_kept_and_it_says_by_which_rule(ended):
    text = Answer("purge").out
    assert "success: those that ended 7 d ago or earlier" in text
    assert "failed: those that ended 30 d ago or earlier" in text
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()[-3:]}
    assert rows == {"success": ["0", "3"], "cancelled": ["0", "1"], "failed": ["0", "2"]}


def test_by_the_retention(ended, clock):
    clock.advance(8 * 86_400.0)
    answer = Answer("purge", "--json").value
    assert answer["deleted"] == {"success": 3, "cancelled": 1, "failed": 0}
    assert answer["kept"] == {"success": 0, "cancelled": 0, "failed": 2}
    assert answer["older_than_seconds"] == {"success": 7 * 86_400.0, "cancelled": 7 * 86_400.0, "failed": 30 * 86_400.0}


@pytest.mark.parametrize("options", [[], ["--status", "success"], ["--status", "failed", "--status", "cancelled"]])
@pytest.mark.parametrize("age", ["0", "1h"])
def test_a_dry_run_counts_what_the_real_one_deletes(ended, clock, options, age):
    clock.advance(1_800.0)
    tasks.noop.enqueue()
    drain_here()
    clock.advance(1_800.0)
    arguments = ["purge", "--older-than", age, "--json", *options]
    before = finish(store().counts_by_status())
    dry = Answer(*arguments, "--dry-run").value
    assert finish(store().counts_by_status()) == before
    real = Answer(*arguments).value
    assert (dry["dry_run"], real["dry_run"]) == (True, False)
    assert (dry["deleted"], dry["kept"]) == (real["deleted"], real["kept"])
    assert dry["deleted"] != NONE
    left = finish(store().counts_by_status())
    assert real["kept"] == {status: left[status] for status in NONE}
    assert left["queued"] == before["queued"]


def test_age_nought_takes_what_has_just_ended(ended):
    assert Answer("purge", "--older-than", "0", "--json").value["deleted"] == {
        "success": 3,
        "cancelled": 1,
        "failed": 2,
    }
    assert "success: all that have ended" in Answer("purge", "--older-than", "0").out


@pytest.mark.parametrize("age", ["-1", "-1h", "soon", "", "1e999", "inf", "nan", "1 month"])
def test_a_wrong_age_is_refused_and_nothing_is_deleted(ended, age):
    answer = Answer("purge", f"--older-than={age}")
    assert answer.error is not None and "--older-than" in str(answer.error)
    assert finish(store().counts_by_status())["success"] == 3


def test_a_wrong_age_from_a_program_is_refused_as_well(ended):
    answer = Answer("purge", older_than=-5)
    assert "--older-than: -5" in str(answer.error)
    assert answer.error.returncode == 2


@pytest.mark.parametrize(("age", "seconds"), [("90", 90), ("90s", 90), ("1.5min", 90), ("2h", 7_200), ("1w", 604_800)])
def test_how_an_age_is_written(ended, age, seconds):
    assert Answer("purge", "--older-than", age, "--json").value["older_than_seconds"]["failed"] == seconds


def test_what_the_settings_keep_for_ever_is_said_and_kept(ended, clock, settings):
    entry = settings.TASKS["default"]
    options = {**entry.get("OPTIONS", {}), "retention": {"failed": 0}}
    settings.TASKS = {"default": {**entry, "OPTIONS": options}}
    clock.advance(10_000 * 86_400.0)
    answer = Answer("purge")
    assert "failed: kept for ever" in answer.out
    assert finish(store().counts_by_status())["failed"] == 2


def test_a_large_purge_says_how_far_it_is(monkeypatch):
    monkeypatch.setattr(command, "_STEP", BATCH)
    tasks.noop.enqueue_many([()] * (2 * BATCH + 1))
    drain_here()
    lines = Answer("purge", "--older-than", "0").out.splitlines()
    assert [line for line in lines if " of " in line] == [
        f"{BATCH} of {2 * BATCH + 1} deleted",
        f"{2 * BATCH} of {2 * BATCH + 1} deleted",
    ]


def test_an_interrupt_keeps_what_was_deleted(monkeypatch, ended):
    real = type(store()).purge
    calls = []

    async def purge(self, status, older_than, limit=BATCH):
        calls.append(status)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return await real(self, status, older_than, limit)

    monkeypatch.setattr(type(store()), "purge", purge)
    answer = Answer("purge", "--older-than", "0")
    assert (str(answer.error), answer.error.returncode) == (
        "Interrupted. 3 jobs were deleted before, and stay so.",
        130,
    )
    assert finish(store().counts_by_status())["success"] == 0
    assert finish(store().counts_by_status())["failed"] == 2
