"""Code of a Django project in which every marked line must fail: `# E: mypy's code, pyright's rule`."""

from typing import TYPE_CHECKING, Any, assert_type

from tinyjobs import task

if TYPE_CHECKING:
    from django.tasks import TaskContext


@task
def add(a: int, b: int = 1) -> int:
    return a + b


@task(max_attempts=2)
async def greet(name: str, *, loud: bool = False) -> str:
    return name


@task(takes_context=True)
def ask(context: "TaskContext[..., Any]", question: str) -> int:
    return context.attempt


add.enqueue("1")  # E: arg-type, reportArgumentType
add.enqueue()  # E: call-arg, reportCallIssue
add.enqueue(1, 2, 3)  # E: call-arg, reportCallIssue
add.enqueue(1, priority=5)  # E: call-arg, reportCallIssue
greet.enqueue("x", True)  # E: call-arg, reportCallIssue
greet.enqueue(name=1)  # E: arg-type, reportArgumentType
ask.enqueue()  # E: call-arg, reportCallIssue
ask.enqueue(7)  # E: arg-type, reportArgumentType
add.using(priority=5).enqueue("1")  # E: arg-type, reportArgumentType
add.using(priority=5).using(key="x").enqueue(1, c=1)  # E: call-arg, reportCallIssue
add.using(prioritee=5)  # E: arg-type, reportArgumentType
add.using(timeout=5)  # E: arg-type, reportArgumentType
add.using(priority="high")  # E: arg-type, reportArgumentType
add.enqueue_many([1, 2])  # E: list-item, reportArgumentType
add.call("1")  # E: arg-type, reportArgumentType
assert_type(add.enqueue(1).return_value, str)  # E: assert-type, reportAssertTypeFailure


async def send() -> None:
    await add.aenqueue("1")  # E: arg-type, reportArgumentType
    await greet.using(key="x").aenqueue()  # E: call-arg, reportCallIssue
    greet.aenqueue("x")  # E: unused-coroutine, reportUnusedCoroutine


@task(max_atempts=2)  # E: call-overload, reportCallIssue
def misspelt() -> None: ...


@task(max_attempts="two")  # E: call-overload, reportArgumentType
def of_the_wrong_kind() -> None: ...


@task(takes_context=True, max_atempts=2)  # E: call-overload, reportCallIssue
def misspelt_with_context(context: "TaskContext[..., Any]") -> None: ...
