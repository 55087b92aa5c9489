"""What a worker says when it begins: what it serves, with what, and how to stop it."""

from collections.abc import Mapping, Sequence

from tinyjobs.cli.console import Console, plain
from tinyjobs.cli.target import Target
from tinyjobs.core.inline import finish
from tinyjobs.runtime.schedules import overview
from tinyjobs.runtime.standalone import StandaloneScheduler
from tinyjobs.runtime.worker import Worker


def print_banner(target: Target, worker: Worker, console: Console, metrics: str | None = None) -> None:
    """Print it; at verbosity 2 with the names of the tasks. `metrics`: where they are served."""
    settings = worker.settings
    names = sorted(target.catalogue.names())
    facts = {
        "jobs of": target.name,
        "store": target.where,
        "queues": ", ".join(settings.queues) or "every queue",
        "tasks": f"{len(names)} found",
        "runs": f"{settings.concurrency} functions in threads and {settings.async_concurrency} coroutines at once",
        "cron": _schedules(target, settings.fires_schedules),
        "also": f"takes back jobs of vanished workers, every {settings.reap_interval:g} s",
        "versions": ", ".join(target.versions()),
    }
    if metrics is not None:
        facts["metrics"] = metrics
    console.say(f"Worker {worker.worker_id}")
    _print(facts, {"tasks": names, "cron": sorted(target.timetable.declared())}, console)
    console.say("Ctrl-C or SIGTERM stops it once running jobs have ended.")


def print_scheduler_banner(target: Target, scheduler: StandaloneScheduler, console: Console) -> None:
    """The same for a scheduler; at verbosity 2 with the names of the schedules that the code declares."""
    facts = {
        "jobs of": target.name,
        "store": target.where,
        "cron": _schedules(target, True),
        "on time": f"up to {scheduler.grace:g} s late; what is later was missed",
        "versions": ", ".join(target.versions()),
    }
    console.say(f"Scheduler {scheduler.scheduler_id}")
    _print(facts, {"cron": sorted(target.timetable.declared())}, console)
    console.say("It runs no jobs. Ctrl-C or SIGTERM stops it.")


def _print(facts: Mapping[str, str], more: Mapping[str, Sequence[str]], console: Console) -> None:
    for name, value in facts.items():
        console.say(f"  {name + ':':<10}{plain(value)}")
        if console.verbosity > 1:
            for line in more.get(name, ()):
                console.say(f"{'':<12}{plain(line)}")


def _schedules(target: Target, fires: bool) -> str:
    found = finish(overview(target.store, target.timetable))
    if not found.active:
        return "none"
    zone = target.timetable.default_zone
    return f"{found.active}, in {zone} unless they say otherwise" if fires else f"{found.active}, fired by others"
