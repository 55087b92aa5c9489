"""Looking at jobs and steering them, by both faces."""

import pytest

from tinyjobs.core.errors import ConfigurationError, JobNotFoundError
from tinyjobs.core.status import JobStatus


@pytest.fixture
def task(any_app):
    @any_app.task(name="sample", queue="a")
    def sample(): ...

    return sample


def test_get_answers_none_for_an_unknown_id(any_app, call):
    assert call(any_app, "get", "nothing") is None
    assert call(any_app, "executions", "nothing") == []


def test_a_job_is_named_by_its_id_or_by_itself(any_app, call, task):
    job = task.enqueue()
    assert call(any_app, "get", job) == call(any_app, "get", job.id) == job
    with pytest.raises(TypeError, match="by its id"):
        call(any_app, "get", 5)


def test_cancel_and_retry(any_app, call, task):
    job = task.enqueue()
    assert call(any_app, "retry", job) is False
    assert call(any_app, "cancel", job.id) is True
    assert call(any_app, "get", job).status is JobStatus.CANCELLED
    assert call(any_app, "cancel", job) is False
    assert call(any_app, "retry", job.id) is True
    assert call(any_app, "get", job).status is JobStatus.QUEUED


def test_retry_is_refused_while_another_job_holds_the_key(any_app, call, task):
    view = task.with_options(key="k")
    first = view.enqueue()
    any_app.cancel(first)
    second = view.enqueue()
    assert second.id != first.id
    assert call(any_app, "retry", first) is False


def test_delete_takes_ended_jobs_alone(any_app, call, task):
    job = task.enqueue()
    assert call(any_app, "delete", job) is False
    any_app.cancel(job)
    assert call(any_app, "delete", job.id) is True
    assert call(any_app, "get", job) is None
    with pytest.raises(JobNotFoundError):
        call(any_app, "delete", job)


@pytest.mark.parametrize("verb", ["cancel", "retry", "delete"])
def test_steering_a_job_that_is_not_there_is_an_error(any_app, call, verb):
    with pytest.raises(JobNotFoundError, match="no job of the id 'nothing'"):
        call(any_app, verb, "nothing")


def test_listing_filters_and_pages(any_app, call, task):
    jobs = [task.enqueue() for _ in range(5)]
    other = any_app.send("other", queue="b")
    any_app.cancel(jobs[0])
    ids = [job.id for job in jobs]
    assert [job.id for job in call(any_app, "list", queue="a").jobs] == ids[::-1]
    assert [job.id for job in call(any_app, "list", task="other").jobs] == [other.id]
    assert [job.id for job in call(any_app, "list", status="cancelled").jobs] == ids[:1]
    assert [job.id for job in call(any_app, "list", status=JobStatus.QUEUED, queue="a").jobs] == ids[:0:-1]
    page = call(any_app, "list", queue="a", limit=2)
    rest = call(any_app, "list", queue="a", cursor=page.cursor)
    assert [job.id for job in page.jobs + rest.jobs] == ids[::-1]
    assert rest.cursor is None


def test_listing_looks_for_texts_a_bounded_way(any_app, call, task):
    first, *_ = [any_app.send("other", (f"Number {number}",), queue="b") for number in range(4)]
    assert [job.id for job in call(any_app, "list", text="NUMBER 0").jobs] == [first.id]
    page = call(any_app, "list", text="number 0", scan=3)
    assert page.jobs == [] and page.cursor is not None
    assert [job.id for job in call(any_app, "list", text="number 0", scan=3, cursor=page.cursor).jobs] == [first.id]


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("text", 5),
        ("scan", 0),
        ("status", "done"),
        ("status", 5),
        ("limit", 0),
        ("limit", 10**6),
        ("queue", "a,b"),
        ("task", ""),
    ],
)
def test_wrong_filters_are_refused(any_app, call, option, wrong):
    with pytest.raises(ConfigurationError, match=rf"app\.list\(\): {option}"):
        call(any_app, "list", **{option: wrong})


def test_stats(any_app, call, task, clock):
    task.enqueue()
    task.with_options(delay=60).enqueue()
    stats = call(any_app, "stats")
    (queue,) = stats.queues
    assert (queue.name, queue.ready, queue.delayed, stats.next_due) == ("a", 1, 1, clock.now() + 60)
