"""What the processes of the tests run: `python -m tests.schedules.program scheduler|worker …`.

It says "up" once its signal handlers stand, and in the end, when it ends cleanly, what it did. With `longest_sleep` in
its settings its scheduler looks again after so many seconds at the latest, which is half a minute otherwise.
"""

import asyncio
import json
import os
import sys
import threading

from tests.schedules.speed import clock
from tinyjobs.app.facade import TinyJobs
from tinyjobs.cli.stopping import StopRequest, stop_by_signals
from tinyjobs.runtime import scheduler as scheduling
from tinyjobs.runtime.driving import drive
from tinyjobs.runtime.ownloop import run_to_end

URL = os.environ["SCHEDULES_URL"]


def make_app(settings: dict) -> TinyJobs:
    entries = {f"s{number:05}": settings["entry"] for number in range(settings.get("count", 1))}
    app = TinyJobs(URL, clock=clock(), schedules=entries)

    @app.task(name="note")
    async def note() -> None:
        pass

    @app.task(name="hold", max_attempts=3)
    def hold(gate: str) -> None:
        """Runs until the file is there; each start is a line in the one beside it."""
        with open(f"{gate}.starts", "a") as starts:
            starts.write("start\n")
        while not os.path.exists(gate):
            threading.Event().wait(0.02)

    return app


def scheduler(settings: dict) -> None:
    app = make_app(settings)
    request = StopRequest()
    running = app.scheduler(**settings.get("scheduler", {}))
    with stop_by_signals(request, owns_process=True):
        request.attach(running)
        print("up", flush=True)
        report = run_to_end(running.run())
    print(json.dumps({"fired": report.fired, "skipped": report.skipped}), flush=True)


def worker(settings: dict) -> None:
    app = make_app(settings)
    running = app.worker(**settings.get("worker", {}))
    run = running.run

    async def announced():
        print("up", flush=True)
        return await run()

    running.run = announced  # type: ignore[method-assign]
    report = drive(running)
    asyncio.run(app.aclose())
    print(json.dumps({"succeeded": report.succeeded}), flush=True)


def main(role: str, settings: dict) -> None:
    scheduling._LONGEST_SLEEP = settings.get("longest_sleep", scheduling._LONGEST_SLEEP)
    {"scheduler": scheduler, "worker": worker}[role](settings)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
