"""`worker`: waits for its tables, says what it is, runs, and says what it did.

A stop may be asked for at any moment, from the first import to the last line. Nothing that is printed here is worth
more than the jobs: output that cannot be written is dropped.
"""

import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from tinyjobs.cli.banner import print_banner
from tinyjobs.cli.console import Console, plain_lines
from tinyjobs.cli.imports import Failures, told
from tinyjobs.cli.options import METRICS_HOST
from tinyjobs.cli.outcome import FORCED, CommandFailed
from tinyjobs.cli.schedules import nobody_fires
from tinyjobs.cli.stopping import StopRequest
from tinyjobs.cli.target import Target
from tinyjobs.core.errors import SchemaMissingError, StoreBusyError
from tinyjobs.core.inline import finish
from tinyjobs.runtime.ownloop import run_to_end
from tinyjobs.runtime.schedules import overview
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.worker import Worker, WorkerReport

type Options = Mapping[str, Any]

_FROM_OPTIONS = (
    "queues",
    "concurrency",
    "async_concurrency",
    "lease",
    "reap_interval",
    "poll",
    "shutdown_timeout",
    "stall",
    "scheduler",
    "misfire_grace",
)
_SECONDS_BETWEEN_LOOKS = 0.5


def work(open_target: Callable[[], Target], options: Options, console: Console, stop: StopRequest) -> None:
    """Run a worker until it is told to stop. Raises `CommandFailed` when it was forced to, and errors of the store."""
    target = open_target()
    try:
        settings = worker_settings(options, target)
        tell_failures(target.discover(options["imports"] or ()), console, with_traceback=console.verbosity > 0)
        if not wait_for_layout(target, console, stop):
            console.say("Stopped before there was anything to run.")
            return
        warn_of_surprises(target, settings, console)
        worker = target.worker(settings)
        with served_metrics(target, worker, options) as metrics:
            print_banner(target, worker, console, metrics)
            stop.attach(worker)
            worker.owns_loop = True
            report = run_to_end(_run(worker, target))
    finally:
        target.close()
    console.say(last_line(report, settings))
    if report.forced:
        raise CommandFailed(
            "A second signal ended the worker: coroutines were cut and their jobs went back to the queue.", FORCED
        )


@contextmanager
def served_metrics(target: Target, worker: Worker, options: Options) -> Generator[str | None]:
    """Serve the worker's metrics while the block runs, if that was asked for; where they are."""
    port = options.get("metrics_port")
    if port is None:
        yield None
        return
    # Only now: who does not serve metrics has no use for a web server.
    from tinyjobs.operations.exporter import Exporter

    host = options.get("metrics_host") or METRICS_HOST
    with Exporter(target.metrics, lambda: finish(worker.engine.store.inline().stats()), host, port) as exporter:
        yield exporter.url


def worker_settings(options: Options, target: Target) -> WorkerSettings:
    """The command line over what the program's settings say over the defaults."""
    given = {name: options[name] for name in _FROM_OPTIONS if options.get(name) is not None}
    if isinstance(given.get("queues"), str):  # from a call in Python
        given["queues"] = given["queues"].split(",")
    given["until_empty"] = bool(options.get("until_empty"))
    return WorkerSettings.parse({**target.worker_defaults, **given, "handle_signals": False}, "worker")


def tell_failures(failures: Failures, console: Console, *, with_traceback: bool = False) -> None:
    """Name the modules that could not be imported; the program goes on without them."""
    for module, error in failures.items():
        console.warn(f"{module} could not be imported, so its tasks are unknown here: {told(error)}")
        if with_traceback and error.__traceback__ is not None:
            for line in plain_lines("".join(traceback.format_exception(error))):
                console.warn(f"  {line}")


def wait_for_layout(target: Target, console: Console, stop: StopRequest) -> bool:
    """Return once the tables are there, with one message if that takes a while. False: a stop was asked for."""
    has_told = False
    while not stop.is_asked:
        try:
            target.check_layout()
        except (SchemaMissingError, StoreBusyError) as error:
            if not has_told:
                console.warn(f"{error} This process waits until that is so, and looks again by itself.")
                has_told = True
            stop.wait(_SECONDS_BETWEEN_LOOKS)
            continue
        if has_told:
            console.say("The tables are there now.")
        return True
    return False


def warn_of_surprises(target: Target, settings: WorkerSettings, console: Console) -> None:
    """Say what makes the worker do less than expected: a queue nobody uses, no tasks at all, the target's own words."""
    declared = set(target.declared_queues())
    for queue in settings.queues:
        if queue not in declared and not finish(target.store.list(queue=queue, limit=1)).jobs:
            known = ", ".join(sorted(declared)) or "none"
            console.warn(f"No task and no job uses the queue {queue!r}. Queues that tasks name: {known}.")
    if not target.catalogue.names():
        console.warn("No tasks were found, so every job stays in its queue. --import names modules to look in.")
    _warn_of_schedules(target, settings, console)
    for warning in target.warnings():
        console.warn(warning)


def _warn_of_schedules(target: Target, settings: WorkerSettings, console: Console) -> None:
    for problem in target.timetable.problems():
        console.warn(problem)
    if settings.fires_schedules:
        return
    found = finish(overview(target.store, target.timetable, settings.misfire_grace))
    if found.active:
        flag = "--until-empty" if settings.scheduler else "--no-scheduler"
        them = "1 schedule" if found.active == 1 else f"{found.active} schedules"
        console.warn(nobody_fires(found) or f"With {flag} this worker does not fire the {them}; others have to.")


async def _run(worker: Worker, target: Target) -> WorkerReport:
    try:
        return await worker.run()
    finally:
        # What still waits for the store now, such as a renewal of leases, is worth no wait of the process.
        worker.engine.store.hurry(worker.engine.clock.monotonic())
        await target.close_worker()


def last_line(report: WorkerReport, settings: WorkerSettings) -> str:
    """What the worker did, in one line."""
    ran = report.succeeded + report.failed
    parts = [f"{ran} {'job' if ran == 1 else 'jobs'} ran", f"{report.failed} failed"]
    if report.retried:
        parts.append(
            f"{report.retried} {'attempt' if report.retried == 1 else 'attempts'} failed with another to follow"
        )
    if report.expired:
        parts.append(f"{report.expired} expired before they could run")
    if settings.until_empty:
        parts.append(f"{report.left_delayed} {'waits' if report.left_delayed == 1 else 'wait'} for later")
    return f"{'Done' if settings.until_empty else 'Stopped'}: {', '.join(parts)}."
