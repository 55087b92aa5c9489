"""The app of a run, with its one task. The verifier sends by it, and the workers run it."""

import random
import threading
from collections.abc import Mapping
from typing import Any

from tinyjobs.app.facade import TinyJobs
from tinyjobs.app.task import Task
from tinyjobs.core.context import current_job
from tinyjobs.operations.verify.ledger import Ledger

TASK = "tinyjobs.verify.work"
#: How long a run takes, in seconds.
_SHORTEST, _LONGEST = 0.02, 0.1
_LOOKS = 0.02
#: What is told when every job that waits for anything is to end.
OVER = "over"


def resumed(number: int) -> str:
    """What a probe waits for in the worker that ran it first: that has been suspended and goes on."""
    return f"resumed {number}"


def settled(number: int) -> str:
    """What it waits for in others: the suspended worker has told what it had to tell."""
    return f"settled {number}"


def make_app(
    url: str, options: Mapping[str, Any], ledger: Ledger, token: str, is_orphaned: threading.Event
) -> tuple[TinyJobs, Task[[int, bool], str]]:
    """The app over that store. `is_orphaned` is set once nobody waits for what the jobs do any more."""
    app = TinyJobs(url, **options)
    pauses = random.Random()

    # Each loss of a worker uses an attempt, and a run may bring many.
    @app.task(name=TASK, max_attempts=100, store_result=True)
    def work(number: int, is_probe: bool = False) -> str:
        """Take a while, apply the side effect, and answer in which worker that was."""
        job = current_job()
        assert job is not None
        run = ledger.begin(number, job.id, job.claims, token)
        if is_probe:
            is_suspended = ledger.runs(number)[0].token == token
            _wait_for(resumed(number) if is_suspended else settled(number), ledger, is_orphaned)
        else:
            is_orphaned.wait(_SHORTEST + (_LONGEST - _SHORTEST) * pauses.random())
        ledger.apply(number, run)
        # The same for every job of a worker, so that a group of outcomes may be alike.
        return token

    return app, work


def _wait_for(word: str, ledger: Ledger, is_orphaned: threading.Event) -> None:
    while not ledger.has_told(word, OVER):
        if is_orphaned.wait(_LOOKS):
            return
