"""Tasks on an event loop that the jobs running there do not see."""

import asyncio
from typing import Any

# Held here until they are done: the loop itself holds none of its tasks, and one that is dropped while it waits ends
# with a complaint.
_hidden: set[asyncio.Task[Any]] = set()


def out_of_sight[T](task: asyncio.Task[T]) -> asyncio.Task[T]:
    """Keep a task of our own out of `asyncio.all_tasks()`: a job that cancels all of those means its own.

    Whoever made the task has to end it.
    """
    asyncio.tasks._unregister_task(task)
    for other in [other for other in list(_hidden) if other.get_loop().is_closed()]:
        _hidden.discard(other)
    _hidden.add(task)
    task.add_done_callback(_hidden.discard)
    return task


def every_task(loop: asyncio.AbstractEventLoop) -> set[asyncio.Task[Any]]:
    """What has to end before the loop may be closed: its tasks, in sight or not. On the loop's own thread."""
    hidden = {task for task in list(_hidden) if not task.done() and task.get_loop() is loop}
    return hidden | asyncio.all_tasks(loop)
