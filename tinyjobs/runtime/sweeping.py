"""What every worker does about what is old: it deletes ended jobs when their time is over, and drops old results.

One worker an interval is told to delete, by a mark in the store; results are dropped by each for the tasks it knows,
which does no harm twice. Both go on in short writes with a rest between them, so no claim waits for more than one.
What the store keeps for whoever watches is kept small by each of them as well: a tally of an hour ago need not be told
apart by minutes and workers, nor one of yesterday at all.
"""

from collections.abc import Awaitable

from tinyjobs.core.retention import BATCH, Sweep
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.upkeep import pass_after_pass

#: Between the sweeps of all workers together, and between the looks of one of them.
SWEEP_INTERVAL = 3_600.0
CHECK_INTERVAL = 300.0
#: A sweep stops at so many jobs; the worker that got there begins another at once.
MOST = 50_000
# The rest after one write, by how long that took: a sweep has time, and jobs have not. At most so many seconds.
_REST = 3.0
_LONGEST_REST = 0.25


class Sweeper:
    """The loop that deletes ended jobs by the rule of the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        #: Whether this worker was told to sweep and has not come to an end of it.
        self._is_sweeping = False

    async def run(self) -> None:
        """Look now and then until cancelled; ends at once where nothing is ever deleted."""
        if self._engine.store.capabilities.retention and self._engine.retention.rules:
            await pass_after_pass(
                self._engine,
                self.look,
                CHECK_INTERVAL,
                failing="old jobs could not be deleted, trying again",
                again="old jobs are deleted again",
            )

    async def look(self) -> None:
        """Sweep if it is this worker's turn, on and on while there was more than one sweep may take."""
        self._is_sweeping = self._is_sweeping or await self._engine.store.claim_sweep(SWEEP_INTERVAL)
        while self._is_sweeping:
            self._is_sweeping = await self._sweep() >= MOST

    async def _sweep(self) -> int:
        sweep = Sweep(self._engine.retention.rules, MOST)
        while (status := sweep.status) is not None:
            sweep.took(await _rested(self._engine, self._engine.store.purge(status, sweep.rules[status], sweep.batch)))
        return sweep.total


class Tidier:
    """The loop that keeps small what the store keeps for whoever watches."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def run(self) -> None:
        """Tidy now and then until cancelled; ends at once where the store keeps nothing of that kind."""
        capabilities = self._engine.store.capabilities
        if capabilities.tallies or capabilities.workers_seen:
            await pass_after_pass(
                self._engine,
                self._engine.store.tidy,
                CHECK_INTERVAL,
                failing="old tallies could not be folded, trying again",
                again="old tallies are folded again",
            )


class ResultSweeper:
    """The loop that drops results by the `result_ttl` of each task the engine knows."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        #: For each task the end up to which it has no old results left.
        self._reached: dict[str, float] = {}

    async def run(self) -> None:
        """Look now and then until cancelled; ends at once where the store drops no results."""
        if self._engine.store.capabilities.result_ttl:
            await pass_after_pass(
                self._engine,
                self.look,
                CHECK_INTERVAL,
                failing="old results could not be dropped, trying again",
                again="old results are dropped again",
            )

    async def look(self) -> None:
        """A batch of each task in turn, until none has any left. One whose batch fails sits out; the others go on."""
        waiting = self._tasks()
        # A job may end a little before what was looked through, by a clock that is slightly behind.
        since = {name: max(self._reached.get(name, 0.0) - CHECK_INTERVAL, 0.0) for name in waiting}
        failure: Exception | None = None
        while waiting:
            for name, age in list(waiting.items()):
                try:
                    dropped, since[name] = await _rested(
                        self._engine, self._engine.store.drop_results(name, age, since=since[name], limit=BATCH)
                    )
                except Exception as error:
                    failure = failure or error
                    dropped = 0
                else:
                    self._reached[name] = since[name]
                if not dropped:
                    del waiting[name]
        if failure is not None:
            raise failure

    def _tasks(self) -> dict[str, float]:
        found = ((name, self._engine.catalogue.find(name)) for name in sorted(self._engine.catalogue.names()))
        return {name: spec.options.result_ttl for name, spec in found if spec and spec.options.result_ttl is not None}


async def _rested[T](engine: Engine, write: Awaitable[T]) -> T:
    """The answer, after a rest: whoever else wants to write comes in between."""
    began = engine.clock.monotonic()
    answer = await write
    await engine.clock.sleep(min(_REST * (engine.clock.monotonic() - began), _LONGEST_REST))
    return answer
