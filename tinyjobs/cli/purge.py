"""`purge`: deletes ended jobs that are old enough, and says by which rule, how many, and how many are kept."""

from collections.abc import Mapping
from typing import Any

from tinyjobs.cli.console import Console, shown_seconds
from tinyjobs.cli.outcome import FORCED, CommandFailed
from tinyjobs.cli.target import Target
from tinyjobs.core.inline import finish
from tinyjobs.core.retention import FINAL_STATUSES, Purged, Sweep, check_age, chosen_rules
from tinyjobs.core.status import JobStatus
from tinyjobs.runtime.purging import block, purge

type Options = Mapping[str, Any]

#: Jobs deleted between two lines that say how far it is.
_STEP = 10_000


def purge_jobs(target: Target, options: Options, console: Console) -> None:
    """Delete, or with `--dry-run` count, what the retention or `--older-than` allows."""
    statuses = [JobStatus(status) for status in options["statuses"] or ()]
    age = None if options["older_than"] is None else check_age(options["older_than"], "--older-than")
    rules = chosen_rules(target.retention, age, statuses)
    as_json = options["as_json"]
    if not as_json:
        for status in statuses or FINAL_STATUSES:
            console.say(_rule(status, rules.get(status)))
    if options["dry_run"]:
        done = finish(purge(target.store, rules, rest=block, is_dry_run=True))
    else:
        done = _purge(target, rules, console, is_quiet=as_json)
    if as_json:
        console.json(_as_dict(done))
    else:
        _print(done, console)


def _purge(target: Target, rules: Mapping[JobStatus, float], console: Console, *, is_quiet: bool) -> Purged:
    store = target.store
    meant = 0 if is_quiet else sum(finish(store.purgeable(status, age)) for status, age in rules.items())
    told = deleted = 0

    def progress(sweep: Sweep) -> None:
        nonlocal told, deleted
        deleted = sweep.total
        if not is_quiet and deleted - told >= _STEP:
            told = deleted
            console.say(f"{deleted} of {max(meant, deleted)} deleted")

    try:
        return finish(purge(store, rules, rest=block, progress=progress))
    except KeyboardInterrupt:
        raise CommandFailed(f"Interrupted. {deleted} jobs were deleted before, and stay so.", FORCED) from None


def _rule(status: JobStatus, age: float | None) -> str:
    if age is None:
        return f"{status}: kept for ever"
    return (
        f"{status}: those that ended {shown_seconds(age)} ago or earlier" if age else f"{status}: all that have ended"
    )


def _print(done: Purged, console: Console) -> None:
    head = ("STATUS", "WOULD GO" if done.is_dry_run else "DELETED", "KEPT")
    console.table(head, [(status.value, done.deleted.get(status, 0), done.kept[status]) for status in FINAL_STATUSES])


def _as_dict(done: Purged) -> dict[str, object]:
    return {
        "dry_run": done.is_dry_run,
        "older_than_seconds": {status.value: done.rules.get(status) for status in FINAL_STATUSES},
        "deleted": {status.value: done.deleted.get(status, 0) for status in FINAL_STATUSES},
        "kept": {status.value: done.kept[status] for status in FINAL_STATUSES},
    }
