"""Code of a program with the facade in which every marked line must fail: `# E: mypy's code, pyright's rule`."""

from typing import assert_type

from tinyjobs import TinyJobs

app = TinyJobs("memory://")


@app.task
def add(a: int, b: int = 1) -> int:
    return a + b


@app.task(max_attempts=2)
async def greet(name: str, *, loud: bool = False) -> str:
    return name


add.enqueue("1")  # E: arg-type, reportArgumentType
add.enqueue()  # E: call-arg, reportCallIssue
add.enqueue(1, 2, 3)  # E: call-arg, reportCallIssue
add.enqueue(1, c=2)  # E: call-arg, reportCallIssue
add.enqueue(1, priority=5)  # E: call-arg, reportCallIssue
greet.enqueue("x", True)  # E: call-arg, reportCallIssue
greet.enqueue(name=1)  # E: arg-type, reportArgumentType
add.with_options(priority=5).enqueue("1")  # E: arg-type, reportArgumentType
add.with_options(delay=5).with_options(key="x").enqueue(c=1)  # E: call-arg, reportCallIssue
add.with_options(prioritee=5)  # E: call-arg, reportCallIssue
add.with_options(priority="high")  # E: arg-type, reportArgumentType
add.enqueue_many([1, 2])  # E: list-item, reportArgumentType
add("1")  # E: arg-type, reportArgumentType
assert_type(add.enqueue(1).result(), str)  # E: assert-type, reportAssertTypeFailure
app.send("elsewhere", prioritee=5)  # E: call-arg, reportCallIssue
app.worker(1)  # E: call-arg, reportCallIssue


async def send() -> None:
    await greet.aenqueue(1)  # E: arg-type, reportArgumentType
    await greet.with_options(key="x").aenqueue()  # E: call-arg, reportCallIssue
    greet.aenqueue("x")  # E: unused-coroutine, reportUnusedCoroutine


@app.task(max_atempts=2)  # E: call-overload, reportCallIssue
def misspelt() -> None: ...


@app.task(max_attempts="two")  # E: call-overload, reportArgumentType
def of_the_wrong_kind() -> None: ...
