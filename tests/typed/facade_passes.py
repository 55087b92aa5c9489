"""Code of a program with the facade that every type checker must take as it is."""

import asyncio
from datetime import timedelta
from typing import assert_type

from tinyjobs import Job, TinyJobs

app = TinyJobs("memory://")


@app.task
def add(a: int, b: int = 1) -> int:
    return a + b


@app.task(name="greet", max_attempts=3, retry_on=(OSError,), timeout=timedelta(seconds=5), store_result=True)
async def greet(name: str, *, loud: bool = False) -> str:
    return name.upper() if loud else name


@app.task
def everything(*numbers: float, **names: str) -> None: ...


def send() -> None:
    assert_type(add(1, 2), int)
    assert_type(add.enqueue(1).result(), int | None)
    assert_type(add.enqueue(1, b=2).wait(timeout=3).result(), int | None)
    assert_type(greet.enqueue("x", loud=True).refresh().result(), str | None)
    assert_type(greet.enqueue("x").id, str)
    assert_type(add.with_options(delay=60, key="one").enqueue(b=2, a=1).result(), int | None)
    assert_type([job.result() for job in greet.enqueue_many([("x",), {"name": "y"}])], list[str | None])
    everything.enqueue(1, 2.5, name="x")
    app.send("elsewhere", args=(1,), kwargs={"b": 2}, priority=3)


async def send_from_a_loop() -> None:
    assert_type((await add.aenqueue(1)).result(), int | None)
    assert_type((await greet.with_options(queue="mail").aenqueue("x", loud=False)).result(), str | None)
    assert_type(await greet("x"), str)
    async with app.serve(concurrency=4) as served:
        assert_type(served, TinyJobs)


@app.on_job_success
def tell(job: Job, result: object, seconds: float) -> None: ...


asyncio.run(send_from_a_loop())
