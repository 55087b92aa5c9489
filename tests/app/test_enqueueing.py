"""Bringing jobs into the store: what a call becomes, what is refused in the caller's own traceback."""

import asyncio
import enum
import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tinyjobs.core.errors import ConfigurationError, SerializationError, UnsupportedCapabilityError
from tinyjobs.core.status import JobStatus


def task_of(app, **options):
    @app.task(name="sample", **options)
    def sample(first, second=2, *, third=3): ...

    return sample


def arguments(app, job):
    stored = app.get(job)
    return app.engine.codecs.get(stored.codec).decode_call(stored.payload)


def test_a_job_is_stored_as_it_was_called(any_app, call, clock):
    task = task_of(any_app, queue="mail", priority=4, max_attempts=3)
    job = call(task, "enqueue", 1, second=b"x", third={"a": (1, 2)})
    assert job.id and job.status is JobStatus.QUEUED and not job.existing
    stored = call(any_app, "get", job.id)
    assert stored == job
    assert (stored.task, stored.queue, stored.priority, stored.max_attempts) == ("sample", "mail", 4, 3)
    assert (stored.run_at, stored.created_at, stored.attempts) == (clock.now(), clock.now(), 0)
    assert arguments(any_app, job) == ((1,), {"second": b"x", "third": {"a": (1, 2)}})


def test_ids_increase_in_the_order_of_the_calls(app):
    task = task_of(app)
    ids = [task.enqueue(1).id for _ in range(50)]
    assert ids == sorted(set(ids))
    assert [job.id for job in app.list(limit=50).jobs] == ids[::-1]


@pytest.mark.parametrize(
    ("args", "kwargs", "complaint"),
    [
        ((), {}, "first"),
        ((1, 2, 3), {}, "too many positional"),
        ((1,), {"fourth": 4}, "fourth"),
        ((1,), {"first": 1}, "first"),
    ],
)
def test_arguments_are_checked_against_the_signature(app, call, args, kwargs, complaint):
    with pytest.raises(TypeError, match=f"the task sample cannot be called like this.*{complaint}"):
        call(task_of(app), "enqueue", *args, **kwargs)
    assert app.list().jobs == []


def test_every_kind_of_signature_is_checked_as_python_would(app):
    def nothing(): ...
    def keyword_only(*, key): ...
    def anything(*args, **kwargs): ...
    def positional_only(first, /, second): ...

    tasks = {function.__name__: app.task(function) for function in (nothing, keyword_only, anything, positional_only)}
    tasks["nothing"].enqueue()
    tasks["keyword_only"].enqueue(key=1)
    tasks["anything"].enqueue(1, 2, key=3)
    tasks["positional_only"].enqueue(1, second=2)
    for name, args, kwargs in [
        ("nothing", (1,), {}),
        ("keyword_only", (), {}),
        ("keyword_only", (1,), {}),
        ("positional_only", (), {"first": 1, "second": 2}),
    ]:
        with pytest.raises(TypeError):
            tasks[name].enqueue(*args, **kwargs)


def test_a_value_that_cannot_be_stored_is_refused_with_its_path(app, call):
    with pytest.raises(SerializationError, match=r'args\[0\]\["deep"\]\[1\]: a value of type builtins\.object'):
        call(task_of(app), "enqueue", {"deep": [1, object()]})
    with pytest.raises(SerializationError, match=r'kwargs\["third"\]'):
        call(app.tasks["sample"], "enqueue", 1, third=object())
    assert app.list().jobs == []


def test_registered_types_come_back_as_themselves(app):
    from dataclasses import dataclass

    @app.codec.register_dataclass
    @dataclass
    class Money:
        cents: int

    job = task_of(app).enqueue(Money(5))
    assert arguments(app, job) == ((Money(5),), {})


def test_parameters_may_be_named_like_options(app):
    @app.task(name="named")
    def named(queue, priority, key, delay, codec, self=None): ...

    job = named.with_options(queue="q", priority=1, key="k").enqueue(
        queue="a", priority="b", key="c", delay="d", codec="e"
    )
    assert (job.queue, job.priority, job.key) == ("q", 1, "k")
    assert arguments(app, job)[1] == {"queue": "a", "priority": "b", "key": "c", "delay": "d", "codec": "e"}


# --- options of one enqueue -------------------------------------------------------------------------------------------


def test_a_view_overrides_and_leaves_the_task_as_it_is(any_app, call):
    task = task_of(any_app, queue="a", priority=1, max_attempts=1)
    view = task.with_options(queue="b", priority=-7, max_attempts=9, key="k")
    job = call(any_app, "get", call(view, "enqueue", 1))
    assert (job.queue, job.priority, job.max_attempts, job.key) == ("b", -7, 9, "k")
    plain = call(any_app, "get", call(task, "enqueue", 1))
    assert (plain.queue, plain.priority, plain.max_attempts, plain.key) == ("a", 1, 1, None)


def test_views_of_views_add_up_and_the_last_word_counts(app):
    first = task_of(app).with_options(queue="a", priority=1)
    second = first.with_options(priority=2, delay=5)
    assert [(job.queue, job.priority) for job in (second.enqueue(1), first.enqueue(1))] == [("a", 2), ("a", 1)]
    when = datetime(2030, 1, 1, tzinfo=UTC)
    assert second.with_options(run_at=when).enqueue(1).run_at == when.timestamp()


def test_none_leaves_the_tasks_own_value(app):
    view = task_of(app, queue="own").with_options(queue=None, priority=None, delay=None, run_at=None, key=None)
    assert view.enqueue(1).queue == "own"


def test_a_delay_counts_from_each_enqueue(app, clock):
    view = task_of(app).with_options(delay=timedelta(seconds=10))
    assert view.enqueue(1).run_at == clock.now() + 10
    clock.advance(100)
    assert view.enqueue(1).run_at == clock.now() + 10


@pytest.mark.parametrize(
    "when",
    [
        {"delay": 0},
        {"delay": -(10**9)},
        {"delay": -(10**400)},
        {"delay": float("-inf")},
        {"delay": timedelta.min},
        {"run_at": datetime(1, 1, 1, tzinfo=UTC)},
        {"run_at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))},
        {"run_at": datetime(1969, 12, 31, tzinfo=UTC)},
    ],
)
def test_a_time_in_the_past_is_due_now(app, when, clock):
    ran = []

    @app.task(name="past")
    def past():
        ran.append(1)

    job = past.with_options(**when).enqueue()
    assert 0 <= job.run_at <= clock.now()
    stats = app.stats()
    assert [(queue.ready, queue.delayed) for queue in stats.queues] == [(1, 0)]


@pytest.mark.parametrize(
    "when",
    [
        {"delay": 10**12},
        {"delay": 10**400},
        {"delay": float("inf")},
        {"delay": timedelta.max},
        {"delay": float("nan")},
        {"delay": "5"},
        {"delay": True},
        {"run_at": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=timezone(-timedelta(hours=12)))},
        {"run_at": datetime(9999, 1, 1, tzinfo=UTC)},
        {"run_at": datetime(2030, 1, 1)},
        {"run_at": 1_900_000_000},
        {"run_at": "tomorrow"},
        {"delay": 1, "run_at": datetime(2030, 1, 1, tzinfo=UTC)},
    ],
)
def test_a_time_no_store_keeps_is_refused(app, when):
    with pytest.raises(ConfigurationError, match=r"sample\.with_options\(\).*(delay|run_at)"):
        task_of(app).with_options(**when)
    assert app.list().jobs == []


def test_the_last_instant_is_kept_and_never_due(app, clock):
    when = datetime(9998, 12, 31, 23, 59, 59, tzinfo=UTC)
    job = task_of(app).with_options(run_at=when).enqueue(1)
    assert app.get(job).run_at == when.timestamp()
    assert app.stats().next_due == when.timestamp()


@pytest.mark.parametrize("priority", [-(2**31), -101, -100, 0, 100, 101, 2**31 - 1])
def test_priorities_of_32_bits_are_exact(any_app, priority):
    assert any_app.get(task_of(any_app).with_options(priority=priority).enqueue(1)).priority == priority


class Level(enum.IntEnum):
    HIGH = 10


class Name(str, enum.Enum):  # noqa: UP042 - its text is not its value
    MAIL = "mail"
    JSON = "json"


def test_members_of_enums_are_the_values_they_stand_for(any_app):
    job = task_of(any_app).with_options(priority=Level.HIGH, max_attempts=Level.HIGH, queue=Name.MAIL).enqueue(1)
    keyed = any_app.send("sample", (1,), key=Name.MAIL, codec=Name.JSON)
    stored = any_app.get(job)
    assert (stored.priority, stored.max_attempts, stored.queue) == (10, 10, "mail")
    assert (any_app.get(keyed).key, any_app.get(keyed).codec) == ("mail", "json")


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("priority", 2**31),
        ("priority", 2**63),
        ("priority", -(2**31) - 1),
        ("priority", 1.5),
        ("priority", True),
        ("queue", "a,b"),
        ("queue", 5),
        ("key", ""),
        ("key", "a\x00"),
        ("key", "\ud800"),
        ("key", "k" * 1025),
        ("key", 5),
        ("max_attempts", 0),
        ("codec", "yaml"),
        ("timeout", 5),
        ("retry_on", ValueError),
        ("store_result", True),
        ("colour", "red"),
    ],
)
def test_wrong_options_of_an_enqueue_are_refused(app, option, wrong):
    with pytest.raises(ConfigurationError, match=rf"sample\.with_options\(\).*{option}"):
        task_of(app).with_options(**{option: wrong})
    with pytest.raises(ConfigurationError, match=rf"app\.send\('sample'\).*{option}"):
        app.send("sample", (1,), **{option: wrong})


@pytest.mark.parametrize("option", ["after", "isolated"])
def test_options_of_a_later_release_are_refused(app, option):
    with pytest.raises(UnsupportedCapabilityError, match=f"{option} is not available in this release"):
        task_of(app).with_options(**{option: object()})
    with pytest.raises(UnsupportedCapabilityError, match=f"{option} is not available in this release"):
        app.send("sample", (1,), **{option: object()})


def test_a_store_that_cannot_keep_an_option_refuses_the_enqueue(make_app):
    app = make_app("meagre://")
    task = task_of(app)
    task.enqueue(1)
    for options in ({"key": "k"}, {"delay": 5}, {"priority": 1}):
        with pytest.raises(UnsupportedCapabilityError, match="this store"):
            task.with_options(**options).enqueue(1)
    with pytest.raises(SerializationError, match="take 107 bytes, and this store keeps 40"):
        task.enqueue("x" * 98)
    assert len(app.list().jobs) == 1


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_held_key_gives_back_its_holder(any_app, call):
    view = task_of(any_app).with_options(key="only")
    first = call(view, "enqueue", 1)
    second = call(view, "enqueue", 2)
    assert (second.id, second.existing, first.existing) == (first.id, True, False)
    assert len(call(any_app, "list").jobs) == 1


@pytest.mark.parametrize("store", ["file", "memory", "looponly"])
def test_fifty_threads_with_one_key_get_one_job(make_app, tmp_path, store):
    app = make_app(f"sqlite:///{tmp_path}/jobs.db" if store == "file" else f"{store}://")
    view = task_of(app).with_options(key="only")
    barrier = threading.Barrier(50)
    jobs, errors = [], []

    def enqueue(number):
        barrier.wait()
        try:
            jobs.append(view.enqueue(number))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=enqueue, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [job.existing for job in jobs].count(False) == 1
    assert len({job.id for job in jobs}) == 1
    assert len(app.list().jobs) == 1


# --- many -------------------------------------------------------------------------------------------------------------


def test_many_are_kept_in_order(any_app, call):
    task = task_of(any_app, queue="bulk")
    jobs = call(task, "enqueue_many", [(1,), [2, 3], {"first": 4, "third": 5}])
    assert [job.id for job in jobs] == sorted(job.id for job in jobs)
    assert [arguments(any_app, job) for job in jobs] == [
        ((1,), {}),
        ((2, 3), {}),
        ((), {"first": 4, "third": 5}),
    ]
    assert {job.queue for job in jobs} == {"bulk"}


def test_many_may_be_none_and_may_be_a_generator(app, call):
    task = task_of(app)
    assert call(task, "enqueue_many", []) == []
    assert len(call(task, "enqueue_many", ((number,) for number in range(3)))) == 3


@pytest.mark.parametrize(
    ("wrong", "error"), [((), TypeError), (42, TypeError), ("ab", TypeError), ((object(),), SerializationError)]
)
def test_one_wrong_item_keeps_all_out_and_is_named(app, call, wrong, error):
    with pytest.raises(error, match="item 1 of enqueue_many"):
        call(task_of(app), "enqueue_many", [(1,), wrong, (3,)])
    assert app.list().jobs == []


def test_many_take_the_options_of_a_view(app, call):
    jobs = call(task_of(app).with_options(priority=3, delay=60), "enqueue_many", [(1,), (2,)])
    assert [(job.priority, job.run_at - job.created_at) for job in jobs] == [(3, 60), (3, 60)]


# --- by name ----------------------------------------------------------------------------------------------------------


def test_a_job_can_be_sent_by_name_alone(any_app, call):
    job = call(any_app, "send", "ml.train", (1,), {"deep": True}, queue="gpu", priority=5)
    stored = call(any_app, "get", job)
    assert (stored.task, stored.queue, stored.priority, stored.max_attempts) == ("ml.train", "gpu", 5, 1)
    assert arguments(any_app, stored) == ((1,), {"deep": True})


def test_a_name_known_here_brings_its_options(app):
    task_of(app, queue="own", max_attempts=4)
    job = app.send("sample")
    assert (job.queue, job.max_attempts) == ("own", 4)


def test_send_checks_no_signature_but_the_name_and_the_values(app, call):
    task_of(app)
    call(app, "send", "sample", (1, 2, 3, 4, 5))
    with pytest.raises(ConfigurationError, match="name"):
        call(app, "send", "")
    with pytest.raises(SerializationError, match=r"args\[0\]"):
        call(app, "send", "sample", (object(),))
    for args, kwargs in [("text", None), (5, None), ((), ["x"]), (None, None)]:
        with pytest.raises(TypeError, match=r"app\.send\('sample'\): (args|kwargs) is a"):
            call(app, "send", "sample", args, kwargs)
    assert len(app.list().jobs) == 1


# --- pickle -----------------------------------------------------------------------------------------------------------


def test_the_codec_can_be_chosen_for_one_job(make_app):
    app = make_app(allow_pickle=True)
    job = task_of(app).with_options(codec="pickle").enqueue(range(3))
    assert app.get(job).codec == "pickle"
    assert arguments(app, job) == ((range(3),), {})


def test_pickle_is_refused_where_nobody_allowed_it(app):
    with pytest.raises(ConfigurationError, match="allow_pickle"):
        task_of(app).with_options(codec="pickle")
    with pytest.raises(ConfigurationError, match="allow_pickle"):
        app.send("sample", codec="pickle")


def test_refuse_pickle_wins_at_the_enqueue(make_app):
    app = make_app(allow_pickle=True, refuse_pickle=True)
    task = task_of(app, codec="pickle")
    with pytest.raises(ConfigurationError, match="refuse_pickle"):
        task.enqueue(1)
    assert app.list().jobs == []


def test_arguments_are_taken_as_they_were_at_the_call(app):
    value = [1]
    job = task_of(app).enqueue(value)
    value.append(2)
    assert arguments(app, job) == (([1],), {})


def test_enqueues_from_many_threads_and_loops_are_all_kept(tmp_path, make_app):
    app = make_app(f"sqlite:///{tmp_path}/jobs.db")
    task = task_of(app)
    barrier = threading.Barrier(8)
    kept, errors = [], []

    def work(number):
        async def awaited():
            return [(await task.aenqueue(number)).id for _ in range(20)]

        barrier.wait()
        try:
            kept.extend(asyncio.run(awaited()) if number % 2 else [task.enqueue(number).id for _ in range(20)])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert {job.id for job in app.list(limit=1000).jobs} == set(kept)
    assert len(kept) == 160
