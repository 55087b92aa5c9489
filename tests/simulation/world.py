"""One world: what there is, what happens to it, and how it ends. All of it is drawn from the seed."""

import asyncio
import hashlib
from collections.abc import Callable
from random import Random
from typing import Any

from tests.runtime.conftest import Tasks
from tests.simulation.book import Book, Broken
from tests.simulation.link import Link, Weather
from tests.simulation.loop import Process, State, VirtualClock, VirtualLoop, current_process
from tests.simulation.parts import Ids, Timetable, simulated
from tests.simulation.people import operate, send
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.clock import Clock
from tinyjobs.core.codecs.registry import CodecRegistry
from tinyjobs.core.context import current_job
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Execution, Job
from tinyjobs.core.options import TaskOptions
from tinyjobs.core.retention import KEEP_EVERYTHING
from tinyjobs.core.retry import Abandon, Retry
from tinyjobs.core.schedules import Schedule
from tinyjobs.core.sight import every_task
from tinyjobs.core.task import TaskSpec
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.hooks import Hooks
from tinyjobs.runtime.outage import Outage
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.worker import Worker

#: How long trouble lasts, and how long everything has to come to an end after it, in virtual seconds.
CHAOS = 45.0
CALM = 1_200.0

type OpenStore = Callable[[Clock, int], Any]


def in_memory(clock: Clock, seed: int) -> Any:
    return open_backend("memory://", clock=clock)


def at(url: str) -> OpenStore:
    """Worlds in that store, each under a prefix of its own, which stays there. Its blocking client is used."""
    return lambda clock, seed: open_backend(url, clock=clock, prefix=f"world_{seed}")


class Node:
    """A worker process that is started again when it has ended, for as long as there is trouble."""

    def __init__(self, world: "World", number: int) -> None:
        self.world = world
        self.number = number
        self.lives = 0
        self.process: Process | None = None
        self.worker: Worker | None = None

    def start(self) -> None:
        self.lives += 1
        name = f"worker {self.number}.{self.lives}"
        self.process = Process(name, self.world.loop)
        self.world.processes.append(self.process)
        self.worker = self.world.make_worker(name)
        self.world.book.write(name, "starts")
        self.process.start(self._run(self.worker, name))

    async def _run(self, worker: Worker, name: str) -> None:
        try:
            report = await worker.run()
        except BaseException as error:
            self.world.book.failed(error)
        else:
            self.world.book.write(name, f"has ended: {report.succeeded} succeeded, {report.failed} failed")
            self.worker = None

    @property
    def is_up(self) -> bool:
        return self.worker is not None and self.process is not None and self.process.state is not State.DEAD


class World:
    """See the module. `run` raises what a guarantee was broken by."""

    def __init__(self, seed: int, open_store: OpenStore = in_memory) -> None:
        self.seed = seed
        self.dice = dice = Random(seed)
        self.loop = VirtualLoop()
        self.loop.set_exception_handler(self._loop_failed)
        self.clock = VirtualClock(self.loop)
        self.book = Book(self.clock)
        self.store = open_store(self.clock, seed)
        self.ids = Ids()
        self.codec = CodecRegistry().get("json")
        self.processes: list[Process] = []
        self.people: list[asyncio.Task[None]] = []
        # What is drawn while it goes on is drawn in the order of what happens, and the plan is not moved by it.
        self.random = Random(dice.getrandbits(32))
        self.weather = Weather(
            latency=dice.choice([0.0, 0.01, 0.01, 0.5, 3.0]),
            refused=dice.choice([0.0, 0.0, 0.05, 0.2]),
            unanswered=dice.choice([0.0, 0.0, 0.05, 0.2]),
        )
        # Those of a server come by threads, and so whenever they like.
        self.wakes = dice.random() < 0.5 and open_store is in_memory
        self.is_in_step = dice.random() < 0.5
        self.keys = [None, None, None, "k", "l"] if dice.random() < 0.7 else [None]
        self.settings = WorkerSettings(
            handle_signals=False,
            concurrency=1,
            async_concurrency=dice.choice([1, 2, 8]),
            lease=dice.choice([3.0, 6.0, 15.0]),
            reap_interval=dice.choice([2.0, 5.0]),
            poll=dice.choice([2.0, 5.0]),
            shutdown_timeout=dice.choice([0.0, 2.0, 6.0]),
        )
        self.nodes = [Node(self, number) for number in range(1, dice.choice([1, 2, 2, 3]) + 1)]
        self.tasks = self._tasks()
        self.timetable = Timetable(self._schedules(), self.ids) if dice.random() < 0.5 else None

    # --- what there is ----------------------------------------------------------------------------------------------

    def _tasks(self) -> Tasks:
        tasks = Tasks()
        for name, options in {
            "steady": {},
            "timed": {"timeout": 2.0},
            "shaky": {"retry_base": 2.0},
        }.items():
            tasks[name] = TaskSpec.of(name, self._body(name), TaskOptions.parse(options, name))
        return tasks

    def _body(self, name: str) -> Callable[[], Any]:
        async def body() -> int:
            job = current_job()
            process = current_process()
            assert job is not None and process is not None
            self.book.write(process.name, f"runs job {job.id[:8]} under claim {job.claims}")
            self._guarded(lambda: self.book.body_began(job))
            dice = Random(f"{self.seed} {job.id} {job.claims}")
            await asyncio.sleep(dice.choice([0.0, 0.05, 0.5, 2.5, 8.0]))
            if name == "shaky" and dice.random() < 0.5:
                raise dice.choice([ValueError("no"), Retry(in_=1.0), Retry(), Abandon("never")])
            self.book.body_ended(job)
            return 7

        return body

    def _schedules(self) -> dict[str, Schedule]:
        entries = {
            "each": {"task": "steady", "cron": "* * * * *", "misfire": "run_all", "overlap": True},
            "single": {"task": "timed", "cron": "* * * * *", "misfire": self.dice.choice(["skip", "run_once"])},
        }
        return {name: Schedule.parse(name, entry, name, "UTC") for name, entry in entries.items()}

    def link(self) -> Link:
        return Link(self.store.inline(), self.book, self.weather, self.random, wakes=self.wakes)

    def make_worker(self, name: str) -> Worker:
        hooks = Hooks()

        async def succeeded(job: Job, value: Any, seconds: float) -> None:
            self._guarded(lambda: self.book.told_success(job))

        hooks.on_success.append(succeeded)
        engine = Engine(
            store=self.link(),  # type: ignore[arg-type]
            catalogue=self.tasks,
            clock=self.clock,
            random=self.random,
            hooks=hooks,
            outage=Outage(self.clock),
            timetable=self.timetable,
            retention=KEEP_EVERYTHING,
        )
        worker = Worker(engine, self.settings)
        worker.worker_id = name
        return worker

    # --- what happens -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """From the beginning to the end, and hold what is left against what it must be."""
        try:
            with simulated(self.random):
                self.loop.run_until_complete(self._happen())
        finally:
            self._dispose()
        if self.book.errors:
            raise self.book.errors[0]
        self.book.check(*self._read_back())

    async def _happen(self) -> None:
        finish(self.store.inline().setup())
        for node in self.nodes:
            node.start()
        for number in range(1, self.dice.choice([1, 1, 3]) + 1):
            sender = Process(f"sender {number}", self.loop)
            self.processes.append(sender)
            self.people.append(sender.start(send(self, sender.name)))
        operator = Process("operator", self.loop)
        self.processes.append(operator)
        self.people.append(operator.start(operate(self)))
        for _ in range(self.dice.choice([0, 1, 2, 4, 8])):
            await asyncio.sleep(self.dice.random() * CHAOS / 4)
            if self.book.errors or self.loop.time() > CHAOS:
                break
            await self._strike()
        await asyncio.sleep(max(CHAOS - self.loop.time(), 0.0))
        await self._calm()

    async def _strike(self) -> None:
        node = self.dice.choice(self.nodes)
        blow = self.dice.choice(["kill", "kill", "stop", "force", "stall", "stall", "jump", "outage"])
        self.book.write("world", f"{blow} {node.process.name if node.process else ''}")
        if blow == "jump":
            self.clock.jump(self.dice.choice([-15.0, -2.0, 2.0, 10.0, 30.0]))
        elif blow == "outage":
            self.weather.is_out = True
            await asyncio.sleep(self.dice.choice([0.5, 5.0, 20.0]))
            self.weather.is_out = False
        elif node.process is None:
            return
        elif blow == "stall":
            node.process.stall()
            await asyncio.sleep(self.dice.choice([0.5, 5.0, 20.0]))
            node.process.go_on()
        elif blow == "kill":
            node.process.kill()
            await asyncio.sleep(self.dice.random() * 5.0)
            node.start()
        elif node.worker is not None:
            node.process.call(node.worker.force if blow == "force" else node.worker.stop)
            await self._until(lambda: not node.is_up, 60.0, f"{node.process.name} does not stop")
            node.start()

    async def _calm(self) -> None:
        """No more trouble: everything comes to its end, and the workers stop when they are told to."""
        self.book.write("world", "calm")
        self.weather.calm_down()
        for node in self.nodes:
            if not node.is_up:
                node.start()
        await self._until(lambda: all(one.done() for one in self.people), CALM, "somebody sends for ever")
        await self._until(lambda: not self._active(), CALM, "some jobs never end")
        for node in self.nodes:
            if node.process is not None and node.worker is not None:
                node.process.call(node.worker.stop)
        await self._until(lambda: not any(node.is_up for node in self.nodes), 120.0, "a worker does not stop")
        # What a schedule made between the last look and the stop.
        if self._active():
            rest = Node(self, 0)
            self.timetable = None
            rest.start()
            await self._until(lambda: not self._active(), CALM, "some jobs never end")
            if rest.process is not None and rest.worker is not None:
                rest.process.call(rest.worker.stop)
            await self._until(lambda: not rest.is_up, 120.0, "a worker does not stop")

    def _active(self) -> list[Job]:
        return [] if self.book.errors else self.book.unfinished

    async def _until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        ends = self.loop.time() + seconds
        while not condition() and not self.book.errors:
            if self.loop.time() > ends:
                raise Broken(f"{what}: {self.book.unfinished[:3]}")
            await asyncio.sleep(0.5)

    # --- how it ends ------------------------------------------------------------------------------------------------

    def _guarded(self, tell: Callable[[], None]) -> None:
        """Tell the book from where an error would be taken for one of the task's own."""
        try:
            if not self.book.is_closed:
                tell()
        except Broken as error:
            self.book.failed(error)

    def _loop_failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "exception" in context:
            self.book.failed(context["exception"])

    def _read_back(self) -> tuple[dict[str, Job], dict[str, list[Execution]]]:
        store = self.store.inline()
        jobs = {job_id: job for job_id in self.book.jobs if (job := finish(store.get(job_id))) is not None}
        count = sum(finish(store.counts_by_status()).values())
        if count != len(jobs):
            raise Broken(f"the store counts {count} jobs, and has {len(jobs)} of those it said it has")
        return jobs, {job_id: finish(store.executions(job_id)) for job_id in jobs}

    def _dispose(self) -> None:
        """End what is left half done, with a store that is out of reach and a book that is closed."""
        self.weather.is_out = True
        self.book.is_closed = True
        for process in self.processes:
            process.bury()
        for _ in range(5):
            if not (tasks := every_task(self.loop)):
                return
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=30.0))
        raise RuntimeError(f"these tasks do not end: {every_task(self.loop)}")

    def close(self) -> None:
        finish(self.store.inline().close())
        self.loop.close()

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.book.lines).encode()).hexdigest()
