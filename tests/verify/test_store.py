"""The store of a run by itself: refused where others would meddle, watched by one look, told of as it is afterwards."""

from dataclasses import replace

import pytest

from tests.verify.conftest import look
from tinyjobs.app.facade import TinyJobs
from tinyjobs.cli.main import main
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Page, QueueStats, Stats
from tinyjobs.core.watching import SILENT_AFTER, WorkerSeen
from tinyjobs.operations.verify import store

WORKER = WorkerSeen(worker_id="box:7:abc", host="box", pid=7, version="1", started_at=1.0, threads=4)


def beat(app: TinyJobs, worker: WorkerSeen) -> None:
    app.setup()
    finish(app.engine.store.inline().beat(worker))


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/scratch.db"


@pytest.fixture
def clock():
    return FrozenClock()


@pytest.fixture
def app(url, clock):
    with TinyJobs(url, clock=clock) as made:
        yield made


def test_a_worker_of_every_queue_is_refused_before_anything_runs(url, capsys):
    with look(url) as app:
        beat(app, WORKER)
    assert main(["verify", url]) == 2
    printed = capsys.readouterr()
    assert "worker box:7:abc serves every queue of it, and would take jobs of the run" in printed.err
    assert "Stop it, or start it with --queues" in printed.err
    # Nothing is said to begin that does not.
    assert printed.out == "" and "jobs a second" not in printed.err
    with look(url) as app:
        assert not app.list().jobs


def test_a_worker_that_has_gone_silent_is_none(app, clock):
    beat(app, WORKER)
    clock.advance(SILENT_AFTER)
    with pytest.raises(ConfigurationError, match="serves every queue"):
        store.open_empty(app)
    clock.advance(1)
    store.open_empty(app)


@pytest.mark.parametrize("changes", [{"queues": ("mail",)}, {"is_stopping": True}])
def test_a_worker_that_takes_no_job_of_the_run_is_let_be(app, changes):
    beat(app, replace(WORKER, **changes))
    store.open_empty(app)


class Restless:
    """A store of one job, which after each look is claimed, or is given back."""

    def __init__(self, status: str) -> None:
        self.status = status

    def _move_on(self) -> None:
        self.status = "running" if self.status == "queued" else "queued"

    def list(self, *, status: str, **filters: object) -> Page:
        found = Page(jobs=[object()] if status == self.status else [])
        self._move_on()
        return found

    def stats(self) -> Stats:
        is_running = self.status == "running"
        self._move_on()
        return Stats(now=0.0, queues=[QueueStats(name="q", ready=not is_running, running=is_running)])


@pytest.mark.parametrize("status", ["queued", "running"])
def test_a_job_that_moves_between_two_looks_is_not_taken_for_settled(status):
    assert not store.is_settled(Restless(status), "q")


def test_a_queue_is_settled_once_its_jobs_have_ended_whatever_other_queues_hold(app):
    app.send("a.task", queue="q")
    app.send("a.task", queue="other")
    assert not store.is_settled(app, "q")
    store.cancel_rest(app, "q")
    assert store.is_settled(app, "q")
    assert not store.is_settled(app, "other")


class Miscounting:
    """An app whose store has lost count: its figures are off by so many jobs."""

    def __init__(self, app: TinyJobs, off: int) -> None:
        self._app = app
        self._off = off

    def __getattr__(self, name: str) -> object:
        return getattr(self._app, name)

    def stats(self) -> Stats:
        told = self._app.stats()
        return replace(told, by_status={**told.by_status, "success": told.by_status.get("success", 0) + self._off})


@pytest.mark.parametrize("off", [-3, 2])
def test_a_store_that_has_lost_count_is_told_of_in_plain_words(app, off):
    app.setup()
    assert store.clear(Miscounting(app, off), "q", 0, keep=False) == (
        False,
        f"no job is left in the store, and yet its figures count {off}",
    )


def test_jobs_that_a_purge_leaves_are_counted_one_by_one(app):
    app.send("a.task", queue="q")
    assert store.clear(Miscounting(app, -3), "q", 1, keep=False) == (False, "1 job was left in the store")


def test_jobs_of_others_are_counted_one_by_one(app):
    app.send("a.task", queue="other")
    is_cleared, told = store.clear(Miscounting(app, -3), "q", 0, keep=False)
    assert is_cleared and told.startswith("1 other job has appeared in the store meanwhile")
