"""`dashboard`: serves the dashboard alone until it is told to stop."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from tinyjobs.cli.console import Console
from tinyjobs.cli.stopping import StopRequest
from tinyjobs.cli.target import Target
from tinyjobs.cli.worker import tell_failures

type Options = Mapping[str, Any]

# A floor above this one, which imports Django; loaded by its name when it is wanted, as an extension would be.
_SERVING = "tinyjobs.dashboard.serving"
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def serve_dashboard(open_target: Callable[[], Target], options: Options, console: Console, stop: StopRequest) -> None:
    """Do it. Raises `ConfigurationError` where it cannot listen, or where the Django that is there lacks something."""
    target = open_target()
    try:
        tell_failures(target.discover(options["imports"] or ()), console)
        served: Any = importlib.import_module(_SERVING).served
        with served(target, options["host"], options["port"], options["hosts"] or ()) as url:
            console.say(f"The dashboard of {target.name}, {target.where}: {url}")
            if options["host"] not in _LOOPBACK:
                console.warn(
                    "There is no login: whoever reaches this address can retry, cancel and delete jobs. "
                    "Let nobody reach it but the proxy that guards it."
                )
            stop.wait()
    finally:
        target.close()
