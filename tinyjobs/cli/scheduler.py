"""`scheduler`: fires schedules and runs no jobs, until it is told to stop."""

from collections.abc import Callable, Mapping
from typing import Any

from tinyjobs.cli.banner import print_scheduler_banner
from tinyjobs.cli.console import Console
from tinyjobs.cli.stopping import StopRequest
from tinyjobs.cli.target import Target
from tinyjobs.cli.worker import tell_failures, wait_for_layout
from tinyjobs.runtime.ownloop import run_to_end
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.standalone import SchedulerReport, StandaloneScheduler

type Options = Mapping[str, Any]


def schedule(open_target: Callable[[], Target], options: Options, console: Console, stop: StopRequest) -> None:
    """Run a scheduler until it is told to stop. Raises errors of the store that no waiting mends."""
    target = open_target()
    try:
        grace = scheduler_grace(options, target)
        tell_failures(target.discover(options["imports"] or ()), console, with_traceback=console.verbosity > 0)
        if not wait_for_layout(target, console, stop):
            console.say("Stopped before there was anything to fire.")
            return
        for problem in target.timetable.problems():
            console.warn(problem)
        scheduler = target.scheduler(grace)
        print_scheduler_banner(target, scheduler, console)
        stop.attach(scheduler)
        report = run_to_end(_run(scheduler, target))
    finally:
        target.close()
    held_off = f", {report.skipped} held off by jobs that had not ended" if report.skipped else ""
    console.say(f"Stopped: {report.fired} {'job' if report.fired == 1 else 'jobs'} made{held_off}.")


def scheduler_grace(options: Options, target: Target) -> float:
    """The command line over what the program's settings say over the default."""
    grace = options.get("misfire_grace")
    given = {} if grace is None else {"misfire_grace": grace}
    return WorkerSettings.parse({**target.worker_defaults, **given}, "scheduler").misfire_grace


async def _run(scheduler: StandaloneScheduler, target: Target) -> SchedulerReport:
    try:
        return await scheduler.run()
    finally:
        await target.close_worker()
