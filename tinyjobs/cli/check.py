"""`check`: the health check as a command, for people, probes and cron. Exits 1 where something fails."""

from collections.abc import Callable, Mapping
from typing import Any

from tinyjobs.cli.console import Console, plain
from tinyjobs.cli.outcome import DONE, FAILED
from tinyjobs.cli.target import Target
from tinyjobs.cli.worker import tell_failures
from tinyjobs.core.watching import Finding
from tinyjobs.operations.check import as_json, is_healthy

type Options = Mapping[str, Any]


def check_store(open_target: Callable[[], Target], options: Options, console: Console) -> int:
    """Print each finding, those that fail first; the exit status. Verbosity 0 leaves out those that are in order."""
    target = open_target()
    try:
        tell_failures(target.discover(options.get("imports") or ()), console)
        found = target.check(max_wait=options["max_wait"], store_warnings=options["store_warnings"])
    finally:
        target.close()
    if options["as_json"]:
        console.json({"ok": is_healthy(found), "findings": [as_json(finding) for finding in found]})
    else:
        for finding in found:
            _print(finding, console)
    return DONE if is_healthy(found) else FAILED


def _print(finding: Finding, console: Console) -> None:
    mark = "FAIL" if not finding.ok else "WARN" if finding.is_warning else "ok"
    write = console.line if mark != "ok" else console.say
    remedy = f" {finding.remedy}" if mark != "ok" and finding.remedy else ""
    write(plain(f"{mark:4}  {finding.name}: {finding.message}{remedy}"))
