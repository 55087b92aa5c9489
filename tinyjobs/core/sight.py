"""Tasks on an event loop that the jobs running there do not see."""

import asyncio


def out_of_sight[T](task: asyncio.Task[T]) -> asyncio.Task[T]:
    """Keep a task of our own out of `asyncio.all_tasks()`: a job that cancels all of those means its own.

    Whoever made the task has to hold it and to end it.
    """
    asyncio.tasks._unregister_task(task)
    return task
