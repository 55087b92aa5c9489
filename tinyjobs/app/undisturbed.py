"""Work that no signal handler can interrupt: another thread does it, and the caller only waits.

Python runs signal handlers on the main thread, between any two of its instructions. One that raises, such as Ctrl-C,
would leave half done whatever keeps books: an election, a loop being started, a close. So the main thread keeps none.
The work goes on when its caller is interrupted. Knows nothing of what is done.
"""

import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue


def undisturbed[T](work: Callable[[], T]) -> T:
    """Return what `work` returns, or raise what it raises. On other threads than the main one it is simply called."""
    if threading.get_ident() != threading.main_thread().ident:
        return work()
    answers: SimpleQueue[_Answer[T]] = SimpleQueue()
    answer: _Answer[T] = _Answer()

    def run() -> None:
        try:
            answer.value = work()
        except BaseException as error:
            answer.error = error
        answers.put(answer)

    thread = threading.Thread(target=copy_context().run, args=(run,), name="tinyjobs-undisturbed", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # At the very end of the interpreter no thread begins any more.
        run()
    # One call of a built-in type. `Future.result` and `Event.wait` keep books of their own.
    answers.get()
    if thread.ident is not None:
        thread.join()  # or a fork right after this would find a thread
    if answer.error is not None:
        try:
            raise answer.error
        finally:
            del answer  # it holds the traceback, which holds this frame
    return answer.value


class _Answer[T]:
    value: T
    error: BaseException | None = None
