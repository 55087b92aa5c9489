"""From parsed options to what the command does. Both doors call this, with their own way to a target and a console."""

from collections.abc import Callable, Mapping
from typing import Any

from tinyjobs.cli.console import Console
from tinyjobs.cli.figures import show_queues, show_stats
from tinyjobs.cli.jobs import cancel_jobs, list_jobs, retry_jobs, show_job
from tinyjobs.cli.logs import plain_log
from tinyjobs.cli.outcome import failure
from tinyjobs.cli.purge import purge_jobs
from tinyjobs.cli.reload import ReloadedChild, is_possible, supervise
from tinyjobs.cli.scheduler import schedule
from tinyjobs.cli.schedules import (
    delete_schedules,
    list_schedules,
    pause_schedules,
    resume_schedules,
    run_schedules,
)
from tinyjobs.cli.stopping import StopRequest, stop_by_signals
from tinyjobs.cli.target import Target
from tinyjobs.cli.worker import tell_failures, work
from tinyjobs.core.errors import ConfigurationError, TinyJobsError

type Options = Mapping[str, Any]
type OpenTarget = Callable[[], Target]

_LOOKING: dict[str, Callable[[Target, Options, Console], None]] = {
    "jobs list": list_jobs,
    "jobs show": show_job,
    "jobs retry": retry_jobs,
    "jobs cancel": cancel_jobs,
    "purge": purge_jobs,
    "schedules": list_schedules,
    "schedules pause": pause_schedules,
    "schedules resume": resume_schedules,
    "schedules run": run_schedules,
    "schedules delete": delete_schedules,
    "queues": show_queues,
    "stats": show_stats,
}
_RUNNING: dict[str, Callable[[OpenTarget, Options, Console, StopRequest], None]] = {
    "worker": work,
    "scheduler": schedule,
}


def reloads(options: Options, *, by_default: bool, owns_process: bool) -> bool:
    """Whether what was chosen runs in a child that is started again on changes. False for commands that end."""
    if options["chosen"] not in _RUNNING:
        return False
    wanted = options["reload"]
    if wanted and not owns_process:
        raise failure(ConfigurationError("--reload starts the process again, so it works on the command line alone."))
    if wanted is None:
        return by_default and owns_process and is_possible() and not options.get("until_empty")
    return bool(wanted)


def perform(options: Options, open_target: OpenTarget, console: Console, *, reload: bool, owns_process: bool) -> int:
    """Do what was chosen; the exit status. Raises `CommandFailed` for what could not be done."""
    runs_long = options["chosen"] in _RUNNING
    child = ReloadedChild.find(console) if runs_long and reload else None
    with plain_log(console.verbosity if runs_long else 0):
        if child is not None:
            return child.run(lambda stop: _work(options, open_target, console, stop))
        if reload:
            supervise(console)
        elif runs_long:
            stop = StopRequest()
            with stop_by_signals(stop, owns_process=owns_process):
                _work(options, open_target, console, stop)
        else:
            _look(options, open_target, console)
    return 0


def _work(options: Options, open_target: OpenTarget, console: Console, stop: StopRequest) -> None:
    try:
        _RUNNING[options["chosen"]](open_target, options, console, stop)
    except TinyJobsError as error:
        raise failure(error) from error


def _look(options: Options, open_target: OpenTarget, console: Console) -> None:
    try:
        target = open_target()
        try:
            tell_failures(target.discover(options.get("imports") or ()), console)
            target.check_layout()
            _LOOKING[options["chosen"]](target, options, console)
        finally:
            target.close()
    except TinyJobsError as error:
        raise failure(error) from error
