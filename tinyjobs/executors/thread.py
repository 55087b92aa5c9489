"""Plain functions run in a pool of daemon threads. Knows no store.

A thread cannot be stopped, so a timeout here is soft: the call is told to have timed out, and its thread counts as
busy until the function returns. The timeout counts from the moment the thread starts the function. Endings are
handed to the loop in batches: one wake-up of the loop for all that ended meanwhile. In the other direction one thread
is woken for all that is to be run; it wakes the next before it runs its own call, and takes more as long as there are
any, so a list of short calls stays in one thread and long ones spread over all.
"""

import asyncio
import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from tinyjobs.core.context import running_job
from tinyjobs.core.errors import JobTimeout
from tinyjobs.core.logs import facts_of
from tinyjobs.executors.call import Call, Deliver, End, Ending

logger = logging.getLogger("tinyjobs.executors")

# A call this short may be told of together with the ones after it.
_SHORT = 0.0005


class _Run:
    """One call on its way through the pool. `is_settled` is only touched on the loop's thread."""

    __slots__ = ("call", "is_settled", "timer")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.is_settled = False
        self.timer: asyncio.TimerHandle | None = None


class ThreadExecutor:
    """Runs up to `size` calls at once in threads that are started as they are first needed."""

    def __init__(
        self, size: int, deliver: Deliver, monotonic: Callable[[], float], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._size = size
        self._deliver = deliver
        self._monotonic = monotonic
        self._loop = loop
        self._work: deque[_Run] = deque()
        self._wakes: SimpleQueue[bool] = SimpleQueue()
        self._is_waking = False
        self._is_closed = False
        self._busy: dict[int, None] = {}
        self._ended: deque[tuple[_Run, Ending]] = deque()
        self._is_told = False
        self._threads: list[threading.Thread] = []
        self._runs: dict[_Run, None] = {}

    @property
    def free(self) -> int:
        """Threads without a call. One that outlived its call's timeout is not free."""
        return self._size - len(self._runs)

    def running(self) -> list[Call]:
        """The calls whose outcome is still open. Callable from any thread."""
        # Copied in one step: the loop's thread adds and removes while another one asks.
        return [run.call for run in list(self._runs) if not run.is_settled]

    def overdue(self) -> list[Call]:
        """The calls whose timeout has passed while their function goes on."""
        return [run.call for run in self._runs if run.is_settled]

    def start(self, call: Call) -> None:
        """Hand a call to a thread; its ending is delivered on the loop."""
        run = _Run(call)
        if len(self._threads) < min(len(self._runs) + 1, self._size):
            try:
                self._add_thread()
            except RuntimeError as error:
                self._deliver([self._without_thread(call, error)])
                return
        self._runs[run] = None
        self._work.append(run)
        self._wake_one()

    def take_back(self) -> list[Call]:
        """The calls no thread has begun, which will now never run here."""
        taken = []
        while (run := self._next()) is not None:
            del self._runs[run]
            taken.append(run.call)
        return taken

    def close(self) -> None:
        """Let idle threads end. One still running is a daemon and ends with the process."""
        self._is_closed = True
        for _ in self._threads:
            self._wakes.put(True)
        for call in self.overdue():
            text = "a thread still runs %s after its timeout; the process leaves it behind"
            logger.warning(text, call.spec.name, extra=facts_of(call.job))

    def _without_thread(self, call: Call, error: RuntimeError) -> Ending:
        # Python has no other sign of it on all its versions.
        if "interpreter shutdown" in str(error):
            # From here on there are the threads there are. The job is not to blame, and others may run it.
            self._size = len(self._threads)
            return Ending(call, End.NOT_STARTED, 0.0)
        # The system gives no more threads. To wait for a busy one could mean to wait for ever.
        return Ending(call, End.RAISED, 0.0, None, error)

    def _add_thread(self) -> None:
        thread = threading.Thread(target=self._serve, name=f"tinyjobs-job-{len(self._threads) + 1}", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _wake_one(self) -> None:
        # One wake-up under way is enough: whoever gets it looks for work after clearing the mark.
        if not self._is_waking:
            self._is_waking = True
            self._wakes.put(True)

    def _next(self) -> "_Run | None":
        try:
            return self._work.popleft()
        except IndexError:
            return None

    def _serve(self) -> None:
        while self._wakes.get():
            self._is_waking = False
            if self._is_closed:
                return
            if self._ended:
                # Left by a thread that counted on this one to tell, should its next call turn out a long one.
                self._tell_ended()
            me = threading.get_ident()
            self._busy[me] = None
            self._run_all()
            del self._busy[me]

    def _run_all(self) -> None:
        while (run := self._next()) is not None:
            if self._work:
                self._wake_one()
            if run.call.spec.options.timeout is not None:
                self._tell(self._arm, run)
            ending = run_call(run.call, self._monotonic)
            self._ended.append((run, ending))
            if self._work and ending.seconds < _SHORT and len(self._busy) < len(self._threads):
                # The loop would only be woken early, for a part of the group. An idle thread is woken instead: it gets
                # its turn as soon as this one is at rest or busy for long, and tells.
                self._wake_one()
            else:
                self._tell_ended()
            # Or a thread that waits would keep its last job's arguments and result alive.
            del run, ending
        if self._ended:
            self._tell_ended()

    def _tell_ended(self) -> None:
        # Set before the loop is told, and cleared by it before it looks: no ending can be left lying.
        if not self._is_told:
            self._is_told = True
            self._tell(self._collect)

    def _tell(self, callback: Callable[..., None], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            # The loop is gone: the worker was left with this thread still running, and nobody waits for it.
            return

    def _collect(self) -> None:
        self._is_told = False
        endings = []
        while self._ended:
            run, ending = self._ended.popleft()
            del self._runs[run]
            if run.timer is not None:
                run.timer.cancel()
            if run.is_settled:
                text = "the thread of %s came back after its timeout; its slot is free"
                logger.warning(text, run.call.spec.name, extra=facts_of(run.call.job))
            else:
                run.is_settled = True
                endings.append(ending)
        # Also with nothing to deliver: a slot has become free.
        self._deliver(endings)

    def _arm(self, run: _Run) -> None:
        timeout = run.call.spec.options.timeout
        if run in self._runs and timeout is not None:
            run.timer = self._loop.call_later(timeout, self._time_out, run, timeout)

    def _time_out(self, run: _Run, timeout: float) -> None:
        if run not in self._runs or run.is_settled:
            return
        run.is_settled = True
        logger.warning(
            "%s ran longer than its timeout of %g s; its thread cannot be stopped and keeps its slot until it returns",
            run.call.spec.name,
            timeout,
            extra=facts_of(run.call.job),
        )
        error = JobTimeout.after(timeout)
        self._deliver([Ending(run.call, End.TIMED_OUT, timeout, None, error)])


def run_call(call: Call, monotonic: Callable[[], float]) -> Ending:
    """Run a call to its end in this thread, in a context of its own."""
    began = monotonic()
    try:
        value = contextvars.Context().run(_invoke, call)
    except BaseException as error:
        return Ending(call, End.RAISED, monotonic() - began, None, error)
    return Ending(call, End.RETURNED, monotonic() - began, value)


def _invoke(call: Call) -> object:
    running_job.set(call.job)
    if call.around is None:
        return call.spec.call(*call.args, **call.kwargs)
    with call.around(call.job):
        return call.spec.call(*call.args, **call.kwargs)
