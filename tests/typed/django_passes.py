"""Code of a Django project that every type checker must take as it is."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any, assert_type

from tinyjobs import task

if TYPE_CHECKING:
    from django.tasks import TaskContext


@task
def add(a: int, b: int = 1) -> int:
    return a + b


@task(max_attempts=3, retry_on=(OSError,), timeout=timedelta(seconds=5), cron="@daily", queue_name="mail")
async def greet(name: str = "", *, loud: bool = False) -> str:
    return name.upper() if loud else name


@task(takes_context=True, priority=5)
def ask(context: "TaskContext[..., Any]", question: str) -> int:
    return context.attempt


@task(takes_context=True)
async def ask_later(context: "TaskContext[..., Any]", question: str) -> float:
    return 1.5


def plain(a: int) -> bytes:
    return bytes(a)


made = task(plain, max_attempts=2)


def send() -> None:
    result = add.enqueue(1, b=2)
    assert_type(result.return_value, int)
    assert_type(result.existing, bool)
    assert_type(result.id, str)
    result.refresh()
    assert_type(greet.enqueue("x", loud=True).return_value, str)
    assert_type(greet.using(priority=5, key="x", run_after=timedelta(minutes=1)).enqueue("x").return_value, str)
    assert_type(ask.enqueue("why").return_value, int)
    assert_type(ask_later.using(queue_name="slow").enqueue(question="why").return_value, float)
    assert_type(made.enqueue(3).return_value, bytes)
    assert_type([found.return_value for found in add.enqueue_many([(1,), {"a": 2}])], list[int])
    assert_type(add.get_result("id").return_value, int)
    assert_type(add.call(1), int)
    assert_type(greet.call("x"), str)


async def send_from_a_loop() -> None:
    assert_type((await add.aenqueue(1)).return_value, int)
    assert_type((await greet.using(key="x").aenqueue("x")).return_value, str)
    assert_type(await add.acall(1), int)
    assert_type(await greet.acall("x"), str)
