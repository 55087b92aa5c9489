"""What a worker says when it begins: what it serves, with what, and how to stop it."""

from tinyjobs.cli.console import Console, plain
from tinyjobs.cli.target import Target
from tinyjobs.runtime.worker import Worker


def print_banner(target: Target, worker: Worker, console: Console) -> None:
    """Print it; at verbosity 2 with the names of the tasks."""
    settings = worker.settings
    names = sorted(target.catalogue.names())
    facts = {
        "jobs of": target.name,
        "store": target.where,
        "queues": ", ".join(settings.queues) or "every queue",
        "tasks": f"{len(names)} found",
        "runs": f"{settings.concurrency} functions in threads and {settings.async_concurrency} coroutines at once",
        "also": f"takes back jobs of vanished workers, every {settings.reap_interval:g} s",
        "versions": ", ".join(target.versions()),
    }
    console.say(f"Worker {worker.worker_id}")
    for name, value in facts.items():
        console.say(f"  {name + ':':<10}{plain(value)}")
        if name == "tasks" and console.verbosity > 1:
            for task in names:
                console.say(f"{'':<12}{plain(task)}")
    console.say("Ctrl-C or SIGTERM stops it once running jobs have ended.")
