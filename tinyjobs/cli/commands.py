"""From parsed options to what the command does. Both doors call this, with their own way to a target and a console."""

from collections.abc import Callable, Mapping
from typing import Any

from tinyjobs.cli.check import check_store
from tinyjobs.cli.console import Console
from tinyjobs.cli.dashboard import serve_dashboard
from tinyjobs.cli.figures import show_queues, show_stats
from tinyjobs.cli.jobs import cancel_jobs, delete_jobs, list_jobs, retry_jobs, show_job
from tinyjobs.cli.logs import CommandLog
from tinyjobs.cli.outcome import DONE, CommandFailed, failure
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
from tinyjobs.cli.stores import FindStore, url_alone
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
    "jobs delete": delete_jobs,
    "purge": purge_jobs,
    "schedules": list_schedules,
    "schedules pause": pause_schedules,
    "schedules resume": resume_schedules,
    "schedules run": run_schedules,
    "schedules delete": delete_schedules,
    "queues": show_queues,
    "stats": show_stats,
}
_JUDGING: dict[str, Callable[[OpenTarget, Options, Console], int]] = {
    "check": check_store,
}
# Those that tell something and do nothing: with their output lost, nothing is left of them.
_ANSWERING = frozenset({"jobs list", "jobs show", "schedules", "queues", "stats", "check", "verify"})
_RUNNING: dict[str, Callable[[OpenTarget, Options, Console, StopRequest], None]] = {
    "worker": work,
    "scheduler": schedule,
    "dashboard": serve_dashboard,
}


def runs_long(options: Options) -> bool:
    """Whether what was chosen runs until it is told to stop."""
    return options["chosen"] in _RUNNING


def reloads(options: Options, *, by_default: bool, owns_process: bool) -> bool:
    """Whether what was chosen runs in a child that is started again on changes. False for commands that end."""
    if not runs_long(options) or "reload" not in options:
        return False
    wanted = options["reload"]
    if wanted and not owns_process:
        raise failure(ConfigurationError("--reload starts the process again, so it works on the command line alone."))
    if wanted is None:
        return by_default and owns_process and is_possible() and not options.get("until_empty")
    return bool(wanted)


def perform(
    options: Options,
    open_target: OpenTarget,
    console: Console,
    *,
    reload: bool,
    owns_process: bool,
    takes_root: bool = False,
    find_store: FindStore = url_alone,
) -> int:
    """Do what was chosen; the exit status. Raises `CommandFailed` for what could not be done.

    `find_store` reads the name of a store, for commands that take one in place of a target. `takes_root`: nobody but
    this command is in charge of the process's logging.
    """
    is_long = runs_long(options)
    verbosity, log_format = console.verbosity if is_long else 0, options.get("log_format")
    with CommandLog(verbosity, log_format, takes_root=takes_root, warn=console.warn) as log:
        if options.get("names_its_store"):
            log.settle()
            return _told(_verify(options, find_store, console, owns_process=owns_process), options, console)

        def opened() -> Target:
            target = open_target()
            log.settle()  # the program's modules have been imported
            return target

        if is_long:
            console = log.console(console)
        child = ReloadedChild.find(console) if is_long and reload else None
        if child is not None:
            return child.run(lambda stop: _work(options, opened, console, stop))
        if reload:
            supervise(console)
        elif is_long:
            stop = StopRequest()
            with stop_by_signals(stop, owns_process=owns_process):
                _work(options, opened, console, stop)
        elif options["chosen"] in _JUDGING:
            return _told(_judge(options, opened, console), options, console)
        else:
            _look(options, opened, console)
            return _told(DONE, options, console)
    return DONE


def _told(status: int, options: Options, console: Console) -> int:
    """The status; raises `CommandFailed` where the answer is what was asked for, and could not be written."""
    is_answer = options["chosen"] in _ANSWERING or options.get("as_json") or options.get("dry_run")
    if console.lost is not None and is_answer:
        raise CommandFailed(f"The answer could not be written: {console.lost.strerror or console.lost}.")
    return status


def _work(options: Options, open_target: OpenTarget, console: Console, stop: StopRequest) -> None:
    try:
        _RUNNING[options["chosen"]](open_target, options, console, stop)
    except TinyJobsError as error:
        raise failure(error) from error


def _judge(options: Options, open_target: OpenTarget, console: Console) -> int:
    try:
        return _JUDGING[options["chosen"]](open_target, options, console)
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


def _verify(options: Options, find_store: FindStore, console: Console, *, owns_process: bool) -> int:
    # On demand: no other command needs what a harness is made of.
    from tinyjobs.cli.verify import verify

    try:
        return verify(options, find_store, console, owns_process=owns_process)
    except TinyJobsError as error:
        raise failure(error) from error
