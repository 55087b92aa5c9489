"""An app inside a server that owns the event loop: opened, served, stopped and closed with it."""

import asyncio
import contextlib
import logging
import signal
import subprocess
import sys
import threading

import pytest

from tinyjobs.app.facade import TinyJobs
from tinyjobs.core.clock import FrozenClock, SystemClock
from tinyjobs.core.errors import AppClosedError, ConfigurationError, StoreReplacedError
from tinyjobs.core.status import JobStatus

#: For what must happen; reached only by a test that fails.
PATIENCE = 60.0


class Work:
    """Tasks of an app, and what the test and they wait for of each other."""

    def __init__(self, app: TinyJobs):
        self.app = app
        self.begun = threading.Event()
        self.released = threading.Event()
        self.ran = []
        self.task = app.task(name="add")(self._add)
        self.atask = app.task(name="aadd")(self._aadd)
        self.hang = app.task(name="hang")(self._hang)
        self.hold = app.task(name="hold")(self._hold)

    def _add(self, number):
        self.ran.append(number)

    async def _aadd(self, number):
        self.ran.append(number)

    async def _hang(self):
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ran.append("cut")

    def _hold(self):
        self.begun.set()
        assert self.released.wait(PATIENCE)

    async def has_begun(self):
        assert await asyncio.to_thread(self.begun.wait, PATIENCE)

    async def status(self, job, expected):
        """The job once it has that status."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = await self.app.aget(job)
                if found.status is expected:
                    return found
                await asyncio.sleep(0.005)


@pytest.fixture
def clock():
    return SystemClock()


@pytest.fixture
def work(app):
    return Work(app)


def test_jobs_run_on_the_servers_own_loop(any_app):
    work = Work(any_app)
    loops = []

    @any_app.task(name="where")
    async def where():
        loops.append(asyncio.get_running_loop())

    async def server():
        async with any_app.serve(poll=0.01) as served:
            assert served is any_app
            jobs = [await work.task.aenqueue(1), await work.atask.aenqueue(2), await where.aenqueue()]
            for job in jobs:
                await work.status(job, JobStatus.SUCCESS)
            return asyncio.get_running_loop()

    loop = asyncio.run(server())
    assert sorted(work.ran) == [1, 2]
    assert loops == [loop]
    with pytest.raises(AppClosedError):
        work.task.enqueue(3)


def test_leaving_gives_coroutines_back_without_an_attempt_and_records_what_ended(work):
    async def server():
        async with work.app.serve(shutdown_timeout=0):
            ended = await work.task.aenqueue(1)
            hanging = await work.hang.aenqueue()
            await work.has_begun()
            await work.status(ended, JobStatus.SUCCESS)
        return ended, hanging

    with work.app:  # kept open, so that what was left can be looked at
        ended, hanging = asyncio.run(server())
        assert work.app.get(ended).status is JobStatus.SUCCESS
        returned = work.app.get(hanging)
        assert (returned.status, returned.attempts) == (JobStatus.QUEUED, 0)


def test_leaving_waits_for_running_jobs_within_the_timeout(work):
    async def server():
        async with work.app.serve(shutdown_timeout=PATIENCE):
            job = await work.hold.aenqueue()
            await work.has_begun()
            asyncio.get_running_loop().call_later(0.05, work.released.set)
        return job

    with work.app:
        assert work.app.get(asyncio.run(server())).status is JobStatus.SUCCESS


def test_an_error_in_the_block_stops_the_worker_closes_the_app_and_goes_on(work):
    async def server():
        async with work.app.serve(shutdown_timeout=0):
            await work.hang.aenqueue()
            await work.has_begun()
            raise KeyError("of the server")

    with pytest.raises(KeyError, match="of the server"):
        asyncio.run(server())
    assert work.ran == ["cut"]
    with pytest.raises(AppClosedError):
        work.task.enqueue(1)


def test_a_cancelled_block_waits_for_its_jobs_and_a_second_cancel_does_not(work):
    async def server():
        async with work.app.serve(shutdown_timeout=PATIENCE):
            job.append(await work.hang.aenqueue())
            await asyncio.Event().wait()

    job = []

    async def outside():
        serving = asyncio.create_task(server())
        await work.has_begun()
        serving.cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        assert not serving.done()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(serving, PATIENCE / 2)

    with work.app:
        asyncio.run(outside())
        assert work.app.get(job[0]).status is JobStatus.QUEUED


def test_without_a_worker_the_app_is_only_opened(work, monkeypatch):
    monkeypatch.delattr(TinyJobs, "worker")

    async def server():
        async with work.app.serve(worker=False):
            job = await work.task.aenqueue(1)
            assert (await work.app.aget(job)).status is JobStatus.QUEUED

    asyncio.run(server())
    with pytest.raises(AppClosedError):
        work.task.enqueue(2)


def test_it_opens_again(work):
    async def server():
        async with work.app.serve(poll=0.01):
            await work.status(await work.task.aenqueue(1), JobStatus.SUCCESS)

    asyncio.run(server())
    asyncio.run(server())
    assert work.ran == [1, 1]


def test_several_apps_on_one_loop(make_app):
    works = [Work(make_app()), Work(make_app())]

    async def server():
        async with works[0].app.serve(poll=0.01), works[1].app.serve(poll=0.01):
            jobs = [await work.task.aenqueue(number) for number, work in enumerate(works)]
            for work, job in zip(works, jobs, strict=True):
                await work.status(job, JobStatus.SUCCESS)

    asyncio.run(server())
    assert [work.ran for work in works] == [[0], [1]]


def test_one_app_served_by_two_loops_at_once(any_app):
    work = Work(any_app)
    both = threading.Barrier(2)

    async def server(number):
        async with any_app.serve(poll=0.01):
            job = await work.atask.aenqueue(number)
            await work.status(job, JobStatus.SUCCESS)
            await asyncio.to_thread(both.wait, PATIENCE)

    with any_app:
        errors = []

        def run(number):
            try:
                asyncio.run(server(number))
            except BaseException as error:
                errors.append(error)
                both.abort()

        threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert not errors
    assert sorted(work.ran) == [0, 1]


@pytest.mark.parametrize("fires", [True, False])
def test_schedules_are_fired_unless_left_to_others(make_app, fires):
    clock = FrozenClock()
    app = make_app(clock=clock)
    fired = threading.Event()

    @app.task(name="tick", cron="* * * * *")
    def tick():
        fired.set()

    async def server():
        async with app.serve(poll=0.01, scheduler=fires), asyncio.timeout(PATIENCE):
            if not fires:
                return await app.aschedules()
            while not fired.is_set():
                clock.advance(10)
                await asyncio.sleep(0.005)
            return await app.aschedules()

    assert len(asyncio.run(server())) == fires
    assert fired.is_set() is fires


@pytest.mark.parametrize("verb", ["serve", "lifespan"])
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"concurency": 2}, r"app\.{}\(\) does not take 'concurency'"),
        ({"concurrency": 0}, r"app\.{}\(\): concurrency: 0 is not a whole number from 1 to 1000"),
        ({"handle_signals": True}, r"app\.{}\(\): handle_signals: signals belong to the server"),
        ({"until_empty": True}, r"app\.{}\(\): until_empty: "),
        ({"worker": False, "lease": 5.0}, r"app\.{}\(\): lease: worker=False runs no worker"),
        ({"worker": "yes"}, r"app\.{}\(\): worker: 'yes' is not True or False"),
    ],
)
def test_what_is_wrong_is_refused_at_once(app, verb, settings, reason):
    with pytest.raises(ConfigurationError, match=reason.format(verb)):
        getattr(app, verb)(**settings)


def test_signals_may_be_said_to_be_the_servers(app):
    app.serve(handle_signals=False)


def test_signal_handlers_and_the_wakeup_descriptor_are_left_alone(work):
    def handlers():
        return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    async def server():
        # The loop's own, which asyncio sets for its self-pipe only when it is asked to handle a signal.
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: None)
        before = handlers(), signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(before[1])
        async with work.app.serve(poll=0.01):
            await work.status(await work.task.aenqueue(1), JobStatus.SUCCESS)
            during = handlers(), signal.set_wakeup_fd(-1)
            signal.set_wakeup_fd(during[1])
        after = handlers(), signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(after[1])
        assert before == during == after

    asyncio.run(server())


def test_what_keeps_the_worker_from_beginning_is_raised_on_entering(make_app):
    app = make_app(schedules={"close_day": {"task": "no.such", "cron": "0 3 * * *"}})

    async def server():
        async with app.serve():
            raise AssertionError("entered")

    with pytest.raises(ConfigurationError, match=r"no\.such"):
        asyncio.run(server())
    with pytest.raises(AppClosedError):
        app.send("anything")


def replace_store(app, monkeypatch):
    """Have a worker of this app find that its store is another one by now, which ends it."""

    async def broken(*args, **kwargs):
        raise StoreReplacedError("somebody replaced the file")

    for verb in ("next_due", "record"):
        monkeypatch.setattr(type(app.store), verb, broken)


def test_a_worker_that_dies_is_logged_told_and_raised_on_leaving(work, monkeypatch, caplog):
    told = []
    work.app.on_error(lambda loop, error: told.append(loop))

    async def server():
        async with work.app.serve(poll=0.01):
            replace_store(work.app, monkeypatch)
            async with asyncio.timeout(PATIENCE):
                while "serve" not in told:
                    await asyncio.sleep(0.005)
            monkeypatch.undo()
            # The server itself goes on.
            return await work.task.aenqueue(1)

    with caplog.at_level(logging.INFO, "tinyjobs.worker"), pytest.raises(StoreReplacedError):
        asyncio.run(server())
    (record,) = [record for record in caplog.records if "inside this server" in record.getMessage()]
    assert record.levelno == logging.ERROR
    assert "somebody replaced the file" in record.getMessage()
    assert record.exc_info[1].args == ("somebody replaced the file",)
    assert told.count("serve") == 1


def test_an_error_of_the_block_wins_over_that_of_a_dead_worker(work, monkeypatch):
    told = asyncio.Event()
    work.app.on_error(lambda loop, error: loop == "serve" and told.set())

    async def server():
        async with work.app.serve(poll=0.01):
            replace_store(work.app, monkeypatch)
            await asyncio.wait_for(told.wait(), PATIENCE)
            raise KeyError("of the server")

    with pytest.raises(KeyError):
        asyncio.run(server())


def test_an_app_closed_under_a_server_leaves_it_without_a_worker_and_says_so(work, caplog):
    async def server():
        async with work.app.serve(poll=0.01):
            await work.app.aclose()

    with caplog.at_level(logging.WARNING, "tinyjobs.worker"):
        asyncio.run(server())
    assert "the server goes on without one" in caplog.text


def test_a_job_that_cancels_every_task_of_the_loop_leaves_the_worker(work):
    @work.app.task(name="vandal")
    async def vandal():
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task() and task is not servers[0]:
                task.cancel()

    servers = []

    async def server():
        servers.append(asyncio.current_task())
        async with work.app.serve(poll=0.01):
            await work.status(await vandal.aenqueue(), JobStatus.SUCCESS)
            await work.status(await work.task.aenqueue(1), JobStatus.SUCCESS)

    asyncio.run(server())


class Starlette:
    """What a framework does with a lifespan."""

    def __init__(self, lifespan):
        self.lifespan = lifespan

    async def run(self, during):
        async with self.lifespan(self) as state:
            assert state is None
            await during()


def test_a_lifespan_may_be_used_again_and_again(work):
    framework = Starlette(work.app.lifespan(poll=0.01))

    async def during():
        await work.status(await work.atask.aenqueue(1), JobStatus.SUCCESS)

    asyncio.run(framework.run(during))
    asyncio.run(framework.run(during))
    assert work.ran == [1, 1]


def test_a_lifespan_inside_one_of_the_programs_own(work):
    said = []

    @contextlib.asynccontextmanager
    async def lifespan(server):
        said.append("begin")
        async with work.app.lifespan(poll=0.01)(server):
            yield
        said.append("end")

    async def during():
        await work.status(await work.task.aenqueue(1), JobStatus.SUCCESS)
        said.append("ran")

    asyncio.run(Starlette(lifespan).run(during))
    assert said == ["begin", "ran", "end"]


def test_no_framework_is_imported():
    program = (
        "import asyncio, sys\n"
        "from tinyjobs import TinyJobs\n"
        "app = TinyJobs('memory://')\n"
        "async def main():\n"
        "    async with app.lifespan()(None):\n"
        "        pass\n"
        "asyncio.run(main())\n"
        "found = {'starlette', 'fastapi', 'anyio', 'uvicorn', 'django'} & set(sys.modules)\n"
        "assert not found, found\n"
    )
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE * 3)
    assert (done.returncode, done.stderr) == (0, "")
