"""Hooks of an app: what a program asks to be told of while its jobs run. When and where they run is the runtime's."""

from collections.abc import Callable
from typing import Any

from tinyjobs.core.job import Job
from tinyjobs.runtime.hooks import Hooks


class Hooking:
    """The part of an app that registers hooks. They are plain or async functions; one that raises is logged."""

    _hooks: Hooks

    def on_job_start[F: Callable[[Job], object]](self, hook: F) -> F:
        """Call `hook(job)` when an attempt begins."""
        self._hooks.on_start.append(hook)
        return hook

    def on_job_success[F: Callable[[Job, Any, float], object]](self, hook: F) -> F:
        """Call `hook(job, result, seconds)` once a success is recorded."""
        self._hooks.on_success.append(hook)
        return hook

    def on_job_failure[F: Callable[[Job, BaseException, bool], object]](self, hook: F) -> F:
        """Call `hook(job, error, will_retry)` once a failed attempt is recorded."""
        self._hooks.on_failure.append(hook)
        return hook

    def on_error[F: Callable[[str, BaseException], object]](self, hook: F) -> F:
        """Call `hook(loop, error)` when a pass of one of a worker's own loops fails; the loop goes on.

        Called on the spot, on that loop or on the thread that keeps leases, so a plain one must not take long. An async
        one goes on beside it.
        """
        self._hooks.on_error.append(hook)
        return hook
